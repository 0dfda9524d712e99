package routing

import (
	"fmt"
	"slices"
)

// MayReplace tells whether t may take the place of old without records of one
// tenant ending up in two places unnoticed. It refuses, with an *Error:
//   - a revision that is not higher;
//   - for a topic that hasData says has records: its removal, and a changed
//     hash, slots, tenant_of or shared (the strategy is always the same one);
//   - fewer partitions, and an epoch counter that went back;
//   - where all producers are wrapped, a placement or slot that changed without
//     an epoch above old's counter, since workers would take its records for
//     those of before; a move that was open in old has its epoch from then;
//   - a move that went back, and a change of what a move holds that is open in
//     both, with ErrMoving.
//
// Topics that are new are always welcome.
func (t *Table) MayReplace(old *Table, hasData func(topic string) bool) error {
	if t.revision <= old.revision {
		return fault(fmt.Sprintf("must be above %d, the present table's, is %d", old.revision, t.revision), "revision")
	}
	for _, name := range old.names {
		from, to := old.topics[name], t.topics[name]
		if from == to {
			continue
		}
		if to == nil {
			if hasData(name) {
				return fault("cannot be removed while the topic has records", "topics", name)
			}
			continue
		}
		if err := mayReplaceTopic(from, to, hasData); err != nil {
			return under(err, "topics", name)
		}
	}
	return nil
}

func mayReplaceTopic(from, to *Topic, hasData func(topic string) bool) error {
	if what, was, is := frozenChange(from, to); what != "" && hasData(from.name) {
		return fault(fmt.Sprintf("is fixed while the topic has records: was %s, would be %s", was, is), what)
	}
	if to.partitions < from.partitions {
		return fault(fmt.Sprintf("cannot shrink from %d to %d", from.partitions, to.partitions), "partitions")
	}
	if to.epoch < from.epoch {
		return fault(fmt.Sprintf("the counter cannot go back from %d to %d", from.epoch, to.epoch), "epoch")
	}
	if err := mayReplaceMoves(from, to); err != nil {
		return err
	}
	if to.wrapped && from.wrapped {
		return newEpochs(from, to)
	}
	return nil
}

// mayReplaceMoves holds moves to going forward, and units whose move is open to
// staying as they are. A move that is gone was aborted or forgotten.
func mayReplaceMoves(from, to *Topic) error {
	if from.moves == to.moves || from.moves == nil || to.moves == nil {
		return nil
	}
	for _, before := range from.moves.list {
		after := to.moves.find(before.ID)
		if after == nil {
			continue
		}
		if before.Epoch != after.Epoch || after.Open() && !before.equal(after) {
			return fault("is another than the move of this id that the present table has", "moves", before.ID)
		}
	}
	return heldStill(from, to)
}

// heldStill wants what moves that are open in both hold to have the same
// placement in both, with its epoch: the move will set the next.
func heldStill(from, to *Topic) error {
	for _, m := range from.moves.all() {
		if after := to.moves.find(m.ID); !m.Open() || after == nil || !after.Open() {
			continue
		}
		for _, s := range m.Slots {
			if from.overrides[s.Slot] != to.overrides[s.Slot] {
				return under(moving(m), "slot_overrides", fmt.Sprint(s.Slot))
			}
		}
	}
	if from.open == nil || to.open == nil {
		return nil
	}
	for _, tenant := range changedHomes(from.placed, to.placed) {
		m := from.moves.meets(tenant, from.slotOf(tenant))
		if m == nil {
			continue
		}
		if after := to.moves.find(m.ID); after != nil && after.Open() {
			return under(moving(m), "placements", tenant)
		}
	}
	return nil
}

// changedHomes walks two sorted lists, which share what did not change.
func changedHomes(a, b []*entry) (tenants []string) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].tenant < b[0].tenant:
			tenants, a = append(tenants, a[0].tenant), a[1:]
		case len(a) == 0 || b[0].tenant < a[0].tenant:
			tenants, b = append(tenants, b[0].tenant), b[1:]
		default:
			if a[0] != b[0] && (!a[0].place.sameHome(b[0].place) || a[0].place.Epoch != b[0].place.Epoch) {
				tenants = append(tenants, a[0].tenant)
			}
			a, b = a[1:], b[1:]
		}
	}
	return tenants
}

// frozenChange names the first setting that data fixes and that differs.
func frozenChange(from, to *Topic) (what, was, is string) {
	switch {
	case from.hash != to.hash:
		return "hash", from.hash.String(), to.hash.String()
	case from.slots != to.slots:
		return "slots", fmt.Sprint(from.slots), fmt.Sprint(to.slots)
	case from.tenantOf != to.tenantOf:
		return "tenant_of", from.tenantOf.String(), to.tenantOf.String()
	case !slices.Equal(from.shared, to.shared):
		return "shared", FormatPartitions(from.shared), FormatPartitions(to.shared)
	}
	return "", "", ""
}

// newEpochs wants an epoch above from's counter on everything that moves.
func newEpochs(from, to *Topic) error {
	d := diffTopic(from, to)
	for _, change := range d.Slots {
		if epoch := to.overrides[change.Slot].Epoch; epoch <= from.epoch && !from.openedWith(epoch, "", change.Slot) {
			return fault(fmt.Sprintf("goes from partition %d to %d without an epoch above %d", change.From, change.To, from.epoch),
				"slot_overrides", fmt.Sprint(change.Slot))
		}
	}
	for _, change := range d.Placements {
		if r := to.Lookup([]byte(change.Tenant), nil); r.Epoch <= from.epoch && !from.openedWith(r.Epoch, change.Tenant, r.Slot) {
			return fault(fmt.Sprintf("moves without an epoch above %d", from.epoch), "placements", change.Tenant)
		}
	}
	return nil
}

// openedWith tells whether an open move will give a tenant or a slot this epoch.
func (t *Topic) openedWith(epoch uint64, tenant string, slot int32) bool {
	m := t.moves.meets(tenant, slot)
	return m != nil && m.Epoch == epoch
}

// Rebase gives the successor of a table that says what wanted says, with a
// revision and epochs that continue current's: what a file that was edited by
// hand, or an old revision, becomes when it is pushed. Whatever moves takes the
// topic's next epoch, what stays keeps its epoch, and a tenant that wanted no
// longer mentions follows its slot from that epoch on. Moves are current's: those
// that wanted says count only for a topic that current does not have, and a
// change of what an open move holds is refused with ErrMoving. Of a topic with
// another hash, slots or shared than current's, wanted is taken as it is, and so
// is all of it, with its revision, where current is empty: then it may be what a
// lost table said, by which others still work.
func Rebase(current *Table, wanted Spec) (*Table, error) {
	next, err := NewTable(wanted)
	if err != nil {
		return nil, err
	}
	if current.revision == 0 && len(current.names) == 0 && next.revision > 0 {
		return next, nil
	}
	edits := make([]Edit, 0, len(next.names))
	for _, name := range current.names {
		if next.topics[name] == nil {
			edits = append(edits, RemoveTopic(name))
		}
	}
	for _, name := range next.names {
		from, to := current.topics[name], next.topics[name]
		spec := to.spec()
		if from != nil {
			if err := rebaseTopic(from, to, &spec); err != nil {
				return nil, under(err, "topics", name)
			}
		}
		edits = append(edits, SetTopic(name, spec))
	}
	return current.Edit(edits...)
}

func rebaseTopic(from, to *Topic, spec *TopicSpec) error {
	epoch := from.epoch + 1
	if what, _, _ := frozenChange(from, to); what != "" {
		if open := from.moves.firstOpen(); open != nil {
			return under(moving(open), what)
		}
		spec.Epoch, spec.Moves = max(epoch, to.epoch), nil
		return nil
	}
	if open := from.moves.firstOpen(); open != nil && from.wrapped != to.wrapped {
		return under(moving(open), "producers")
	}
	spec.Moves = from.spec().Moves
	moved := rebaseSlots(from, to, spec, epoch)
	moved = rebasePlacements(from, to, spec, epoch) || moved
	if spec.Epoch = epoch; !moved {
		spec.Epoch = from.epoch
	}
	return rebased(from, spec)
}

// rebased holds a topic whose moves are open to leaving them alone.
func rebased(from *Topic, spec *TopicSpec) error {
	if from.open == nil {
		return nil
	}
	next := partsOf(from.name, *spec)
	return heldStill(from, &Topic{parts: next, open: next.moves.open})
}

func rebaseSlots(from, to *Topic, spec *TopicSpec, epoch uint64) (moved bool) {
	spec.SlotOverrides = map[int32]SlotPlacement{}
	for slot := range to.slots {
		switch before, after := from.partitionOf[slot], to.partitionOf[slot]; {
		case before != after:
			spec.SlotOverrides[slot] = SlotPlacement{Partition: after, Epoch: epoch}
			moved = true
		case from.overridden[slot] > 0:
			spec.SlotOverrides[slot] = from.overrides[slot]
		case to.overridden[slot] > 0:
			spec.SlotOverrides[slot] = SlotPlacement{Partition: after}
		}
	}
	return moved
}

func rebasePlacements(from, to *Topic, spec *TopicSpec, epoch uint64) (moved bool) {
	for _, e := range to.placed {
		place := e.place.clone()
		if i, found := findEntry(from.placed, e.tenant); found && from.placed[i].place.sameHome(place) {
			place.Epoch = from.placed[i].place.Epoch
		} else {
			place.Epoch, moved = epoch, true
		}
		spec.Placements[e.tenant] = place
	}
	for _, e := range from.placed {
		if _, found := findEntry(to.placed, e.tenant); found {
			continue
		}
		place := Placement{FollowSlot: true, Epoch: e.place.Epoch}
		if !e.place.FollowSlot {
			place.Epoch, moved = epoch, true
		}
		spec.Placements[e.tenant] = place
	}
	return moved
}
