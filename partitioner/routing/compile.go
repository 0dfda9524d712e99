package routing

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// partsOf copies a topic's plain data and fills in its defaults.
func partsOf(name string, s TopicSpec) parts {
	s = s.clone()
	p := parts{
		name: name, partitions: s.Partitions, hash: s.Hash, slots: s.Slots, shared: s.Shared,
		tenantOf: s.TenantOf, wrapped: s.Wrapped, epoch: s.Epoch, overrides: s.SlotOverrides, tiers: s.Tiers,
	}
	if p.slots == 0 {
		p.slots = DefaultSlots
	}
	if len(p.shared) == 0 && p.partitions > 0 && p.partitions <= MaxPartitions {
		p.shared = upTo(p.partitions)
	}
	for name, tier := range p.tiers {
		p.tiers[name] = tier.withDefaults(name)
	}
	for _, tenant := range slices.Sorted(maps.Keys(s.Placements)) {
		p.placed = append(p.placed, newEntry(p.hash, tenant, s.Placements[tenant]))
	}
	for _, tenant := range slices.Sorted(maps.Keys(s.Tenants)) {
		p.tiered = append(p.tiered, newEntry(p.hash, tenant, Placement{Tier: s.Tenants[tenant].Tier}))
	}
	moves := make(map[string]*Move, len(s.Moves))
	for id, m := range s.Moves {
		moves[id] = m.normal(id)
	}
	p.moves = newMoveSet(moves)
	return p
}

func newEntry(h Hash, tenant string, place Placement) *entry {
	return &entry{tenant: tenant, sum: h.Sum([]byte(tenant)), place: place}
}

func upTo(n int32) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}

func (t Tier) withDefaults(name string) Tier {
	t.Name = name
	if t.Weight == 0 {
		t.Weight = DefaultWeight
	}
	if t.Burst == 0 && t.Rate > 0 {
		t.Burst = max(1, int(min(math.Ceil(t.Rate), math.MaxInt32)))
	}
	return t
}

// compile checks a topic and builds what lookups read.
func compile(p parts) (*Topic, error) {
	for _, check := range []func(*parts) error{
		checkSettings, checkOverrides, checkTiers, checkPlacements, checkTenants, checkMoves,
	} {
		if err := check(&p); err != nil {
			return nil, under(err, "topics", p.name)
		}
	}
	t := &Topic{parts: p, all: upTo(p.partitions), reciprocal: math.MaxUint64 / uint64(p.slots)}
	t.partitionOf = make([]int32, p.slots)
	for slot := range t.partitionOf {
		t.partitionOf[slot] = p.shared[slot%len(p.shared)]
	}
	t.overridden = make([]uint64, p.slots)
	for slot, o := range p.overrides {
		t.partitionOf[slot] = o.Partition
		t.overridden[slot] = o.Epoch + 1
	}
	t.places, t.tierIndex = newIndex(p.placed), newIndex(p.tiered)
	if p.moves != nil {
		t.open = p.moves.open
	}
	var ok bool
	if t.standard, ok = p.tiers[StandardTier]; !ok {
		t.standard = Tier{}.withDefaults(StandardTier)
	}
	return t, nil
}

// checkTopicName follows Kafka's rule for topic names.
func checkTopicName(name string) error {
	legal := len(name) > 0 && len(name) <= 249 && name != "." && name != ".."
	for i := 0; legal && i < len(name); i++ {
		c := name[i]
		legal = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
	}
	if !legal {
		return fmt.Errorf("%q is not a topic name: up to 249 letters, digits, dots, dashes and underscores", name)
	}
	return nil
}

func checkSettings(p *parts) error {
	if err := checkTopicName(p.name); err != nil {
		return fault(err.Error())
	}
	if p.partitions < 1 || p.partitions > MaxPartitions {
		return fault(fmt.Sprintf("must be 1 to %d, is %d", MaxPartitions, p.partitions), "partitions")
	}
	if int(p.hash) >= hashCount {
		return fault("unknown hash "+p.hash.String(), "hash")
	}
	if rule, err := ParseTenantRule(p.tenantOf.String()); err != nil || rule != p.tenantOf {
		return fault(p.tenantOf.String()+" is not key, header:NAME or prefix:SEPARATOR", "tenant_of")
	}
	if p.slots < 1 || p.slots > MaxSlots {
		return fault(fmt.Sprintf("must be 1 to %d, is %d", MaxSlots, p.slots), "slots")
	}
	if err := checkPartitions(p.shared, p.partitions); err != nil {
		return fault(err.Error(), "shared")
	}
	if int(p.slots) < len(p.shared) {
		return fault(fmt.Sprintf("%d slots leave some of the %d shared partitions without any", p.slots, len(p.shared)), "slots")
	}
	return nil
}

// checkPartitions wants at least one partition, each within the topic, none
// twice.
func checkPartitions(list []int32, partitions int32) error {
	if len(list) == 0 {
		return fmt.Errorf("names no partition")
	}
	if len(list) == 1 { // nearly every placement, and no map for it
		if list[0] < 0 || list[0] >= partitions {
			return outside("partition", int64(list[0]), partitions)
		}
		return nil
	}
	seen := make(map[int32]bool, len(list))
	for _, n := range list {
		if n < 0 || n >= partitions {
			return outside("partition", int64(n), partitions)
		}
		if seen[n] {
			return fmt.Errorf("partition %d is listed twice", n)
		}
		seen[n] = true
	}
	return nil
}

func checkOverrides(p *parts) error {
	for _, slot := range slices.Sorted(maps.Keys(p.overrides)) {
		if err := checkOverride(p, slot, p.overrides[slot]); err != nil {
			return under(err, "slot_overrides", strconv.Itoa(int(slot)))
		}
	}
	return nil
}

func checkOverride(p *parts, slot int32, o SlotPlacement) error {
	if slot < 0 || slot >= p.slots {
		return fault(fmt.Sprintf("slot %d is outside the topic, which has 0 to %d", slot, p.slots-1))
	}
	if o.Partition < 0 || o.Partition >= p.partitions {
		return fault(outside("partition", int64(o.Partition), p.partitions).Error(), "partition")
	}
	return checkEpoch(o.Epoch, p.epoch)
}

func checkEpoch(epoch, counter uint64) error {
	if epoch > counter || epoch == math.MaxUint64 {
		return fault(fmt.Sprintf("epoch %d is above the topic's counter %d", epoch, counter), "epoch")
	}
	return nil
}

func checkTiers(p *parts) error {
	reserved := 0.0
	for _, name := range slices.Sorted(maps.Keys(p.tiers)) {
		if name == "" || !utf8.ValidString(name) {
			return fault("a tier needs a name, which must be text", "tiers", name)
		}
		if err := p.tiers[name].check(); err != nil {
			return under(err, "tiers", name)
		}
		if reserved += p.tiers[name].Reserved; reserved >= 1 {
			return fault("the tiers' reserved shares add up to 1 or more, which leaves nothing for the others", "tiers", name, "reserved")
		}
	}
	return nil
}

func (t Tier) check() error {
	if t.Weight < 1 || t.Weight > math.MaxInt32 {
		return fault(fmt.Sprintf("must be 1 or more, is %d", t.Weight), "weight")
	}
	if t.MaxConcurrency < 0 || t.MaxConcurrency > math.MaxInt32 {
		return fault(fmt.Sprintf("must be 1 or more, or absent, is %d", t.MaxConcurrency), "max_concurrency")
	}
	if !(t.Rate >= 0) || math.IsInf(t.Rate, 0) {
		return fault("must be above 0", "rate")
	}
	if t.Burst < 0 || t.Burst > math.MaxInt32 {
		return fault(fmt.Sprintf("must be 1 or more, is %d", t.Burst), "burst")
	}
	if t.Burst > 0 && t.Rate == 0 {
		return fault("a burst needs a rate", "burst")
	}
	if !(t.Reserved >= 0 && t.Reserved < 1) {
		return fault("must be from 0 up to, not including, 1", "reserved")
	}
	return nil
}

func checkPlacements(p *parts) error {
	for _, e := range p.placed {
		if err := checkPlacement(p, e); err != nil {
			return under(err, "placements", e.tenant)
		}
	}
	return nil
}

func checkPlacement(p *parts, e *entry) error {
	place := &e.place
	if e.tenant == "" {
		return fault("an empty tenant has no placement")
	}
	if err := checkDestination(p, place); err != nil {
		return err
	}
	if place.Tier != "" {
		if _, ok := p.tiers[place.Tier]; !ok {
			return fault(fmt.Sprintf("no tier %q in this topic", place.Tier), "tier")
		}
	}
	return checkEpoch(place.Epoch, p.epoch)
}

// checkDestination wants exactly one of partitions, topic and following the
// slot.
func checkDestination(p *parts, place *Placement) error {
	switch {
	case place.FollowSlot:
		if len(place.Partitions) > 0 || place.Topic != "" || place.Spread != SpreadNone {
			return fault("a tenant that follows its slot has neither partitions nor a topic", "follow")
		}
		return nil
	case place.Topic != "":
		if len(place.Partitions) > 0 || place.Spread != SpreadNone {
			return fault("a tenant with a topic of its own is placed within that topic's entry, not here", "topic")
		}
		if place.Topic == p.name {
			return fault("names the topic itself", "topic")
		}
		if err := checkTopicName(place.Topic); err != nil {
			return fault(err.Error(), "topic")
		}
		return nil
	case len(place.Partitions) == 0:
		return fault("needs partitions, a topic, or follow: slot (a tier alone belongs under tenants)")
	}
	if err := checkPartitions(place.Partitions, p.partitions); err != nil {
		return fault(err.Error(), "partitions")
	}
	return checkSpread(p, place)
}

func checkSpread(p *parts, place *Placement) error {
	switch place.Spread {
	case SpreadNone:
		if len(place.Partitions) > 1 {
			return fault("several partitions need spread: key or spread: random", "partitions")
		}
	case SpreadKey:
		if p.tenantOf.From == FromKey {
			return fault("spread: key needs tenant_of header or prefix: with tenant_of: key all keys of a tenant are equal", "spread")
		}
	case SpreadRandom:
	default:
		return fault("unknown "+place.Spread.String(), "spread")
	}
	return nil
}

func checkTenants(p *parts) error {
	for _, e := range p.tiered {
		if err := checkTenant(p, e); err != nil {
			return under(err, "tenants", e.tenant)
		}
	}
	return nil
}

func checkTenant(p *parts, e *entry) error {
	if e.tenant == "" {
		return fault("an empty tenant has no tier")
	}
	if _, ok := p.tiers[e.place.Tier]; !ok {
		return fault(fmt.Sprintf("no tier %q in this topic", e.place.Tier), "tier")
	}
	if i, found := findEntry(p.placed, e.tenant); found && p.placed[i].place.Tier != "" {
		return fault("the tenant's placement already names its tier")
	}
	return nil
}

// findEntry searches entries sorted by tenant.
func findEntry(entries []*entry, tenant string) (int, bool) {
	return slices.BinarySearchFunc(entries, tenant, func(e *entry, t string) int { return strings.Compare(e.tenant, t) })
}

// checkRedirects wants placements into another topic of the table to end
// there.
func (t *Table) checkRedirects(from *Topic) error {
	for _, e := range from.placed {
		if e.place.Topic == "" {
			continue
		}
		to, ok := t.topics[e.place.Topic]
		if !ok {
			continue
		}
		i, placed := findEntry(to.placed, e.tenant)
		if placed && to.placed[i].place.Topic != "" {
			return fault(fmt.Sprintf("%s sends the tenant on to %s: one topic may name another, not a chain", to.name, to.placed[i].place.Topic),
				"topics", from.name, "placements", e.tenant, "topic")
		}
	}
	return nil
}
