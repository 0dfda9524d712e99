package routing

import "fmt"

// Kind says by which unit a record was routed. It is what the tl-route header
// carries: a record's lane follows its own kind, never the newest table.
type Kind uint8

// The kinds, with their numbers on the wire.
const (
	KindSlot         Kind = 0
	KindTenant       Kind = 1
	KindSpreadKey    Kind = 2
	KindSpreadRandom Kind = 3
)

// String gives the kind's name.
func (k Kind) String() string {
	switch k {
	case KindSlot:
		return "slot"
	case KindTenant:
		return "tenant"
	case KindSpreadKey:
		return "spread_key"
	case KindSpreadRandom:
		return "spread_random"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Rule says which part of the table decided a route.
type Rule uint8

// The rules.
const (
	// RuleSlot is the slot's base partition.
	RuleSlot Rule = iota
	// RuleSlotOverride is the slot's own entry.
	RuleSlotOverride
	// RulePinned is the tenant's own entry with one partition, or with a topic.
	RulePinned
	// RuleSpread is the tenant's own entry with several partitions.
	RuleSpread
)

// String gives the rule's word in the output of tenantlane route.
func (r Rule) String() string {
	switch r {
	case RuleSlot:
		return "slot"
	case RuleSlotOverride:
		return "slot_override"
	case RulePinned:
		return "pinned"
	case RuleSpread:
		return "spread"
	}
	return fmt.Sprintf("rule(%d)", uint8(r))
}

// Route is where a record goes and why.
type Route struct {
	// Hash of the tenant by the topic's hash, and the slot it gives.
	Hash uint64
	Slot int32
	// Partition that takes the record. It is -1 when the caller must decide:
	// for spread: random (pick one of Partitions), for spread: key with a nil
	// key (refuse), and when Topic is set (look up there).
	Partition int32
	// Partitions of the placement, one unless it is spread; none when Topic is
	// set. The slice is the table's: read it only.
	Partitions []int32
	// Epoch since which the placement holds; 0 is since ever.
	Epoch uint64
	Rule  Rule
	Kind  Kind
	// Topic is another topic that takes the record, or empty.
	Topic string
	// Tier is the name of the placement's tier, or empty; see Topic.Tier.
	Tier string
}
