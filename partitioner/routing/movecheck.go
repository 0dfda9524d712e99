package routing

import (
	"fmt"
	"slices"
)

// maxMoveBytes bounds what a change of a move takes in the history, which holds
// it before and after: brokers take 1 MiB a record by default.
const maxMoveBytes = 900_000

// lastYear is the last that a deadline can be written in.
const lastYear = 9999

// checkMoves wants every move to be possible, and the open ones to hold what is
// true now: their units are at home in From and no two of them meet.
func checkMoves(p *parts) error {
	for _, m := range p.moves.all() {
		if err := checkMove(p, m); err != nil {
			return under(err, "moves", m.ID)
		}
	}
	return checkOpenMoves(p)
}

func checkMove(p *parts, m *Move) error {
	if !isMoveID(m.ID) {
		return fault("a move's id is 1 to 64 letters, digits, dashes and underscores")
	}
	if (m.Tenant == "") == (len(m.Slots) == 0) {
		return fault("moves either a tenant or slots")
	}
	check := checkTenantMove
	if m.Tenant == "" {
		check = checkSlotMoves
	}
	if err := check(p, m); err != nil {
		return err
	}
	if m.Epoch == 0 {
		return fault("needs an epoch of its own, which is above 0", "epoch")
	}
	if err := checkEpoch(m.Epoch, p.epoch); err != nil {
		return err
	}
	return checkMoveState(m)
}

func isMoveID(id string) bool {
	legal := len(id) > 0 && len(id) <= 64
	for i := 0; legal && i < len(id); i++ {
		c := id[i]
		legal = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	return legal
}

func checkTenantMove(p *parts, m *Move) error {
	for _, home := range []struct {
		name       string
		partitions []int32
		spread     Spread
	}{{"from", m.From, m.FromSpread}, {"to", m.To, m.ToSpread}} {
		if err := checkPartitions(home.partitions, p.partitions); err != nil {
			return fault(err.Error(), home.name)
		}
		if err := checkSpread(p, &Placement{Partitions: home.partitions, Spread: home.spread}); err != nil {
			return under(err, home.name)
		}
	}
	if slices.Equal(m.From, m.To) && m.FromSpread == m.ToSpread {
		return fault("goes to where the tenant is", "to")
	}
	return nil
}

func checkSlotMoves(p *parts, m *Move) error {
	if m.FromSpread != SpreadNone || m.ToSpread != SpreadNone {
		return fault("slots are not spread")
	}
	before := int32(-1)
	for _, s := range m.Slots {
		switch {
		case s.Slot <= before:
			return fault(fmt.Sprintf("slot %d comes after %d: slots ascend, each once", s.Slot, before), "slots")
		case s.Slot >= p.slots:
			return fault(fmt.Sprintf("slot %d is outside the topic, which has 0 to %d", s.Slot, p.slots-1), "slots")
		case s.From < 0 || s.From >= p.partitions || s.To < 0 || s.To >= p.partitions:
			return fault(fmt.Sprintf("slot %d goes from partition %d to %d: the topic has 0 to %d", s.Slot, s.From, s.To, p.partitions-1), "slots")
		case s.From == s.To:
			return fault(fmt.Sprintf("slot %d goes to where it is", s.Slot), "slots")
		}
		before = s.Slot
	}
	if size := 2*m.recordSize() + maxFenceBytes*len(m.From); size > maxMoveBytes {
		return fault(fmt.Sprintf("%d slots from %d partitions are too many for one move: make several", len(m.Slots), len(m.From)), "slots")
	}
	return nil
}

func checkMoveState(m *Move) error {
	switch m.State {
	case MovePrepared:
		if m.Deadline.IsZero() {
			return fault("an open move needs a deadline", "deadline")
		}
		if m.Deadline.Unix() <= 0 || m.Deadline.Year() > lastYear {
			return fault("must lie between the years 1970 and 9999", "deadline")
		}
		if len(m.Fences) > 0 || len(m.Over) > 0 {
			return fault("an open move has no fences yet and has passed over nobody", "fences")
		}
		return nil
	case MoveSwitched:
		if !m.Deadline.IsZero() {
			return fault("a switched move has no deadline", "deadline")
		}
		return checkFences(m)
	case MoveAborted:
	}
	return fault("a table holds prepared and switched moves, not "+m.State.String(), "state")
}

// checkFences wants one for each partition of the old home, in ascending order.
func checkFences(m *Move) error {
	homes := slices.Sorted(slices.Values(m.From))
	fenced := make([]int32, len(m.Fences))
	for i, f := range m.Fences {
		fenced[i] = f.Partition
		if f.Offset < 0 {
			return fault(fmt.Sprintf("offset %d in partition %d is below 0", f.Offset, f.Partition), "fences")
		}
	}
	if !slices.Equal(homes, fenced) {
		return fault(fmt.Sprintf("must be one for each of %s, in ascending order", FormatPartitions(homes)), "fences")
	}
	return nil
}

func checkOpenMoves(p *parts) error {
	if p.moves == nil || p.moves.open == nil {
		return nil
	}
	others := *p
	others.moves = nil
	for _, m := range p.moves.list {
		if !m.Open() {
			continue
		}
		if err := p.checkAtHome(m); err != nil {
			return under(err, "moves", m.ID)
		}
		if other := others.meeting(m); other != nil {
			return under(moving(other), "moves", m.ID)
		}
		others.moves = others.moves.with(map[string]*Move{m.ID: m})
	}
	return nil
}

// checkAtHome wants the table to route an open move's unit to its old home.
func (p *parts) checkAtHome(m *Move) error {
	if m.Tenant != "" {
		if home := p.home(m.Tenant); !home.equal(Place{Partitions: m.From, Spread: m.FromSpread}) {
			return fault("the tenant is not there, although its move is open", "from")
		}
		return nil
	}
	for _, s := range m.Slots {
		if home := p.slotHome(s.Slot); home != s.From {
			return fault(fmt.Sprintf("slot %d is in partition %d, not in %d, although its move is open", s.Slot, home, s.From), "slots")
		}
	}
	return nil
}
