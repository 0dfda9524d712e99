package routing

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrMoving says that an edit would change a tenant or a slot while a move of
// it is open. The error names the move.
var ErrMoving = errors.New("a move is open")

// ErrMoveNotOpen says that a move cannot be switched or aborted since it is not
// open: it was switched or aborted before, or never prepared.
var ErrMoveNotOpen = errors.New("the move is not open")

// MoveState is how far a move is.
type MoveState uint8

// The states of a move. A table holds prepared and switched ones; an aborted
// move is taken out of it, so that not being there and being void are the same.
const (
	// MovePrepared is an open move: the table routes as before, and producers
	// hold the unit's records back.
	MovePrepared MoveState = iota
	// MoveSwitched is a finished move, which is kept until its old homes' logs
	// start above the fences, and longer if it passed over a producer.
	MoveSwitched
	// MoveAborted is a move that was given up. No table holds one.
	MoveAborted
)

// String gives the state's word in a table.
func (s MoveState) String() string {
	switch s {
	case MovePrepared:
		return "prepare"
	case MoveSwitched:
		return "switched"
	case MoveAborted:
		return "aborted"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

func parseMoveState(s string) (MoveState, error) {
	for _, state := range []MoveState{MovePrepared, MoveSwitched} {
		if state.String() == s {
			return state, nil
		}
	}
	return 0, fmt.Errorf("%q is not prepare or switched", s)
}

// SlotMove is one slot of a move.
type SlotMove struct{ Slot, From, To int32 }

// Fence is where a unit ends in one of its old homes: the records of the unit
// below Offset were routed there rightly.
type Fence struct {
	Partition int32
	Offset    int64
}

// Move is one tenant, or a set of slots, on its way from one home to another.
//
//	PrepareMove ─▶ MovePrepared ─▶ SwitchMove ─▶ MoveSwitched ─▶ ForgetMove
//	                     └───────▶ AbortMove: out of the table
//
// A Move that a Topic gives never changes; its slices are the table's.
type Move struct {
	// ID is unique within the topic: 1 to 64 letters, digits, dashes and
	// underscores, random ones as a rule. In a TopicSpec it is the key.
	ID string
	// Tenant is the unit of a tenant's move; empty for slots.
	Tenant string
	// Slots are the unit of a slots' move, one or thousands, ascending by Slot;
	// empty for a tenant. Tenants with a placement of their own do not move with
	// their slot.
	Slots []SlotMove
	// From and To are the home before and after. A tenant's are its placement's
	// partitions, in their order, several when it is spread; those of slots are
	// derived from Slots: distinct, ascending.
	From, To []int32
	// FromSpread and ToSpread are how a tenant's partitions share its records.
	FromSpread, ToSpread Spread
	// Epoch that the unit gets, taken from the topic's counter by PrepareMove.
	Epoch uint64
	// State in the table.
	State MoveState
	// Deadline of an open move, by the coordinator's wall clock in milliseconds:
	// after it anyone may abort the move. It is for liveness: being wrong about
	// it loses nothing but the try. Zero once switched.
	Deadline time.Time
	// Fences of a switched move, one for each partition of From, ascending.
	Fences []Fence
	// Over are the sessions that a switched move passed over because their leases
	// had ended, ascending. Only the move tells that what they may still write
	// into the old home is stale.
	Over []SessionID
}

// Unit is what moves. It allocates for slots.
func (m *Move) Unit() Unit {
	if m.Tenant != "" {
		return Unit{Tenant: m.Tenant}
	}
	u := Unit{Slots: make([]int32, len(m.Slots))}
	for i, s := range m.Slots {
		u.Slots[i] = s.Slot
	}
	return u
}

// Open tells whether the move is neither switched nor aborted.
func (m *Move) Open() bool { return m.State == MovePrepared }

// Rekeyed tells whether the move changes what records share a lane: those of
// the tenant before, and those of one key after, or the other way round.
func (m *Move) Rekeyed() bool { return m.FromSpread != m.ToSpread }

// Covers tells whether a record moves with it: of a tenant's move all of the
// tenant's, of a slots' move those that were routed by one of the slots. It
// allocates nothing.
func (m *Move) Covers(tenant []byte, slot int32, kind Kind) bool {
	if m.Tenant != "" {
		return m.Tenant == string(tenant)
	}
	return kind == KindSlot && m.hasSlot(slot)
}

// hasSlot is false for a tenant's move.
func (m *Move) hasSlot(slot int32) bool {
	_, found := slices.BinarySearchFunc(m.Slots, slot, func(s SlotMove, slot int32) int { return cmp.Compare(s.Slot, slot) })
	return found
}

// FenceIn gives the offset of the fence in one of the old homes. ok is false
// for other partitions and for a move that is not switched.
func (m *Move) FenceIn(partition int32) (offset int64, ok bool) {
	i, ok := slices.BinarySearchFunc(m.Fences, partition, func(f Fence, p int32) int { return cmp.Compare(f.Partition, p) })
	if !ok {
		return 0, false
	}
	return m.Fences[i].Offset, true
}

// String names the move and its unit, for errors and logs.
func (m *Move) String() string {
	if m.Tenant != "" {
		return fmt.Sprintf("move %s of tenant %s", m.ID, renderName(m.Tenant))
	}
	if len(m.Slots) == 1 {
		return fmt.Sprintf("move %s of slot %d", m.ID, m.Slots[0].Slot)
	}
	return fmt.Sprintf("move %s of %d slots", m.ID, len(m.Slots))
}

func (m Move) clone() Move {
	m.Slots, m.Fences = slices.Clone(m.Slots), slices.Clone(m.Fences)
	m.From, m.To = slices.Clone(m.From), slices.Clone(m.To)
	m.Over = slices.Clone(m.Over)
	return m
}

// normal copies a move into the one form that a table holds.
func (m Move) normal(id string) *Move {
	m = m.clone()
	m.ID = id
	if len(m.Slots) > 0 {
		m.From = distinct(m.Slots, func(s SlotMove) int32 { return s.From })
		m.To = distinct(m.Slots, func(s SlotMove) int32 { return s.To })
	} else {
		m.Slots = nil
	}
	if len(m.Fences) == 0 {
		m.Fences = nil
	}
	slices.SortFunc(m.Over, compareSessions)
	if m.Over = slices.Compact(m.Over); len(m.Over) == 0 {
		m.Over = nil
	}
	if !m.Deadline.IsZero() {
		m.Deadline = unixMilli(m.Deadline.UnixMilli())
	}
	return &m
}

func compareSessions(a, b SessionID) int { return bytes.Compare(a[:], b[:]) }

// distinct lists a partition of each slot's move, each once, ascending.
func distinct(list []SlotMove, partition func(SlotMove) int32) []int32 {
	all := make([]int32, len(list))
	for i, s := range list {
		all[i] = partition(s)
	}
	slices.Sort(all)
	return slices.Clip(slices.Compact(all))
}

func (m *Move) equal(n *Move) bool {
	return m == n || m.ID == n.ID && m.Tenant == n.Tenant && m.Epoch == n.Epoch && m.State == n.State &&
		m.FromSpread == n.FromSpread && m.ToSpread == n.ToSpread && m.Deadline.Equal(n.Deadline) &&
		slices.Equal(m.Slots, n.Slots) && slices.Equal(m.From, n.From) && slices.Equal(m.To, n.To) && slices.Equal(m.Fences, n.Fences) &&
		slices.Equal(m.Over, n.Over)
}
