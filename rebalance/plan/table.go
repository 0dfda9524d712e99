package plan

import (
	"maps"
	"slices"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Apply writes the plan into a topic of a table: placements for the whales and
// an override for each slot that is not on its base partition. What the plan
// leaves where it is keeps its entry and epoch; all that changes shares the
// topic's next epoch. Tiers and entries of tenants that the plan does not know
// stay. The topic must have the plan's hash and number of slots; for a new
// topic its Shared must be the plan's, or empty when that is all partitions.
func (p *WhalesPlan) Apply(topic routing.TopicSpec) routing.TopicSpec {
	next := topic.Epoch + 1
	changed := false
	topic.Placements, topic.SlotOverrides = maps.Clone(topic.Placements), maps.Clone(topic.SlotOverrides)
	if topic.Placements == nil {
		topic.Placements = map[string]routing.Placement{}
	}
	for _, w := range p.Whales {
		have, placed := topic.Placements[w.Tenant]
		if placed && !have.FollowSlot && have.Spread == w.Spread && slices.Equal(have.Partitions, w.Partitions) {
			continue
		}
		topic.Placements[w.Tenant] = routing.Placement{Partitions: slices.Clone(w.Partitions), Spread: w.Spread, Tier: have.Tier, Epoch: next}
		changed = true
	}
	for s, to := range p.Slots {
		changed = setSlot(&topic, int32(s), to, next) || changed
	}
	if changed {
		topic.Epoch = next
	}
	return topic
}

// ApplyMoves writes slot moves into a topic of a table, in the topic's next
// epoch, and raises its partitions to hold them.
func ApplyMoves(topic routing.TopicSpec, moves []SlotMove, partitions int32) routing.TopicSpec {
	if len(topic.Shared) == 0 {
		topic.Shared = span(0, topic.Partitions) // frozen, however many partitions there will be
	}
	topic.Partitions = max(topic.Partitions, partitions)
	topic.SlotOverrides = maps.Clone(topic.SlotOverrides)
	next, changed := topic.Epoch+1, false
	for _, m := range moves {
		changed = setSlot(&topic, m.Slot, m.To, next) || changed
	}
	if changed {
		topic.Epoch = next
	}
	return topic
}

// setSlot sends a slot to a partition and says whether that changed anything.
// A slot that returns to its base keeps an override, since its epoch must not
// be forgotten.
func setSlot(topic *routing.TopicSpec, slot, to int32, epoch uint64) bool {
	have, moved := topic.SlotOverrides[slot]
	if !moved {
		have.Partition = base(topic, slot)
	}
	if have.Partition == to {
		return false
	}
	if topic.SlotOverrides == nil {
		topic.SlotOverrides = map[int32]routing.SlotPlacement{}
	}
	topic.SlotOverrides[slot] = routing.SlotPlacement{Partition: to, Epoch: epoch}
	return true
}

func base(topic *routing.TopicSpec, slot int32) int32 {
	if len(topic.Shared) == 0 {
		return slot % topic.Partitions
	}
	return topic.Shared[int(slot)%len(topic.Shared)]
}
