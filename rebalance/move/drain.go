package move

import (
	"slices"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Drain is whom a move waits for: every session that was registered before the
// move was prepared. A session that is registered later has the move in its
// table before it routes its first record.
//
// It belongs to one goroutine at a time. A copy is independent.
type Drain struct {
	move    string
	waiting []routing.SessionID // never changed in place
	over    []routing.SessionID
}

// NewDrain takes the sessions that the routing topic held when it was read to
// its end. That read must begin after the move was prepared: a session that
// came in between two would be missed by the other order.
func NewDrain(move string, sessions []routing.Session) Drain {
	d := Drain{move: move}
	for _, s := range sessions {
		d.waiting = append(d.waiting, s.ID)
	}
	return d
}

// Lease takes a session's latest lease.
func (d *Drain) Lease(l routing.Lease) {
	if slices.Contains(l.Drained, d.move) {
		d.Ended(l.ID)
	}
}

// Ended takes the clean end of a session, which has nothing in flight.
func (d *Drain) Ended(id routing.SessionID) {
	d.waiting = slices.DeleteFunc(slices.Clone(d.waiting), func(w routing.SessionID) bool { return w == id })
}

// Expired notes that the session's lease is over by the observer's own clock,
// counted from when it had read the sessions topic to its end or saw the latest
// lease. The session is passed over: it finds out before it acknowledges a
// record to its application.
func (d *Drain) Expired(id routing.SessionID) {
	if slices.Contains(d.waiting, id) {
		d.Ended(id)
		d.over = append(slices.Clip(d.over), id)
	}
}

// Waiting lists the sessions that are still waited for.
func (d *Drain) Waiting() []routing.SessionID { return slices.Clone(d.waiting) }

// Over lists the sessions that were passed over.
func (d *Drain) Over() []routing.SessionID { return slices.Clone(d.over) }

// Done tells whether the fences may be written.
func (d *Drain) Done() bool { return len(d.waiting) == 0 }
