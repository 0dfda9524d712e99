package routing

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// PrepareMove opens a move: of its tenant to To and ToSpread, or of its Slots.
// The table goes on routing as before. The move takes the topic's next epoch,
// whatever m says, and must have an ID that the topic does not hold and a
// Deadline. From and FromSpread are filled in from the table; where m names
// From, or for slots always, it must be the present home.
//
// Refused with ErrMoving where the unit meets an open move's: the same tenant or
// slot, or a tenant and its slot. Refused too are a tenant that has another
// topic, a unit that would not move, and more slots than fit into a record.
func PrepareMove(topic string, m Move) Edit {
	return onTopic(topic, func(p *parts) error { return under(p.prepare(m), "moves", m.ID) })
}

func (p *parts) prepare(m Move) error {
	if p.moves.find(m.ID) != nil {
		return fault("the topic already has a move of this id")
	}
	m.State, m.Fences, m.Over = MovePrepared, nil, nil
	if m.Tenant != "" {
		if err := p.fillHome(&m); err != nil {
			return err
		}
	}
	if open := p.meeting(&m); open != nil {
		return moving(open)
	}
	m.Epoch = p.nextEpoch()
	opened := m.normal(m.ID)
	p.moves = p.moves.with(map[string]*Move{m.ID: opened})
	return nil
}

// fillHome notes the present home of a tenant in its move.
func (p *parts) fillHome(m *Move) error {
	home := p.home(m.Tenant)
	if home.Topic != "" {
		return fault(fmt.Sprintf("the tenant is in topic %s: a move stays within one topic", home.Topic))
	}
	if len(m.From) > 0 && !slices.Equal(m.From, home.Partitions) {
		return fault(fmt.Sprintf("the tenant is in %s, not in %s", FormatPartitions(home.Partitions), FormatPartitions(m.From)), "from")
	}
	m.From, m.FromSpread = home.Partitions, home.Spread
	return nil
}

// home is where a tenant's records go.
func (p *parts) home(tenant string) Place {
	if i, found := findEntry(p.placed, tenant); found && !p.placed[i].place.FollowSlot {
		place := &p.placed[i].place
		return Place{Partitions: slices.Clone(place.Partitions), Spread: place.Spread, Topic: place.Topic}
	}
	return Place{Partitions: []int32{p.slotHome(p.slotOf(tenant))}}
}

// slotOf is a tenant's slot; -1 where the settings are not fit to tell.
func (p *parts) slotOf(tenant string) int32 {
	if p.slots < 1 {
		return -1
	}
	return p.hash.Slot(p.hash.Sum([]byte(tenant)), p.slots)
}

// meeting gives an open move of the same tenant or slots, or of a tenant in one
// of the slots, or nil.
func (p *parts) meeting(m *Move) *Move {
	if p.moves == nil || p.moves.open == nil {
		return nil
	}
	if m.Tenant != "" {
		return p.moves.meets(m.Tenant, p.slotOf(m.Tenant))
	}
	for _, s := range m.Slots {
		if open := p.moves.open.bySlot[s.Slot]; open != nil {
			return open
		}
	}
	for tenant, open := range p.moves.open.byTenant {
		if m.hasSlot(p.slotOf(tenant)) {
			return open
		}
	}
	return nil
}

func moving(m *Move) *Error {
	e := fault(m.String() + " is open: wait for its end or abort it")
	e.cause = ErrMoving
	return e
}

// settled refuses a change of a tenant whose records an open move holds back.
func (p *parts) settled(tenant string) error {
	if p.moves == nil || p.moves.open == nil {
		return nil
	}
	if m := p.moves.meets(tenant, p.slotOf(tenant)); m != nil {
		return moving(m)
	}
	return nil
}

// settledSlots is settled for slots.
func (p *parts) settledSlots(to map[int32]int32) error {
	if p.moves == nil || p.moves.open == nil {
		return nil
	}
	for _, slot := range slices.Sorted(maps.Keys(to)) {
		if m := p.moves.open.bySlot[slot]; m != nil {
			return moving(m)
		}
	}
	for tenant, m := range p.moves.open.byTenant {
		if _, moved := to[p.slotOf(tenant)]; moved {
			return moving(m)
		}
	}
	return nil
}

// SwitchMove ends an open move: in one edit it notes the fences, one for each
// partition of the move's From, and gives the tenant its new placement (its tier
// stays) or the slots their overrides, with the move's epoch. over are the sessions
// whose leases had ended, and who were not waited for. ErrMoveNotOpen where the
// move is not open.
func SwitchMove(topic, id string, fences []Fence, over ...SessionID) Edit {
	return onTopic(topic, func(p *parts) error { return under(p.switchMove(id, fences, over), "moves", id) })
}

func (p *parts) switchMove(id string, fences []Fence, over []SessionID) error {
	open, err := p.openMove(id)
	if err != nil {
		return err
	}
	m := open.clone()
	m.State, m.Deadline, m.Fences, m.Over = MoveSwitched, time.Time{}, fences, over
	p.moves = p.moves.with(map[string]*Move{id: m.normal(id)})
	if m.Tenant == "" {
		for _, s := range m.Slots {
			p.overrides = put(p.overrides, s.Slot, SlotPlacement{Partition: s.To, Epoch: m.Epoch})
		}
		return nil
	}
	place := Placement{Partitions: m.To, Spread: m.ToSpread, Epoch: m.Epoch}
	if i, found := findEntry(p.placed, m.Tenant); found {
		place.Tier = p.placed[i].place.Tier
	}
	p.placed = setEntry(p.placed, newEntry(p.hash, m.Tenant, place))
	return nil
}

// AbortMove takes an open move out of the table: its unit stays where it is. The
// epoch that it took is not used again. ErrMoveNotOpen where the move is not
// open.
func AbortMove(topic, id string) Edit {
	return onTopic(topic, func(p *parts) error {
		if _, err := p.openMove(id); err != nil {
			return under(err, "moves", id)
		}
		p.moves = p.moves.with(map[string]*Move{id: nil})
		return nil
	})
}

// openMove finds a move that may be ended.
func (p *parts) openMove(id string) (*Move, error) {
	m := p.moves.find(id)
	if m != nil && m.Open() {
		return m, nil
	}
	e := fault("the topic has no such open move: it was aborted, or is from another table")
	if m != nil {
		e = fault("the move is " + m.State.String() + " already")
	}
	e.cause = ErrMoveNotOpen
	return nil, e
}

// ForgetMove takes a switched move out of the table. Only when the logs of all
// its old homes start above its fences may it go: until then consumers need it
// to keep order.
func ForgetMove(topic, id string) Edit {
	return onTopic(topic, func(p *parts) error {
		switch m := p.moves.find(id); {
		case m == nil:
			return fault("the topic has no such move", "moves", id)
		case m.Open():
			return under(moving(m), "moves", id)
		}
		p.moves = p.moves.with(map[string]*Move{id: nil})
		return nil
	})
}
