package routing

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// parts is what a topic is compiled from. Edits copy and change parts.
type parts struct {
	name       string
	partitions int32
	hash       Hash
	slots      int32
	shared     []int32
	tenantOf   TenantRule
	wrapped    bool
	epoch      uint64
	overrides  map[int32]SlotPlacement
	placed     []*entry // sorted by tenant
	tiers      map[string]Tier
	tiered     []*entry // tenants with a tier and without a placement, sorted
	moves      *moveSet // nil for none
}

// Topic is the compiled, immutable view of one topic of a table.
type Topic struct {
	parts

	reciprocal  uint64 // floor((2^64-1)/slots), see slot
	partitionOf []int32
	overridden  []uint64 // by slot: 0, or 1 + the epoch of its override
	all         []int32  // 0..partitions-1, so that a route can show one of them as a slice
	places      index
	tierIndex   index
	standard    Tier
	open        *openMoves // nil for none: all that the hot path looks at
}

// Name of the topic.
func (t *Topic) Name() string { return t.name }

// Partitions that the table was made for; the topic may have more.
func (t *Topic) Partitions() int32 { return t.partitions }

// Slots is the number of slots.
func (t *Topic) Slots() int32 { return t.slots }

// Hash that maps tenants to slots.
func (t *Topic) Hash() Hash { return t.hash }

// TenantRule says where a record's tenant is.
func (t *Topic) TenantRule() TenantRule { return t.tenantOf }

// Wrapped tells whether all producers use partitioner.Producer.
func (t *Topic) Wrapped() bool { return t.wrapped }

// Epoch is the topic's counter, that of its latest change of a placement.
func (t *Topic) Epoch() uint64 { return t.epoch }

// Shared lists the partitions that slots map to, in their order. The slice is
// the caller's.
func (t *Topic) Shared() []int32 { return slices.Clone(t.shared) }

// Placement gives a tenant's own entry as the table says it, and whether it
// has one. The copy is the caller's.
func (t *Topic) Placement(tenant string) (Placement, bool) {
	e := t.places.find(t.hash.Sum([]byte(tenant)), []byte(tenant))
	if e == nil {
		return Placement{}, false
	}
	return e.place.clone(), true
}

// PlacedTenants lists the tenants that have their own entry, sorted. The slice
// is the caller's.
func (t *Topic) PlacedTenants() []string {
	names := make([]string, len(t.placed))
	for i, e := range t.placed {
		names[i] = e.tenant
	}
	return names
}

// SlotPartition is where a slot's records go, by its override or its base.
// The slot must be in [0, Slots).
func (t *Topic) SlotPartition(slot int32) int32 { return t.partitionOf[slot] }

// Lookup says where a record goes. It allocates nothing. The key matters only
// for tenants with spread: key. The tenant must not be empty: no record
// without a tenant has a place.
func (t *Topic) Lookup(tenant, key []byte) (r Route) {
	sum := t.sum(tenant)
	if t.places.mayHold(sum) {
		if e := t.places.find(sum, tenant); e != nil {
			t.placedRoute(&r, e, key)
			return r
		}
	}
	t.slotRoute(&r, sum)
	return r
}

// Partition is Lookup's Partition alone, for the hot path of a producer that
// needs no epoch.
func (t *Topic) Partition(tenant, key []byte) int32 {
	sum := t.sum(tenant)
	if t.places.mayHold(sum) {
		return t.perhapsPlaced(sum, tenant, key)
	}
	return t.partitionOf[t.slot(sum)]
}

// perhapsPlaced is the part of Partition behind the filter, kept apart so that
// the common path needs no stack to speak of.
func (t *Topic) perhapsPlaced(sum uint64, tenant, key []byte) int32 {
	e := t.places.find(sum, tenant)
	if e == nil || e.place.FollowSlot {
		return t.partitionOf[t.slot(sum)]
	}
	return t.placedPartition(&e.place, key)
}

// sum is the topic's hash, with the usual one called directly.
func (t *Topic) sum(tenant []byte) uint64 {
	if t.hash == XXHash64 {
		return xxhash.Sum64(tenant)
	}
	return t.hash.Sum(tenant)
}

// slot is hash.Slot without a division, which would cost as much as the rest
// of a lookup. With m = floor((2^64-1)/slots), the high half of sum*m is the
// quotient or one less, since sum*(2^64/slots - m)/2^64 is below 1.
func (t *Topic) slot(sum uint64) uint64 {
	n := t.hash.magnitude(sum)
	quotient, _ := bits.Mul64(n, t.reciprocal)
	slots := uint64(t.slots)
	over := int64(n - quotient*slots - slots) // below zero where the quotient was right
	// Without a branch: no predictor could learn it.
	return uint64(over + int64(slots)&(over>>63))
}

// slotRoute fills in a route, as placedRoute does: a Route is large to pass on.
func (t *Topic) slotRoute(r *Route, sum uint64) {
	slot := t.slot(sum)
	p := t.partitionOf[slot]
	r.Hash, r.Slot, r.Partition, r.Partitions = sum, int32(slot), p, t.all[p:p+1:p+1]
	if since := t.overridden[slot]; since > 0 {
		r.Rule, r.Epoch = RuleSlotOverride, since-1
	}
}

func (t *Topic) placedRoute(r *Route, e *entry, key []byte) {
	r.Tier = e.place.Tier
	if e.place.FollowSlot {
		t.slotRoute(r, e.sum)
		r.Epoch = max(r.Epoch, e.place.Epoch)
		return
	}
	r.Hash, r.Slot = e.sum, int32(t.slot(e.sum))
	r.Partitions, r.Epoch, r.Topic = e.place.Partitions, e.place.Epoch, e.place.Topic
	r.Rule, r.Kind = RulePinned, KindTenant
	r.Partition = t.placedPartition(&e.place, key)
	switch e.place.Spread {
	case SpreadNone:
	case SpreadKey:
		r.Rule, r.Kind = RuleSpread, KindSpreadKey
	case SpreadRandom:
		r.Rule, r.Kind = RuleSpread, KindSpreadRandom
	}
}

// placedPartition is -1 where Route.Partition says that the caller decides.
func (t *Topic) placedPartition(p *Placement, key []byte) int32 {
	switch {
	case p.Topic != "" || p.Spread == SpreadRandom || p.Spread == SpreadKey && key == nil:
		return -1
	case p.Spread == SpreadKey:
		n := int32(len(p.Partitions))
		return p.Partitions[t.hash.Slot(t.sum(key), n)]
	}
	return p.Partitions[0]
}

// Tier gives the limits of a tenant: of the tier that its placement or its
// entry under tenants names, else of the tier named standard, which exists
// with DefaultWeight and no limits when the table has none. It allocates
// nothing.
func (t *Topic) Tier(tenant []byte) Tier {
	sum := t.sum(tenant)
	for _, x := range [...]*index{&t.places, &t.tierIndex} {
		if !x.mayHold(sum) {
			continue
		}
		if e := x.find(sum, tenant); e != nil && e.place.Tier != "" {
			return t.tiers[e.place.Tier]
		}
	}
	return t.standard
}

// TierNames lists the tiers, the standard one always among them, sorted. The
// slice is the caller's.
func (t *Topic) TierNames() []string {
	names := slices.Collect(maps.Keys(t.tiers))
	if _, ok := t.tiers[StandardTier]; !ok {
		names = append(names, StandardTier)
	}
	slices.Sort(names)
	return names
}

// TierNamed gives a tier by its name.
func (t *Topic) TierNamed(name string) (Tier, bool) {
	if name == StandardTier {
		return t.standard, true
	}
	tier, ok := t.tiers[name]
	return tier, ok
}

func (t *Topic) spec() TopicSpec {
	s := TopicSpec{
		Partitions: t.partitions, Hash: t.hash, Slots: t.slots, Shared: t.shared, TenantOf: t.tenantOf,
		Wrapped: t.wrapped, Epoch: t.epoch, SlotOverrides: t.overrides, Tiers: t.tiers,
		Placements: make(map[string]Placement, len(t.placed)),
		Tenants:    make(map[string]TenantSpec, len(t.tiered)),
	}
	s = s.clone()
	for _, e := range t.placed {
		s.Placements[e.tenant] = e.place.clone()
	}
	for _, e := range t.tiered {
		s.Tenants[e.tenant] = TenantSpec{Tier: e.place.Tier}
	}
	if moves := t.moves.all(); len(moves) > 0 {
		s.Moves = make(map[string]Move, len(moves))
		for _, m := range moves {
			s.Moves[m.ID] = m.clone()
		}
	}
	return s
}
