package routing

import (
	"cmp"
	"maps"
	"slices"
)

// moveSet is a topic's moves and their indexes. It never changes, so that
// tables that differ elsewhere share it; nil is a topic without moves.
type moveSet struct {
	list     []*Move // ascending by epoch, then by id
	byID     map[string]*Move
	byTenant map[string][]*Move // in the order of list
	ofSlots  []*Move            // in the order of list
	open     *openMoves         // nil when all are switched
}

// openMoves finds the open move of a record.
type openMoves struct {
	byTenant map[string]*Move
	bySlot   map[int32]*Move
}

// newMoveSet takes over the map.
func newMoveSet(byID map[string]*Move) *moveSet {
	if len(byID) == 0 {
		return nil
	}
	s := &moveSet{byID: byID, byTenant: map[string][]*Move{}}
	s.list = slices.SortedFunc(maps.Values(byID), func(a, b *Move) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.ID, b.ID))
	})
	for _, m := range s.list {
		if m.Tenant != "" {
			s.byTenant[m.Tenant] = append(s.byTenant[m.Tenant], m)
		} else {
			s.ofSlots = append(s.ofSlots, m)
		}
		if m.Open() {
			s.addOpen(m)
		}
	}
	return s
}

func (s *moveSet) addOpen(m *Move) {
	if s.open == nil {
		s.open = &openMoves{byTenant: map[string]*Move{}, bySlot: map[int32]*Move{}}
	}
	if m.Tenant != "" {
		s.open.byTenant[m.Tenant] = m
	}
	for _, slot := range m.Slots {
		s.open.bySlot[slot.Slot] = m
	}
}

// with gives the set with some moves put in, or taken out where they are nil.
func (s *moveSet) with(changes map[string]*Move) *moveSet {
	if len(changes) == 0 {
		return s
	}
	byID := map[string]*Move{}
	if s != nil {
		maps.Copy(byID, s.byID)
	}
	for id, m := range changes {
		if m == nil {
			delete(byID, id)
		} else {
			byID[id] = m
		}
	}
	return newMoveSet(byID)
}

func (s *moveSet) all() []*Move {
	if s == nil {
		return nil
	}
	return s.list
}

// firstOpen gives the oldest open move, or nil.
func (s *moveSet) firstOpen() *Move {
	for _, m := range s.all() {
		if m.Open() {
			return m
		}
	}
	return nil
}

func (s *moveSet) find(id string) *Move {
	if s == nil {
		return nil
	}
	return s.byID[id]
}

// meets gives an open move of the tenant or of its slot, or nil. Whether the
// tenant follows its slot now does not matter: it might by the time that the
// move ends.
func (s *moveSet) meets(tenant string, slot int32) *Move {
	if s == nil || s.open == nil {
		return nil
	}
	if m := s.open.byTenant[tenant]; m != nil {
		return m
	}
	return s.open.bySlot[slot]
}

// Moves lists the moves that the table holds, ascending by epoch: the open ones,
// and the switched ones until they are forgotten. The slice is the caller's.
func (t *Topic) Moves() []*Move { return slices.Clone(t.moves.all()) }

// Moving tells whether any move is open. It is one load.
func (t *Topic) Moving() bool { return t.open != nil }

// Moved tells whether the table holds any move, open or switched. It is one
// load.
func (t *Topic) Moved() bool { return t.moves != nil }

// OpenMove gives the open move that holds back a record of this tenant, slot
// and kind, or nil. It allocates nothing, and without an open move it is one
// load.
func (t *Topic) OpenMove(tenant []byte, slot int32, kind Kind) *Move {
	if t.open == nil {
		return nil
	}
	return t.open.find(tenant, slot, kind)
}

func (o *openMoves) find(tenant []byte, slot int32, kind Kind) *Move {
	if m := o.byTenant[string(tenant)]; m != nil {
		return m
	}
	if kind != KindSlot {
		return nil
	}
	return o.bySlot[slot]
}

// Move gives a move by its id.
func (t *Topic) Move(id string) (*Move, bool) {
	m := t.moves.find(id)
	return m, m != nil
}

// AppendMoves adds to dst the moves of a tenant and of its slot that the table
// holds, ascending by epoch: every earlier home that a record of the tenant may
// have had, whether or not the tenant has a placement. It allocates only to
// grow dst.
func (t *Topic) AppendMoves(dst []*Move, tenant []byte, slot int32) []*Move {
	if t.moves == nil {
		return dst
	}
	own := t.moves.byTenant[string(tenant)]
	for _, m := range t.moves.ofSlots {
		if !m.hasSlot(slot) {
			continue
		}
		for len(own) > 0 && own[0].Epoch < m.Epoch {
			dst, own = append(dst, own[0]), own[1:]
		}
		dst = append(dst, m)
	}
	return append(dst, own...)
}
