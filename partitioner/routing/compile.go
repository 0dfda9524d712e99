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
	return p
}

func newEntry(h Hash, tenant string, place Placement) *entry {
	return &entry{tenant: tenant, sum: h.Sum([]byte(tenant)), place: place}
}

func upTo(n int32) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i) //nolint:gosec // below n
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

// compile checks a topic and builds what lookups read. f is the path that
// errors name.
func compile(f *field, p parts) (*Topic, error) {
	for _, check := range []func(*field, *parts) error{
		checkSettings, checkOverrides, checkTiers, checkPlacements, checkTenants,
	} {
		if err := check(f, &p); err != nil {
			return nil, err
		}
	}
	t := &Topic{parts: p, all: upTo(p.partitions), reciprocal: math.MaxUint64 / uint64(p.slots)} //nolint:gosec // positive
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

func checkSettings(f *field, p *parts) error {
	if err := checkTopicName(p.name); err != nil {
		return f.error(err.Error())
	}
	if p.partitions < 1 || p.partitions > MaxPartitions {
		return f.in("partitions").error(fmt.Sprintf("must be 1 to %d, is %d", MaxPartitions, p.partitions))
	}
	if p.hash >= hashes {
		return f.in("hash").error("unknown hash " + p.hash.String())
	}
	if rule, err := ParseTenantRule(p.tenantOf.String()); err != nil || rule != p.tenantOf {
		return f.in("tenant_of").error(p.tenantOf.String() + " is not key, header:NAME or prefix:SEPARATOR")
	}
	if p.slots < 1 || p.slots > MaxSlots {
		return f.in("slots").error(fmt.Sprintf("must be 1 to %d, is %d", MaxSlots, p.slots))
	}
	if err := checkPartitions(p.shared, p.partitions); err != nil {
		return f.in("shared").error(err.Error())
	}
	if int(p.slots) < len(p.shared) {
		return f.in("slots").error(fmt.Sprintf("%d slots leave some of the %d shared partitions without any", p.slots, len(p.shared)))
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
			return outside(int64(list[0]), partitions)
		}
		return nil
	}
	seen := make(map[int32]bool, len(list))
	for _, n := range list {
		if n < 0 || n >= partitions {
			return outside(int64(n), partitions)
		}
		if seen[n] {
			return fmt.Errorf("partition %d is listed twice", n)
		}
		seen[n] = true
	}
	return nil
}

func checkOverrides(f *field, p *parts) error {
	f = f.in("slot_overrides")
	for _, slot := range slices.Sorted(maps.Keys(p.overrides)) {
		at, o := f.in(strconv.Itoa(int(slot))), p.overrides[slot]
		if slot < 0 || slot >= p.slots {
			return at.error(fmt.Sprintf("slot %d is outside the topic, which has 0 to %d", slot, p.slots-1))
		}
		if o.Partition < 0 || o.Partition >= p.partitions {
			return at.in("partition").error(outside(int64(o.Partition), p.partitions).Error())
		}
		if err := checkEpoch(at, o.Epoch, p.epoch); err != nil {
			return err
		}
	}
	return nil
}

func checkEpoch(f *field, epoch, counter uint64) error {
	if epoch > counter || epoch == math.MaxUint64 {
		return f.in("epoch").error(fmt.Sprintf("epoch %d is above the topic's counter %d", epoch, counter))
	}
	return nil
}

func checkTiers(f *field, p *parts) error {
	f = f.in("tiers")
	reserved := 0.0
	for _, name := range slices.Sorted(maps.Keys(p.tiers)) {
		at, t := f.in(name), p.tiers[name]
		if name == "" {
			return at.error("a tier needs a name")
		}
		if !utf8.ValidString(name) {
			return at.error("a tier's name must be text")
		}
		if err := t.check(at); err != nil {
			return err
		}
		if reserved += t.Reserved; reserved >= 1 {
			return at.in("reserved").error("the tiers' reserved shares add up to 1 or more, which leaves nothing for the others")
		}
	}
	return nil
}

func (t Tier) check(f *field) error {
	if t.Weight < 1 || t.Weight > math.MaxInt32 {
		return f.in("weight").error(fmt.Sprintf("must be 1 or more, is %d", t.Weight))
	}
	if t.MaxConcurrency < 0 || t.MaxConcurrency > math.MaxInt32 {
		return f.in("max_concurrency").error(fmt.Sprintf("must be 1 or more, or absent, is %d", t.MaxConcurrency))
	}
	if !(t.Rate >= 0) || math.IsInf(t.Rate, 0) {
		return f.in("rate").error("must be above 0")
	}
	if t.Burst < 0 || t.Burst > math.MaxInt32 {
		return f.in("burst").error(fmt.Sprintf("must be 1 or more, is %d", t.Burst))
	}
	if t.Burst > 0 && t.Rate == 0 {
		return f.in("burst").error("a burst needs a rate")
	}
	if !(t.Reserved >= 0 && t.Reserved < 1) {
		return f.in("reserved").error("must be from 0 up to, not including, 1")
	}
	return nil
}

func checkPlacements(f *field, p *parts) error {
	f = f.in("placements")
	for _, e := range p.placed {
		if err := checkPlacement(&field{f, e.tenant}, p, e); err != nil {
			return err
		}
	}
	return nil
}

func checkPlacement(f *field, p *parts, e *entry) error {
	place := &e.place
	if e.tenant == "" {
		return f.error("an empty tenant has no placement")
	}
	if err := checkDestination(f, p, place); err != nil {
		return err
	}
	if place.Tier != "" {
		if _, ok := p.tiers[place.Tier]; !ok {
			return f.in("tier").error(fmt.Sprintf("no tier %q in this topic", place.Tier))
		}
	}
	return checkEpoch(f, place.Epoch, p.epoch)
}

// checkDestination wants exactly one of partitions, topic and following the
// slot.
func checkDestination(f *field, p *parts, place *Placement) error {
	switch {
	case place.FollowSlot:
		if len(place.Partitions) > 0 || place.Topic != "" || place.Spread != SpreadNone {
			return f.in("follow").error("a tenant that follows its slot has neither partitions nor a topic")
		}
		return nil
	case place.Topic != "":
		if len(place.Partitions) > 0 || place.Spread != SpreadNone {
			return f.in("topic").error("a tenant with a topic of its own is placed within that topic's entry, not here")
		}
		if place.Topic == p.name {
			return f.in("topic").error("names the topic itself")
		}
		if err := checkTopicName(place.Topic); err != nil {
			return f.in("topic").error(err.Error())
		}
		return nil
	case len(place.Partitions) == 0:
		return f.error("needs partitions, a topic, or follow: slot (a tier alone belongs under tenants)")
	}
	if err := checkPartitions(place.Partitions, p.partitions); err != nil {
		return f.in("partitions").error(err.Error())
	}
	return checkSpread(f, p, place)
}

func checkSpread(f *field, p *parts, place *Placement) error {
	switch place.Spread {
	case SpreadNone:
		if len(place.Partitions) > 1 {
			return f.in("partitions").error("several partitions need spread: key or spread: random")
		}
	case SpreadKey:
		if p.tenantOf.From == FromKey {
			return f.in("spread").error("spread: key needs tenant_of header or prefix: with tenant_of: key all keys of a tenant are equal")
		}
	case SpreadRandom:
	default:
		return f.in("spread").error("unknown " + place.Spread.String())
	}
	return nil
}

func checkTenants(f *field, p *parts) error {
	f = f.in("tenants")
	for _, e := range p.tiered {
		at := &field{f, e.tenant}
		if e.tenant == "" {
			return at.error("an empty tenant has no tier")
		}
		if _, ok := p.tiers[e.place.Tier]; !ok {
			return at.in("tier").error(fmt.Sprintf("no tier %q in this topic", e.place.Tier))
		}
		i, found := findEntry(p.placed, e.tenant)
		if found && p.placed[i].place.Tier != "" {
			return at.error("the tenant's placement already names its tier")
		}
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
			f := (&field{name: "topics"}).in(from.name).in("placements").in(e.tenant).in("topic")
			return f.error(fmt.Sprintf("%s sends the tenant on to %s: one topic may name another, not a chain", to.name, to.placed[i].place.Topic))
		}
	}
	return nil
}
