package move

import (
	"cmp"
	"slices"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Home is a partition that a unit has left.
type Home struct {
	// Move that took it away.
	Move string
	// Partition that it left, and the offset of the confirmed fence there.
	Partition int32
	Fence     int64
	// Rekeyed says that other records shared a lane there than share the
	// record's, by this move or a later one, so that the lane's name says
	// nothing about that home.
	Rekeyed bool
}

// GroupCommit is what a consumer group has committed for a partition, as an
// OffsetFetch gave it. The zero value is no commit.
type GroupCommit struct {
	// Watermark is the committed offset: everything below is done.
	Watermark int64
	// Valid says that the commit's metadata can be trusted: everything below
	// Frontier is done, except in the lanes that Names knows.
	Valid    bool
	Frontier int64
	// Names gives the first unfinished offset of a named lane. It may be nil.
	Names func(lane uint32) (offset int64, named bool)
}

// Earlier is rule R2: it appends to dst every earlier home of the record, by the
// moves that the table holds of its tenant and its slot. The record may run once
// its lane is Done in all of them. The result may name the partition where the
// record lies. The table must not be Behind the record.
func Earlier(t *routing.Topic, r Placed, dst []Home) []Home {
	if r.Epoch == 0 || !t.Moved() {
		return dst
	}
	var room [8]*routing.Move
	for _, m := range t.AppendMoves(room[:0], r.Tenant, r.Slot) {
		if m.Epoch > r.Epoch {
			break // they ascend by epoch
		}
		dst = appendHomes(dst, m, r)
	}
	return dst
}

// appendHomes lists a tenant's old home with all its partitions, and of a slots'
// move only the partition that the record's slot left.
func appendHomes(dst []Home, m *routing.Move, r Placed) []Home {
	i, ofSlot := slices.BinarySearchFunc(m.Slots, r.Slot, func(s routing.SlotMove, slot int32) int { return cmp.Compare(s.Slot, slot) })
	for _, f := range m.Fences {
		if !ofSlot || f.Partition == m.Slots[i].From {
			dst = append(dst, Home{m.ID, f.Partition, f.Offset, m.FromSpread != spread(r.Kind)})
		}
	}
	return dst
}

// spread is how a record's placement shared out the records of its tenant,
// which decides what shares its lane.
func spread(k routing.Kind) routing.Spread {
	switch k {
	case routing.KindSpreadKey:
		return routing.SpreadKey
	case routing.KindSpreadRandom:
		return routing.SpreadRandom
	case routing.KindSlot, routing.KindTenant:
	}
	return routing.SpreadNone
}

// Done tells by the group's commit in the home whether the lane has nothing
// left there: everything up to the fence is done, or the frontier is above the
// fence and the lane is not named at or below it. Nothing but a commit is
// evidence: what a worker says that it has done it may have to do again.
func (h Home) Done(c GroupCommit, lane uint32) bool {
	if c.Watermark > h.Fence {
		return true
	}
	if h.Rekeyed || !c.Valid || c.Frontier <= h.Fence {
		return false
	}
	if c.Names == nil {
		return true
	}
	at, named := c.Names(lane)
	return !named || at > h.Fence
}

// Undone keeps of homes, in their place, those where the lane is not Done by the
// commits that are known. Once the result is empty the lane's records up to that
// epoch may run for good: commits do not go back.
func Undone(homes []Home, lane uint32, commit func(partition int32) (GroupCommit, bool)) []Home {
	left := homes[:0]
	for _, h := range homes {
		if c, ok := commit(h.Partition); !ok || !h.Done(c, lane) {
			left = append(left, h)
		}
	}
	return left
}
