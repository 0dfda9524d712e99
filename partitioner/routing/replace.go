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
//     those of before.
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
	if to.wrapped && from.wrapped {
		return newEpochs(from, to)
	}
	return nil
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
		if to.overrides[change.Slot].Epoch <= from.epoch {
			return fault(fmt.Sprintf("goes from partition %d to %d without an epoch above %d", change.From, change.To, from.epoch),
				"slot_overrides", fmt.Sprint(change.Slot))
		}
	}
	for _, change := range d.Placements {
		if r := to.Lookup([]byte(change.Tenant), nil); r.Epoch <= from.epoch {
			return fault(fmt.Sprintf("moves without an epoch above %d", from.epoch), "placements", change.Tenant)
		}
	}
	return nil
}

// Rebase gives the successor of a table that says what wanted says, with a
// revision and epochs that continue current's: what a file that was edited by
// hand, or an old revision, becomes when it is pushed. Whatever moves takes the
// topic's next epoch, what stays keeps its epoch, and a tenant that wanted no
// longer mentions follows its slot from that epoch on. Of a topic with another
// hash, slots or shared than current's, wanted is taken as it is.
func Rebase(current *Table, wanted Spec) (*Table, error) {
	next, err := NewTable(wanted)
	if err != nil {
		return nil, err
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
			rebaseTopic(from, to, &spec)
		}
		edits = append(edits, SetTopic(name, spec))
	}
	return current.Edit(edits...)
}

func rebaseTopic(from, to *Topic, spec *TopicSpec) {
	epoch := from.epoch + 1
	if what, _, _ := frozenChange(from, to); what != "" {
		spec.Epoch = max(epoch, to.epoch)
		return
	}
	moved := rebaseSlots(from, to, spec, epoch)
	moved = rebasePlacements(from, to, spec, epoch) || moved
	if spec.Epoch = epoch; !moved {
		spec.Epoch = from.epoch
	}
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
