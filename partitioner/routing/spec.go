package routing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits of a table. They bound what a table costs every producer and worker.
const (
	// MaxSlots is the most slots a topic may have.
	MaxSlots = 1 << 16
	// MaxPartitions is the most partitions a topic may have.
	MaxPartitions = 1 << 16
	// DefaultSlots is what a topic gets that names no number of slots.
	DefaultSlots = 4096
	// DefaultWeight is the weight of a tier that names none.
	DefaultWeight = 10
	// StandardTier is the tier of tenants without one.
	StandardTier = "standard"
)

// Spec is a table as plain data, the way its YAML says it. Change it freely:
// NewTable copies what it needs.
type Spec struct {
	// Revision of the table; every change adds one.
	Revision uint64
	// Topics by name.
	Topics map[string]TopicSpec
}

// TopicSpec is one topic of a table.
type TopicSpec struct {
	// Partitions that the table was made for, 1 to MaxPartitions. The topic may
	// have more, never fewer.
	Partitions int32
	// Hash of tenants to slots. Fixed once data exists.
	Hash Hash
	// Slots, at least one for each shared partition, at most MaxSlots; 0 means
	// DefaultSlots. Fixed once data exists.
	Slots int32
	// Shared are the partitions that slots map to, in this order: a slot's base
	// is Shared[slot mod len(Shared)]. Empty means all. Fixed once data exists.
	Shared []int32
	// TenantOf says where a record's tenant is. Fixed once data exists.
	TenantOf TenantRule
	// Wrapped is true once every producer uses partitioner.Producer
	// ("producers: wrapped"), which strict moves need.
	Wrapped bool
	// Epoch is the topic's counter: every change of a placement takes the next.
	Epoch uint64
	// SlotOverrides are moved or planned slots.
	SlotOverrides map[int32]SlotPlacement
	// Placements by tenant, whose bytes need not be text.
	Placements map[string]Placement
	// Tiers by name.
	Tiers map[string]Tier
	// Tenants that have a tier without a placement.
	Tenants map[string]TenantSpec
	// Moves by id: open ones, and those that are done and not yet forgotten.
	Moves map[string]Move
}

// SlotPlacement is where one slot's records go instead of its base partition.
type SlotPlacement struct {
	// Partition is any below the topic's Partitions, not only a shared one.
	Partition int32
	// Epoch since which that holds.
	Epoch uint64
}

// Placement is one tenant's own entry. It names partitions, another topic, or
// nothing but that the tenant follows its slot.
type Placement struct {
	// Partitions that take the tenant's records: one, or several with Spread.
	Partitions []int32
	// Spread says how several partitions share the records.
	Spread Spread
	// Topic sends the records to another topic, and so to another worker group.
	// That topic's own entry, if the table has one, picks the partition.
	Topic string
	// FollowSlot says that the tenant has followed its slot since Epoch. It is
	// what taking a placement away leaves, since an epoch must not be forgotten.
	FollowSlot bool
	// Tier of the tenant; empty means the standard one.
	Tier string
	// Epoch since which the placement holds.
	Epoch uint64
}

// TenantSpec is what a table says of a tenant besides its placement.
type TenantSpec struct {
	// Tier is the name of one of the topic's tiers.
	Tier string
}

// Tier is a class of tenants, which workers apply live.
type Tier struct {
	// Name is the tier's key in the table; it is set by the table.
	Name string
	// Weight is the tier's share of handler time against other tiers' weights,
	// from 1; 0 means DefaultWeight.
	Weight int
	// MaxConcurrency is how many records of one tenant are handled at once; 0
	// means no limit of its own.
	MaxConcurrency int
	// Rate is how many records of one tenant are handled a second; 0 means no
	// limit.
	Rate float64
	// Burst is how many records may exceed Rate at once; 0 with a rate means
	// one second's worth, at least 1.
	Burst int
	// Reserved is the share of a worker's handlers kept free for the tier, from
	// 0 up to 1; those of a topic's tiers add up to less than 1.
	Reserved float64
}

// Spread says how a placement with several partitions shares its records.
type Spread uint8

// The ways to spread one tenant.
const (
	// SpreadNone is a placement of one partition.
	SpreadNone Spread = iota
	// SpreadKey takes partitions[hash(key) mod len]. Order then holds for
	// (tenant, key), not for the tenant.
	SpreadKey
	// SpreadRandom lets the producer pick. No order holds at all.
	SpreadRandom
)

// String gives the word in the table; "" for SpreadNone.
func (s Spread) String() string {
	switch s {
	case SpreadNone:
		return ""
	case SpreadKey:
		return "key"
	case SpreadRandom:
		return "random"
	}
	return fmt.Sprintf("spread(%d)", uint8(s))
}

// TenantFrom is the part of a record that holds the tenant.
type TenantFrom uint8

// The parts of a record that can hold the tenant.
const (
	// FromKey is the whole key.
	FromKey TenantFrom = iota
	// FromHeader is the value of the last header of a name.
	FromHeader
	// FromPrefix is the key up to the first separator.
	FromPrefix
)

// TenantRule says where a record's tenant is. The zero value is the whole key.
type TenantRule struct {
	From TenantFrom
	// Arg is the header's name or the separator; empty for FromKey.
	Arg string
}

// String gives the rule as a table says it.
func (r TenantRule) String() string {
	switch r.From {
	case FromKey:
		return "key"
	case FromHeader:
		return "header:" + r.Arg
	case FromPrefix:
		return "prefix:" + r.Arg
	}
	return fmt.Sprintf("tenant_of(%d)", uint8(r.From))
}

// ParseTenantRule is the reverse of TenantRule.String.
func ParseTenantRule(s string) (TenantRule, error) {
	if s == "key" {
		return TenantRule{}, nil
	}
	if name, ok := strings.CutPrefix(s, "header:"); ok && name != "" {
		return TenantRule{From: FromHeader, Arg: name}, nil
	}
	if sep, ok := strings.CutPrefix(s, "prefix:"); ok && sep != "" {
		return TenantRule{From: FromPrefix, Arg: sep}, nil
	}
	return TenantRule{}, fmt.Errorf("%q is not key, header:NAME or prefix:SEPARATOR", s)
}

// clone copies a topic deeply, so that neither side sees the other change.
func (s TopicSpec) clone() TopicSpec {
	s.Shared = slices.Clone(s.Shared)
	s.SlotOverrides = maps.Clone(s.SlotOverrides)
	s.Tiers = maps.Clone(s.Tiers)
	s.Tenants = maps.Clone(s.Tenants)
	placements := make(map[string]Placement, len(s.Placements))
	for tenant, p := range s.Placements {
		placements[tenant] = p.clone()
	}
	s.Placements = placements
	s.Moves = maps.Clone(s.Moves)
	for id, m := range s.Moves {
		s.Moves[id] = m.clone()
	}
	return s
}

func (p Placement) clone() Placement {
	p.Partitions = slices.Clone(p.Partitions)
	return p
}

// equal tells whether two placements route alike and since the same epoch.
func (p Placement) equal(q Placement) bool {
	return slices.Equal(p.Partitions, q.Partitions) && p.Spread == q.Spread && p.Topic == q.Topic &&
		p.FollowSlot == q.FollowSlot && p.Tier == q.Tier && p.Epoch == q.Epoch
}
