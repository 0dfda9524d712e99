package routing

import (
	"maps"
	"slices"
)

// TopicDiff is what changes for one topic between two tables.
type TopicDiff struct {
	Topic string
	// Added and Removed tell that only the newer or only the older table has
	// the topic; then no slots and placements are listed.
	Added, Removed bool
	// Rehashed tells that hash, number of slots or tenant_of differ: any tenant
	// may move, and slots cannot be compared one by one.
	Rehashed bool
	// Slots whose partition differs, in order; none when Rehashed.
	Slots []SlotChange
	// Placements are the tenants with an entry in either table whose own route
	// differs, in order. A tenant without an entry in both moves exactly when
	// its slot is listed.
	Placements []PlacementChange
}

// SlotChange is one slot that moves.
type SlotChange struct{ Slot, From, To int32 }

// PlacementChange is one tenant that moves.
type PlacementChange struct {
	Tenant string
	// From and To are the places before and after.
	From, To Place
}

// Place is where a tenant's records go.
type Place struct {
	// Partitions of the tenant, one unless it is spread; none with a Topic.
	Partitions []int32
	Spread     Spread
	// Topic is another topic, or empty.
	Topic string
}

func (p Place) equal(q Place) bool {
	return slices.Equal(p.Partitions, q.Partitions) && p.Spread == q.Spread && p.Topic == q.Topic
}

// place is where the topic sends a tenant.
func (t *Topic) place(tenant []byte) Place {
	r := t.Lookup(tenant, nil)
	p := Place{Partitions: slices.Clone(r.Partitions), Topic: r.Topic}
	switch r.Kind {
	case KindSpreadKey:
		p.Spread = SpreadKey
	case KindSpreadRandom:
		p.Spread = SpreadRandom
	case KindSlot, KindTenant:
	}
	return p
}

// Diff lists what moves from table a to table b, by topic name. Topics where
// nothing moves are left out; a change of tiers, epochs or counters moves
// nothing.
func Diff(a, b *Table) []TopicDiff {
	names := slices.Concat(a.names, b.names)
	slices.Sort(names)
	var diffs []TopicDiff
	for _, name := range slices.Compact(names) {
		from, to := a.topics[name], b.topics[name]
		switch {
		case from == to:
		case from == nil:
			diffs = append(diffs, TopicDiff{Topic: name, Added: true})
		case to == nil:
			diffs = append(diffs, TopicDiff{Topic: name, Removed: true})
		default:
			d := diffTopic(from, to)
			if d.Rehashed || len(d.Slots) > 0 || len(d.Placements) > 0 {
				diffs = append(diffs, d)
			}
		}
	}
	return diffs
}

func diffTopic(a, b *Topic) TopicDiff {
	d := TopicDiff{Topic: a.name, Rehashed: a.hash != b.hash || a.slots != b.slots || a.tenantOf != b.tenantOf}
	if !d.Rehashed {
		for slot, from := range a.partitionOf {
			if to := b.partitionOf[slot]; from != to {
				d.Slots = append(d.Slots, SlotChange{Slot: int32(slot), From: from, To: to})
			}
		}
	}
	for _, tenant := range eitherPlaced(a, b) {
		from, to := a.place([]byte(tenant)), b.place([]byte(tenant))
		if !from.equal(to) {
			d.Placements = append(d.Placements, PlacementChange{Tenant: tenant, From: from, To: to})
		}
	}
	return d
}

// eitherPlaced lists the tenants with an entry in a or b, leaving out entries
// that both tables share when slots are equal.
func eitherPlaced(a, b *Topic) []string {
	tenants := make(map[string]bool)
	for _, t := range []*Topic{a, b} {
		for _, e := range t.placed {
			tenants[e.tenant] = true
		}
	}
	return slices.Sorted(maps.Keys(tenants))
}

// Volume is a tenant and how much it sends, in any unit.
type Volume struct {
	Tenant string
	Volume float64
}

// VolumeMoved gives the share, 0 to 1, of a population's volume that leaves its
// partition when topic a becomes b. For a spread tenant it is the part of its
// keys (evenly hashed) or, where either side is random, the least part of its
// records that must change partition. A change of topic moves all of a tenant.
func VolumeMoved(a, b *Topic, population []Volume) float64 {
	moved, total := 0.0, 0.0
	for _, v := range population {
		total += v.Volume
		moved += v.Volume * shareMoved(a.place([]byte(v.Tenant)), b.place([]byte(v.Tenant)))
	}
	if total == 0 {
		return 0
	}
	return moved / total
}

func shareMoved(a, b Place) float64 {
	switch {
	case a.equal(b):
		return 0
	case a.Topic != b.Topic:
		return 1
	case a.Spread == SpreadRandom || b.Spread == SpreadRandom:
		return leastMoved(a.Partitions, b.Partitions)
	}
	return keysMoved(a.Partitions, b.Partitions)
}

// keysMoved compares a[i mod len(a)] with b[i mod len(b)] over a period of
// both, which is what evenly hashed keys do.
func keysMoved(a, b []int32) float64 {
	period := len(a) * len(b)
	moved := 0
	for i := range period {
		if a[i%len(a)] != b[i%len(b)] {
			moved++
		}
	}
	return float64(moved) / float64(period)
}

// leastMoved is the distance (total variation) of two even spreads.
func leastMoved(a, b []int32) float64 {
	stay := 0.0
	for _, p := range a {
		if slices.Contains(b, p) {
			stay += min(1/float64(len(a)), 1/float64(len(b)))
		}
	}
	return 1 - stay
}
