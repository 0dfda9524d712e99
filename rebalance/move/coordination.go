package move

import (
	"slices"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Action is what a coordinator does next.
type Action uint8

// The actions of Coordination.Next.
const (
	// Prepare commits the move as open.
	Prepare Action = iota
	// AwaitDrained reads the routing topic to its end and waits for the sessions
	// that it holds then: see Drain.
	AwaitDrained
	// WriteFence writes the fence into Next's partition, and waits until all
	// replicas have it. If the answer is lost, it is written again.
	WriteFence
	// Switch commits the move as switched, with Fences.
	Switch
	// Abort takes the move out of the table.
	Abort
	// Look reads the table to its end, for Saw.
	Look
	// Stop is the end; see Outcome.
	Stop
)

// String gives the action's word.
func (a Action) String() string {
	names := [...]string{"prepare", "await drained", "write fence", "switch", "abort", "look", "stop"}
	if int(a) < len(names) {
		return names[a]
	}
	return "unknown"
}

// Outcome is how a coordination ended.
type Outcome uint8

// The outcomes.
const (
	// Unfinished is none yet.
	Unfinished Outcome = iota
	// Refused is a move that was never prepared.
	Refused
	// Switched is a move that is done.
	Switched
	// Aborted is a move that left everything as it was.
	Aborted
)

// String gives the outcome's word.
func (o Outcome) String() string {
	names := [...]string{"unfinished", "refused", "switched", "aborted"}
	if int(o) < len(names) {
		return names[o]
	}
	return "unknown"
}

// phase is how far a coordination is. Each has one action.
type phase uint8

const (
	preparing phase = iota
	draining
	fencing
	switching
	aborting
	stopped
)

// Coordination is one move as the party that drives it sees it. Others may
// abort it at any time, and any commit's answer may be lost: what the table says
// decides, never what was attempted.
//
//	preparing ─▶ draining ─▶ fencing ─▶ switching ─▶ switched
//	    │            │           │          │
//	    │            └───────────┴──────────┤ GiveUp: the deadline, the caller's end
//	    ▼                                   ▼
//	 refused                            aborting ─▶ aborted
//
//	at each: Unconfirmed ─▶ Look ─▶ Saw(the table's word) ─▶ where that is
//
// Commits go through the store's one writer, which shuts other writers out,
// reads to the end and decides anew: a Switch is refused when the move is no
// longer open there. So however many coordinators run, one of them at most ends
// a move, in one way.
//
// It belongs to one goroutine at a time. A copy is independent.
type Coordination struct {
	move    string
	from    []int32
	fences  []routing.Fence // never changed in place
	phase   phase
	look    bool // the table must say how the last commit ended
	outcome Outcome
}

// Coordinate begins with a move, of which the ID counts, until it is prepared.
func Coordinate(move string) Coordination { return Coordination{move: move} }

// Next is what to do now, and for WriteFence the partition. Each action is done
// again until an event changes it.
func (c *Coordination) Next() (a Action, partition int32) {
	if c.look {
		return Look, 0
	}
	switch c.phase {
	case preparing:
		return Prepare, 0
	case draining:
		return AwaitDrained, 0
	case fencing:
		return WriteFence, c.from[len(c.fences)]
	case switching:
		return Switch, 0
	case aborting:
		return Abort, 0
	case stopped:
	}
	return Stop, 0
}

// Prepared notes that the move is in the table, open. Of m, From counts.
func (c *Coordination) Prepared(m *routing.Move) {
	c.from = slices.Sorted(slices.Values(m.From))
	c.phase, c.look = draining, false
}

// Drained notes that nobody has a record of the unit in flight to the old home
// that counts.
func (c *Coordination) Drained() {
	if c.phase == draining {
		c.phase = fencing
	}
}

// Fenced notes the offset of the fence in the partition that Next gave.
func (c *Coordination) Fenced(offset int64) {
	if c.phase != fencing {
		return
	}
	c.fences = append(slices.Clip(c.fences), routing.Fence{Partition: c.from[len(c.fences)], Offset: offset})
	if len(c.fences) == len(c.from) {
		c.phase = switching
	}
}

// GiveUp aborts: the deadline has passed, or the caller wants no more.
func (c *Coordination) GiveUp() {
	switch {
	case c.phase == preparing && !c.look:
		c.stop(Refused)
	case c.phase != stopped:
		c.phase = aborting
	}
}

// Refuse notes that the table would not have the commit. A Prepare is then over;
// after a Switch or an Abort the table says who ended the move.
func (c *Coordination) Refuse() {
	if c.phase == preparing {
		c.stop(Refused)
		return
	}
	c.Unconfirmed()
}

// Unconfirmed notes that nobody knows whether the commit took place.
func (c *Coordination) Unconfirmed() { c.look = c.phase != stopped }

// Committed notes that the Switch or the Abort took place.
func (c *Coordination) Committed() {
	switch c.phase {
	case switching:
		c.stop(Switched)
	case aborting:
		c.stop(Aborted)
	case preparing, draining, fencing, stopped:
	}
}

// Saw takes what a table says of the move, nil for nothing. It must have been
// read to its end for Look, and may be any table since Prepared otherwise.
func (c *Coordination) Saw(m *routing.Move) {
	looked := c.look
	c.look = false
	switch {
	case c.phase == stopped:
	case m == nil && c.phase == preparing:
		if looked {
			c.stop(Refused)
		}
	case m == nil:
		c.stop(Aborted)
	case !m.Open():
		c.fences = m.Fences
		c.stop(Switched)
	case c.phase == preparing:
		c.Prepared(m)
	}
}

func (c *Coordination) stop(o Outcome) { c.phase, c.look, c.outcome = stopped, false, o }

// Move is the move's id.
func (c *Coordination) Move() string { return c.move }

// Fences lists the fences that were written, one a partition; for Switch all of
// them.
func (c *Coordination) Fences() []routing.Fence { return slices.Clone(c.fences) }

// Outcome is how it ended, or Unfinished.
func (c *Coordination) Outcome() Outcome { return c.outcome }
