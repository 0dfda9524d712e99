package plan_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
)

// routedLoads routes every tenant with the table as a producer would and sums
// the volumes; a spread tenant counts in equal parts.
func routedLoads(t *routing.Topic, volumes []plan.Volume) []float64 {
	loads := make([]float64, t.Partitions())
	for _, v := range volumes {
		r := t.Lookup([]byte(v.Tenant), []byte(v.Tenant))
		for _, p := range r.Partitions {
			loads[p] += v.Volume / float64(len(r.Partitions))
		}
	}
	return loads
}

// fataler is what tests of both kinds can do.
type fataler interface{ Fatal(...any) }

// tableOf is a table with one topic.
func tableOf(t fataler, spec routing.TopicSpec) *routing.Table {
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": spec}})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func topicOf(table *routing.Table) *routing.Topic {
	topic, _ := table.Topic("orders")
	return topic
}

func edited(t fataler, table *routing.Table, edits []routing.Edit) *routing.Table {
	next, err := table.Edit(edits...)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// written is the table that a plan makes for a new topic.
func written(t fataler, p *plan.WhalesPlan, spec routing.TopicSpec) *routing.Topic {
	spec.Shared = p.Shared
	table := tableOf(t, spec)
	return topicOf(edited(t, table, p.Edits(topicOf(table))))
}

// spreadable is where tenants must come from so that a key can spread them.
var spreadable = routing.TenantRule{From: routing.FromHeader, Arg: "tenant"}

func TestWrittenTableRoutesAsPlanned(t *testing.T) {
	volumes := readVolumes(t)
	p, err := plan.Whales(volumes, plan.WhalesConfig{Partitions: 32, Spread: routing.SpreadKey})
	if err != nil {
		t.Fatal(err)
	}
	topic := written(t, p, routing.TopicSpec{Partitions: 32, TenantOf: spreadable})
	loads := routedLoads(topic, volumes)
	if skew := plan.SkewOf(loads); skew.MaxMean > 1.02 {
		t.Errorf("routing every tenant with the table gives max/mean %v, want at most 1.02", skew.MaxMean)
	}
	split := 0
	for _, tenant := range topic.PlacedTenants() {
		if place, _ := topic.Placement(tenant); place.Spread != routing.SpreadNone {
			split++
		}
	}
	if split > 6 {
		t.Errorf("the table splits %d tenants, want at most 6", split)
	}
}

func TestDedicatedPartitionsHoldNothingElse(t *testing.T) {
	volumes := readVolumes(t)
	p, err := plan.Whales(volumes, plan.WhalesConfig{Partitions: 32})
	if err != nil {
		t.Fatal(err)
	}
	topic := written(t, p, routing.TopicSpec{Partitions: 32})
	for slot := range topic.Slots() {
		if to := topic.SlotPartition(slot); !slices.Contains(p.Shared, to) {
			t.Fatalf("slot %d is on partition %d, which a whale has to itself", slot, to)
		}
	}
	if skew := plan.SkewOf(routedLoads(topic, volumes)); math.Abs(skew.MaxMean-p.Bound) > 1e-9 {
		t.Errorf("max/mean is %v, want the bound %v", skew.MaxMean, p.Bound)
	}
}

func TestEditsRouteAsPlannedOverAnyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions, hash := rapid.Int32Range(1, 8).Draw(t, "partitions"), drawHash(t)
		table := tableOf(t, routing.TopicSpec{
			Partitions: partitions, Slots: rapid.Int32Range(partitions, 40).Draw(t, "slots"), Hash: hash, TenantOf: spreadable,
			Tiers: map[string]routing.Tier{"gold": {}}, Tenants: map[string]routing.TenantSpec{"tenant-0": {Tier: "gold"}},
		})
		volumes := drawVolumes(t, 40)
		for range rapid.IntRange(1, 3).Draw(t, "plans") {
			layout := plan.LayoutOf(topicOf(table))
			spread := rapid.SampledFrom([]routing.Spread{routing.SpreadNone, routing.SpreadKey, routing.SpreadRandom}).Draw(t, "spread")
			p, err := plan.Whales(volumes, plan.WhalesConfig{Partitions: partitions, Hash: hash, Spread: spread, Current: &layout})
			if err != nil {
				t.Fatal(err)
			}
			table = edited(t, table, p.Edits(topicOf(table)))
			for i, load := range routedLoads(topicOf(table), volumes) {
				if math.Abs(load-p.LoadsAfter[i]) > 1e-6*(1+load) {
					t.Fatalf("partition %d holds %v by the table, %v by the plan", i, load, p.LoadsAfter[i])
				}
			}
			if tier := topicOf(table).Tier([]byte("tenant-0")); tier.Name != "gold" {
				t.Fatalf("tenant-0 lost its tier: %+v", tier)
			}
		}
	})
}

func TestGrowthEditsReachBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int32Range(1, 6).Draw(t, "from")
		to := rapid.Int32Range(from, 9).Draw(t, "to")
		slots := rapid.Int32Range(9, 40).Draw(t, "slots")
		r, err := plan.Growth(nil, plan.GrowthConfig{From: from, To: to, Slots: slots})
		if err != nil {
			t.Fatal(err)
		}
		table := tableOf(t, routing.TopicSpec{Partitions: from, Slots: slots})
		before, after := topicOf(table), topicOf(edited(t, table, r.Balance.Edits("orders", to)))
		counts := make([]int, to)
		moved := 0
		for slot := range slots {
			counts[after.SlotPartition(slot)]++
			if after.SlotPartition(slot) != before.SlotPartition(slot) {
				moved++
			}
		}
		if slices.Max(counts)-slices.Min(counts) > 1 || moved != len(r.Balance.Moves) {
			t.Fatalf("slots per partition %v after %d moves of which %d changed a partition", counts, len(r.Balance.Moves), moved)
		}
	})
}
