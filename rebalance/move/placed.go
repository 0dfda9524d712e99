package move

import (
	"slices"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Placed is a record as it lies in a log, with what its tl-route header says. A
// record without the header has the zero Kind and Epoch.
type Placed struct {
	// Tenant of the record.
	Tenant []byte
	// Slot of the tenant; -1 is none.
	Slot int32
	// Kind of the unit that routed the record.
	Kind routing.Kind
	// Epoch of the placement that routed it; 0 is since ever.
	Epoch uint64
	// Partition and Offset where it lies.
	Partition int32
	Offset    int64
}

// LateVerdict is what becomes of a record whose acknowledgement came too late.
type LateVerdict uint8

// The verdicts of Late.
const (
	// Acknowledge passes the acknowledgement on: the record lies where workers
	// take it as rightly routed.
	Acknowledge LateVerdict = iota
	// Wait keeps it back until the unit's open move has ended: the fence may
	// lie before the record and still be confirmed.
	Wait
	// Resend drops it: the record lies behind a confirmed fence, where workers
	// set it aside. It is sent to the new home with its own session and
	// sequence, before anything newer of the unit.
	Resend
)

// String gives the verdict's word.
func (v LateVerdict) String() string {
	switch v {
	case Acknowledge:
		return "acknowledge"
	case Wait:
		return "wait"
	case Resend:
		return "resend"
	}
	return "unknown"
}

// InTime tells whether an acknowledgement may be passed on as it comes: the
// session still holds the registration under which the record was sent, and its
// lease is valid now, after the broker answered. Registrations of a session are
// counted; a new one does not save what was sent under the one before, since a
// move may have passed over the session in between. Anything else is for Late.
func InTime(sent, now uint64, leased bool) bool { return leased && sent == now }

// Late judges a written record whose acknowledgement was not InTime. First the
// session's lease must be seen to hold after the record was answered, then the
// table be taken: it has every move that can have passed over the session by
// then, since a registration reads to its own record. For moves that were
// prepared later the session was waited for, so their fences lie behind the
// record.
func Late(t *routing.Topic, r Placed) LateVerdict {
	if !t.Moved() {
		return Acknowledge
	}
	var room [8]*routing.Move
	verdict := Acknowledge
	for _, m := range t.AppendMoves(room[:0], r.Tenant, r.Slot) {
		switch {
		case !leaves(m, r):
		case behindFence(m, r):
			return Resend
		case m.Open():
			verdict = Wait
		}
	}
	return verdict
}

// Stale is rule R1: the record was written into a home that its unit had left
// before. It must not be handled, and not be forwarded. On topics whose
// producers may lack the wrapper nothing is stale.
func Stale(t *routing.Topic, r Placed) bool {
	if !t.Moved() || !t.Wrapped() {
		return false
	}
	var room [8]*routing.Move
	for _, m := range t.AppendMoves(room[:0], r.Tenant, r.Slot) {
		if leaves(m, r) && behindFence(m, r) {
			return true
		}
	}
	return false
}

// leaves tells whether the move takes the record's unit out of the partition
// where the record lies, and was prepared after the record was routed.
func leaves(m *routing.Move, r Placed) bool {
	return r.Epoch < m.Epoch && m.Covers(r.Tenant, r.Slot, r.Kind) && from(m, r.Partition)
}

func behindFence(m *routing.Move, r Placed) bool {
	x, ok := m.FenceIn(r.Partition)
	return ok && r.Offset > x
}

// Behind is rule R3: the table cannot know all that the record was routed by,
// so it must be read to its end before the record is judged. A record that is
// still ahead of a table read to its end was stamped by another table's epochs:
// judge it by this one.
func Behind(t *routing.Topic, r Placed) bool {
	if r.Epoch > t.Epoch() {
		return true
	}
	if r.Epoch == 0 || !t.Moving() {
		return false
	}
	// An open move's epoch is in no record before the switch, and no other
	// change gives its unit a later one while it is open.
	var room [8]*routing.Move
	for _, m := range t.AppendMoves(room[:0], r.Tenant, r.Slot) {
		if m.Open() && r.Epoch >= m.Epoch {
			return true
		}
	}
	return false
}

// from tells whether the partition is of the move's old home.
func from(m *routing.Move, partition int32) bool { return slices.Contains(m.From, partition) }
