package routing_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// tenants draws from few names, so that tables and lookups meet, and from any
// bytes.
func tenants() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"a", "b", "c", "acme", "123", "null", "é", "\x00", "\xff\xfe", "a:b", "- x"}),
		rapid.StringN(1, 12, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 12), func(b []byte) string { return string(b) }),
	)
}

// partitionLists draws distinct partitions below n.
func partitionLists(n int32, most int) *rapid.Generator[[]int32] {
	return rapid.SliceOfNDistinct(rapid.Int32Range(0, n-1), 1, min(most, int(n)), rapid.ID[int32])
}

// topicSpecs draws any topic that NewTable must take.
func topicSpecs() *rapid.Generator[routing.TopicSpec] {
	return rapid.Custom(func(t *rapid.T) routing.TopicSpec {
		n := rapid.Int32Range(1, 20).Draw(t, "partitions")
		s := routing.TopicSpec{
			Partitions: n, Hash: routing.Hash(rapid.IntRange(0, 5).Draw(t, "hash")),
			Shared: partitionLists(n, int(n)).Draw(t, "shared"), Wrapped: rapid.Bool().Draw(t, "wrapped"),
			TenantOf: rapid.SampledFrom([]routing.TenantRule{{}, {From: routing.FromHeader, Arg: "tenant id"}, {From: routing.FromPrefix, Arg: ":\xff"}, {From: routing.FromPrefix, Arg: "#"}}).Draw(t, "tenant_of"),
			Epoch:    rapid.Uint64Range(0, 50).Draw(t, "epoch"),
			Tiers:    rapid.MapOfN(rapid.SampledFrom([]string{"gold", "standard", "Ünder"}), tiers(), 0, 3).Draw(t, "tiers"),
		}
		s.Slots = rapid.Int32Range(int32(len(s.Shared)), 64).Draw(t, "slots")
		epochs := rapid.Uint64Range(0, s.Epoch)
		s.SlotOverrides = rapid.MapOfN(rapid.Int32Range(0, s.Slots-1), rapid.Custom(func(t *rapid.T) routing.SlotPlacement {
			return routing.SlotPlacement{Partition: rapid.Int32Range(0, n-1).Draw(t, "partition"), Epoch: epochs.Draw(t, "epoch")}
		}), 0, 5).Draw(t, "slot_overrides")
		s.Placements = rapid.MapOfN(tenants(), placements(s), 0, 12).Draw(t, "placements")
		s.Tenants = map[string]routing.TenantSpec{}
		if len(s.Tiers) > 0 {
			for _, tenant := range rapid.SliceOfN(tenants(), 0, 4).Draw(t, "tenants") {
				if s.Placements[tenant].Tier == "" {
					s.Tenants[tenant] = routing.TenantSpec{Tier: rapid.SampledFrom(slices.Sorted(maps.Keys(s.Tiers))).Draw(t, "tier")}
				}
			}
		}
		return s
	})
}

func tiers() *rapid.Generator[routing.Tier] {
	return rapid.Custom(func(t *rapid.T) routing.Tier {
		tier := routing.Tier{
			Weight: rapid.IntRange(0, 100).Draw(t, "weight"), MaxConcurrency: rapid.IntRange(0, 9).Draw(t, "max_concurrency"),
			Reserved: rapid.Float64Range(0, 0.3).Draw(t, "reserved"),
		}
		if rapid.Bool().Draw(t, "limited") {
			tier.Rate = rapid.Float64Range(0.001, 1e6).Draw(t, "rate")
			tier.Burst = rapid.IntRange(0, 99).Draw(t, "burst")
		}
		return tier
	})
}

func placements(s routing.TopicSpec) *rapid.Generator[routing.Placement] {
	return rapid.Custom(func(t *rapid.T) routing.Placement {
		p := routing.Placement{Epoch: rapid.Uint64Range(0, s.Epoch).Draw(t, "epoch")}
		if len(s.Tiers) > 0 && rapid.Bool().Draw(t, "has tier") {
			p.Tier = rapid.SampledFrom(slices.Sorted(maps.Keys(s.Tiers))).Draw(t, "tier")
		}
		switch rapid.IntRange(0, 4).Draw(t, "form") {
		case 0:
			p.Topic = "elsewhere"
		case 1:
			p.FollowSlot = true
		case 2:
			p.Partitions, p.Spread = partitionLists(s.Partitions, 4).Draw(t, "partitions"), routing.SpreadRandom
		case 3:
			if s.TenantOf.From != routing.FromKey {
				p.Partitions, p.Spread = partitionLists(s.Partitions, 4).Draw(t, "partitions"), routing.SpreadKey
				break
			}
			fallthrough
		default:
			p.Partitions = partitionLists(s.Partitions, 1).Draw(t, "partitions")
		}
		return p
	})
}

func specs() *rapid.Generator[routing.Spec] {
	return rapid.Custom(func(t *rapid.T) routing.Spec {
		return routing.Spec{
			Revision: rapid.Uint64Range(0, 1<<40).Draw(t, "revision"),
			Topics:   rapid.MapOfN(rapid.SampledFrom([]string{"orders", "pay.ments-1", "_x"}), topicSpecs(), 0, 2).Draw(t, "topics"),
		}
	})
}

func newTable(t interface{ Fatal(...any) }, s routing.Spec) *routing.Table {
	table, err := routing.NewTable(s)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// naiveRoute is the table's rule said plainly on the plain data.
func naiveRoute(s routing.TopicSpec, tenant, key []byte) routing.Route {
	sum := s.Hash.Sum(tenant)
	r := routing.Route{Hash: sum, Slot: s.Hash.Slot(sum, s.Slots)}
	r.Partition = s.Shared[int(r.Slot)%len(s.Shared)]
	if o, ok := s.SlotOverrides[r.Slot]; ok {
		r.Partition, r.Epoch, r.Rule = o.Partition, o.Epoch, routing.RuleSlotOverride
	}
	p, placed := s.Placements[string(tenant)]
	r.Tier = p.Tier
	switch {
	case !placed:
	case p.FollowSlot:
		r.Epoch = max(r.Epoch, p.Epoch)
	default:
		r.Epoch, r.Rule, r.Kind, r.Partition, r.Partitions = p.Epoch, routing.RulePinned, routing.KindTenant, -1, p.Partitions
		switch {
		case p.Topic != "":
			r.Topic = p.Topic
		case p.Spread == routing.SpreadRandom:
			r.Rule, r.Kind = routing.RuleSpread, routing.KindSpreadRandom
		case p.Spread == routing.SpreadKey:
			r.Rule, r.Kind = routing.RuleSpread, routing.KindSpreadKey
			if key != nil {
				r.Partition = p.Partitions[s.Hash.Slot(s.Hash.Sum(key), int32(len(p.Partitions)))]
			}
		default:
			r.Partition = p.Partitions[0]
		}
		return r
	}
	r.Partitions = []int32{r.Partition}
	return r
}

func TestEachTenantHasExactlyOnePlacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := topicSpecs().Draw(t, "topic")
		topic, _ := newTable(t, routing.Spec{Topics: map[string]routing.TopicSpec{"orders": spec}}).Topic("orders")
		lookups := slices.AppendSeq(rapid.SliceOfN(tenants(), 1, 20).Draw(t, "lookups"), maps.Keys(spec.Placements))
		for _, tenant := range lookups {
			key := rapid.SampledFrom([][]byte{nil, {}, []byte("k"), []byte("other")}).Draw(t, "key")
			want := naiveRoute(spec, []byte(tenant), key)
			got := topic.Lookup([]byte(tenant), key)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q: %s", tenant, diff)
			}
			if p := topic.Partition([]byte(tenant), key); p != want.Partition {
				t.Fatalf("%q: Partition gives %d, want %d", tenant, p, want.Partition)
			}
			if p, ok := topic.Placement(tenant); ok != hasKey(spec.Placements, tenant) || ok && p.Epoch != spec.Placements[tenant].Epoch {
				t.Fatalf("%q: Placement = %+v, %v", tenant, p, ok)
			}
			for _, p := range got.Partitions {
				if p < 0 || p >= spec.Partitions {
					t.Fatalf("%q goes to partition %d of %d", tenant, p, spec.Partitions)
				}
			}
		}
	})
}

func hasKey[K comparable, V any](m map[K]V, k K) bool {
	_, ok := m[k]
	return ok
}

func TestYAMLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newTable(t, specs().Draw(t, "spec"))
		text, err := table.YAML()
		if err != nil {
			t.Fatal(err)
		}
		back, err := routing.Parse("t", text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if diff := cmp.Diff(table.Spec(), back.Spec()); diff != "" {
			t.Fatal(diff)
		}
		again, err := back.YAML()
		if err != nil || string(again) != string(text) {
			t.Fatalf("the canonical text is not stable (%v):\n%s\n%s", err, text, again)
		}
	})
}

// drawEdit gives an edit that may or may not be possible.
func drawEdit(t *rapid.T, s routing.TopicSpec) routing.Edit {
	tenant := rapid.OneOf(tenants(), rapid.SampledFrom(append(slices.Sorted(maps.Keys(s.Placements)), "acme"))).Draw(t, "tenant")
	switch rapid.IntRange(0, 6).Draw(t, "edit") {
	case 0:
		return routing.SetPlacement("orders", tenant, placements(s).Draw(t, "placement"))
	case 1:
		return routing.UnsetPlacement("orders", tenant)
	case 2:
		return routing.SetSlots("orders", rapid.MapOfN(rapid.Int32Range(0, s.Slots-1), rapid.Int32Range(0, s.Partitions-1), 0, 5).Draw(t, "slots"))
	case 3:
		return routing.Grow("orders", s.Partitions+rapid.Int32Range(-1, 3).Draw(t, "more"))
	case 4:
		return routing.ForgetTenant("orders", tenant)
	case 5:
		return routing.SetTenantTier("orders", tenant, rapid.SampledFrom([]string{"", "gold", "standard"}).Draw(t, "tier"))
	}
	return routing.SetTier("orders", "gold", tiers().Draw(t, "tier"))
}

func TestEditsGiveATableThatMayReplaceTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newTable(t, routing.Spec{Revision: 7, Topics: map[string]routing.TopicSpec{"orders": topicSpecs().Draw(t, "topic")}})
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			spec := table.Spec()
			next, err := table.Edit(drawEdit(t, spec.Topics["orders"]))
			if diff := cmp.Diff(spec, table.Spec()); diff != "" {
				t.Fatal("an edit changed the table it was made from: ", diff)
			}
			if err != nil {
				continue
			}
			if next.Revision() != table.Revision()+1 {
				t.Fatalf("revision %d after %d", next.Revision(), table.Revision())
			}
			fresh := newTable(t, next.Spec())
			if diff := cmp.Diff(fresh.Spec(), next.Spec()); diff != "" {
				t.Fatal("an edit gives another table than its own data: ", diff)
			}
			if forgot := !covers(next, table); !forgot {
				if err := next.MayReplace(table, func(string) bool { return true }); err != nil {
					t.Fatal(err)
				}
			}
			table = next
		}
	})
}

// covers tells whether b still has an entry for every tenant placed in a:
// ForgetTenant alone takes one away, and its epoch with it.
func covers(b, a *routing.Table) bool {
	from, _ := a.Topic("orders")
	to, _ := b.Topic("orders")
	for _, tenant := range from.PlacedTenants() {
		if _, ok := to.Placement(tenant); !ok {
			return false
		}
	}
	return true
}

func TestDiffIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := topicSpecs().Draw(t, "before")
		var after routing.TopicSpec
		a := newTable(t, routing.Spec{Topics: map[string]routing.TopicSpec{"orders": before}})
		b := a
		if rapid.Bool().Draw(t, "unrelated") {
			after = topicSpecs().Draw(t, "after")
			b = newTable(t, routing.Spec{Topics: map[string]routing.TopicSpec{"orders": after}})
		} else {
			for range rapid.IntRange(0, 4).Draw(t, "edits") {
				if next, err := b.Edit(drawEdit(t, b.Spec().Topics["orders"])); err == nil {
					b = next
				}
			}
			after = b.Spec().Topics["orders"]
			before = a.Spec().Topics["orders"]
		}
		var diff routing.TopicDiff
		if diffs := routing.Diff(a, b); len(diffs) > 1 {
			t.Fatalf("%d diffs of one topic", len(diffs))
		} else if len(diffs) == 1 {
			diff = diffs[0]
		}
		listed := map[string]bool{}
		for _, c := range diff.Placements {
			if listed[c.Tenant] {
				t.Fatalf("%q is listed twice", c.Tenant)
			}
			listed[c.Tenant] = true
		}
		slots := map[int32]routing.SlotChange{}
		for _, c := range diff.Slots {
			slots[c.Slot] = c
		}
		population := slices.Concat(slices.Sorted(maps.Keys(before.Placements)), slices.Sorted(maps.Keys(after.Placements)),
			rapid.SliceOfN(tenants(), 0, 30).Draw(t, "population"))
		for _, tenant := range population {
			checkDiffOf(t, before, after, tenant, diff, listed[tenant], slots)
		}
	})
}

// checkDiffOf compares what a diff says of one tenant with what the two specs
// do with it.
func checkDiffOf(t *rapid.T, before, after routing.TopicSpec, tenant string, diff routing.TopicDiff, listed bool, slots map[int32]routing.SlotChange) {
	from, to := naiveRoute(before, []byte(tenant), nil), naiveRoute(after, []byte(tenant), nil)
	moves := !slices.Equal(from.Partitions, to.Partitions) || from.Topic != to.Topic || spread(from) != spread(to)
	switch {
	case hasKey(before.Placements, tenant) || hasKey(after.Placements, tenant):
		if moves != listed {
			t.Fatalf("%q moves: %v, listed: %v", tenant, moves, listed)
		}
	case listed:
		t.Fatalf("%q is listed without an entry", tenant)
	case diff.Rehashed:
	default:
		c, slotListed := slots[from.Slot]
		if moves != slotListed || slotListed && (c.From != from.Partition || c.To != to.Partition) {
			t.Fatalf("%q moves %v from %d to %d, its slot is listed: %v %+v", tenant, moves, from.Partition, to.Partition, slotListed, c)
		}
	}
}

func spread(r routing.Route) routing.Kind {
	if r.Kind < routing.KindSpreadKey {
		return routing.KindSlot
	}
	return r.Kind
}

func TestVolumeMovedIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := topicSpecs().Draw(t, "before"), topicSpecs().Draw(t, "after")
		a, _ := newTable(t, routing.Spec{Topics: map[string]routing.TopicSpec{"orders": before}}).Topic("orders")
		b, _ := newTable(t, routing.Spec{Topics: map[string]routing.TopicSpec{"orders": after}}).Topic("orders")
		volumes := rapid.MapOfN(tenants(), rapid.Float64Range(0, 100), 0, 20).Draw(t, "volumes")
		var population []routing.Volume
		total, moved := 0.0, 0.0
		for _, tenant := range slices.Sorted(maps.Keys(volumes)) {
			from, to := naiveRoute(before, []byte(tenant), nil), naiveRoute(after, []byte(tenant), nil)
			if len(from.Partitions) > 1 || len(to.Partitions) > 1 {
				continue // spread tenants have their own test
			}
			population = append(population, routing.Volume{Tenant: tenant, Volume: volumes[tenant]})
			total += volumes[tenant]
			if from.Topic != to.Topic || !slices.Equal(from.Partitions, to.Partitions) {
				moved += volumes[tenant]
			}
		}
		want := 0.0
		if total > 0 {
			want = moved / total
		}
		if got := routing.VolumeMoved(a, b, population); got < want-1e-9 || got > want+1e-9 {
			t.Fatalf("moved %v, want %v", got, want)
		}
	})
}

func TestVolumeMovedOfSpreadTenants(t *testing.T) {
	topic := func(p routing.Placement) *routing.Topic {
		topic, _ := newTable(t, routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {
			Partitions: 12, TenantOf: routing.TenantRule{From: routing.FromPrefix, Arg: ":"}, Placements: map[string]routing.Placement{"w": p},
		}}}).Topic("orders")
		return topic
	}
	key, random := routing.SpreadKey, routing.SpreadRandom
	for _, c := range []struct {
		from, to routing.Placement
		want     float64
	}{
		{routing.Placement{Partitions: []int32{0}}, routing.Placement{Partitions: []int32{0, 1}, Spread: key}, 0.5},
		{routing.Placement{Partitions: []int32{0, 1}, Spread: key}, routing.Placement{Partitions: []int32{1, 0}, Spread: key}, 1},
		{routing.Placement{Partitions: []int32{0, 1}, Spread: random}, routing.Placement{Partitions: []int32{1, 0}, Spread: random}, 0},
		{routing.Placement{Partitions: []int32{0, 1}, Spread: random}, routing.Placement{Partitions: []int32{0, 1, 2, 3}, Spread: random}, 0.5},
		{routing.Placement{Partitions: []int32{0, 1}, Spread: key}, routing.Placement{Partitions: []int32{0, 1, 2}, Spread: key}, 4.0 / 6},
		{routing.Placement{Partitions: []int32{5}}, routing.Placement{Topic: "fast"}, 1},
	} {
		got := routing.VolumeMoved(topic(c.from), topic(c.to), []routing.Volume{{Tenant: "w", Volume: 3}})
		if fmt.Sprintf("%.9f", got) != fmt.Sprintf("%.9f", c.want) {
			t.Errorf("%+v to %+v moves %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestRebaseSaysWhatWasWantedAndKeepsEpochs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		current := newTable(t, routing.Spec{Revision: 9, Topics: map[string]routing.TopicSpec{"orders": topicSpecs().Draw(t, "current")}})
		wanted := current
		for range rapid.IntRange(0, 4).Draw(t, "edits") {
			if next, err := wanted.Edit(drawEdit(t, wanted.Spec().Topics["orders"])); err == nil {
				wanted = next
			}
		}
		next, err := routing.Rebase(current, wanted.Spec())
		if err != nil {
			t.Fatal(err)
		}
		if diffs := routing.Diff(wanted, next); len(diffs) > 0 {
			t.Fatalf("the rebased table routes unlike the wanted one: %+v", diffs)
		}
		if err := next.MayReplace(current, func(string) bool { return true }); err != nil {
			t.Fatal(err)
		}
		from, _ := current.Topic("orders")
		to, _ := next.Topic("orders")
		if moves := len(routing.Diff(current, next)) > 0; moves && to.Epoch() != from.Epoch()+1 {
			t.Fatalf("something moves, and the counter goes from %d to %d", from.Epoch(), to.Epoch())
		}
	})
}
