package plan

import (
	"slices"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Edits are what turns t into the plan: a placement for each whale, which
// keeps the tenant's tier, and the partition of each slot. What is where the
// plan wants it keeps its entry and epoch; entries of tenants that the plan
// does not know stay. t must have the plan's hash and number of slots. A new
// topic is best made with the plan's Shared.
func (p *WhalesPlan) Edits(t *routing.Topic) []routing.Edit {
	edits := make([]routing.Edit, 0, len(p.Whales)+1)
	for _, w := range p.Whales {
		have, _ := t.Placement(w.Tenant)
		edits = append(edits, routing.SetPlacement(t.Name(), w.Tenant, routing.Placement{
			Partitions: slices.Clone(w.Partitions), Spread: w.Spread, Tier: have.Tier,
		}))
	}
	slots := make(map[int32]int32, len(p.Slots))
	for slot, to := range p.Slots {
		slots[int32(slot)] = to
	}
	return append(edits, routing.SetSlots(t.Name(), slots))
}

// Edits are what carries the moves out in a table's topic, grown to hold them.
func (b Balanced) Edits(topic string, partitions int32) []routing.Edit {
	slots := make(map[int32]int32, len(b.Moves))
	for _, m := range b.Moves {
		slots[m.Slot] = m.To
	}
	return []routing.Edit{routing.Grow(topic, partitions), routing.SetSlots(topic, slots)}
}
