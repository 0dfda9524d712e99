package move

import (
	"slices"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Verdict is what a worker does with a record.
type Verdict uint8

// The verdicts of Partition.Judge.
const (
	// Run hands the record to its lane, once that is Done in the homes that
	// come with the verdict.
	Run Verdict = iota
	// Refresh reads the table to its end and judges again.
	Refresh
	// Hold keeps the lane where it is until a move has ended: judge again after
	// See or Synced.
	Hold
	// Quarantine sets the record aside: rule R1.
	Quarantine
)

// String gives the verdict's word.
func (v Verdict) String() string {
	switch v {
	case Run:
		return "run"
	case Refresh:
		return "refresh"
	case Hold:
		return "hold"
	case Quarantine:
		return "quarantine"
	}
	return "unknown"
}

// Partition is what a worker knows of moves out of a partition that it owns:
// the fences that it has read and whose moves have not ended.
//
//	Assign(table read to its end) ─▶ holds of open moves out of here
//	Fence(…) ─▶ hold ─▶ See, Synced: the move has ended ─▶ no hold; R1 by the table
//
// The zero value holds nothing back. It belongs to one goroutine at a time. A copy
// is independent.
type Partition struct {
	holds []hold // never changed in place, so that copies may share it
	asked uint64 // fences that the table could not explain so far
}

// hold is a unit that waits for the end of its move.
type hold struct {
	move   string
	unit   routing.Unit
	offset int64  // of the fence; unread for one that nobody may have read
	ask    uint64 // above 0: the table did not know the move
}

// unread is below every offset.
const unread = -1

// Assign begins with a partition that the worker has been given. The table must
// have been read to its end after that: rule R0.
func Assign(t *routing.Topic, partition int32) Partition {
	var p Partition
	for _, m := range Waits(t, partition) {
		p.holds = append(p.holds, hold{move: m.ID, unit: m.Unit(), offset: unread})
	}
	return p
}

// Fence notes a fence that has been read at an offset. It may be noted twice.
// With a table that explains it nothing has to be held, or held long; one that
// does not know its move may be old, so Unexplained must be followed by a read
// of the table to its end.
func (p *Partition) Fence(t *routing.Topic, c routing.Control, offset int64) {
	for _, h := range p.holds {
		if h.offset == offset {
			return
		}
	}
	h := hold{move: c.Move, unit: c.Unit, offset: offset}
	if _, known := t.Move(c.Move); !known {
		p.asked++
		h.ask = p.asked
	}
	p.holds = append(slices.Clip(p.holds), h)
	p.See(t)
}

// Unexplained tells whether the table must be read to its end for a fence, and
// the number to hand to Synced after a read that began after this call.
func (p *Partition) Unexplained() (ask uint64, needed bool) {
	for _, h := range p.holds {
		needed = needed || h.ask > 0
	}
	return p.asked, needed
}

// See takes a newer table. ended tells whether a unit need no longer wait, so
// that lanes on Hold are judged again.
func (p *Partition) See(t *routing.Topic) (ended bool) { return p.Synced(t, 0) }

// Synced takes a table that was read to its end by a read that began after
// Unexplained gave ask. See is enough for any other table.
func (p *Partition) Synced(t *routing.Topic, ask uint64) (ended bool) {
	if len(p.holds) == 0 {
		return false
	}
	var left []hold
	for _, h := range p.holds {
		m, known := t.Move(h.move)
		switch {
		case known && m.Open():
			h.ask = 0
			left = append(left, h)
		case !known && h.ask > ask:
			left = append(left, h)
		}
	}
	ended = len(left) < len(p.holds)
	p.holds = left
	return ended
}

// Unfinished gives the offset of the first fence whose move has not ended. A
// commit's watermark and frontier must not pass it.
func (p *Partition) Unfinished() (offset int64, ok bool) {
	for _, h := range p.holds {
		if h.offset != unread && (!ok || h.offset < offset) {
			offset, ok = h.offset, true
		}
	}
	return offset, ok
}

// Holding tells whether any unit waits for the end of a move.
func (p *Partition) Holding() bool { return len(p.holds) > 0 }

// Judge says what to do with a record that lies in this partition, whose fences
// below the record have been noted. readToEnd tells that the table was read to
// its end after the record was read. With Run the homes appended to dst must
// all be Done for the record's lane first: rule R2. Once that is so for a lane
// and an epoch it stays so, and the homes of its later records of that epoch
// need not be asked for again.
func (p *Partition) Judge(t *routing.Topic, r Placed, readToEnd bool, dst []Home) (Verdict, []Home) {
	if !readToEnd && Behind(t, r) {
		return Refresh, dst
	}
	if Stale(t, r) {
		return Quarantine, dst
	}
	for i := range p.holds {
		if p.holds[i].covers(r) {
			return Hold, dst
		}
	}
	return Run, Earlier(t, r, dst)
}

// covers tells whether the record waits here. One before the fence does not,
// and neither does one behind it that the move's epoch cannot concern: it would
// be known to be over.
func (h *hold) covers(r Placed) bool {
	if r.Offset <= h.offset {
		return false
	}
	if h.unit.Tenant != "" {
		return h.unit.Tenant == string(r.Tenant)
	}
	if r.Kind != routing.KindSlot {
		return false
	}
	_, found := slices.BinarySearch(h.unit.Slots, r.Slot)
	return found
}
