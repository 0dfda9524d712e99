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

func compile(t interface{ Fatal(...any) }, spec routing.TopicSpec) *routing.Topic {
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": spec}})
	if err != nil {
		t.Fatal(err)
	}
	topic, _ := table.Topic("orders")
	return topic
}

// spreadable is where tenants must come from so that a key can spread them.
var spreadable = routing.TenantRule{From: routing.FromHeader, Arg: "tenant"}

func TestWrittenTableRoutesAsPlanned(t *testing.T) {
	volumes := readVolumes(t)
	p, err := plan.Whales(volumes, plan.WhalesConfig{Partitions: 32, Spread: routing.SpreadKey})
	if err != nil {
		t.Fatal(err)
	}
	topic := compile(t, p.Apply(routing.TopicSpec{Partitions: 32, Shared: p.Shared, TenantOf: spreadable}))
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
	topic := compile(t, p.Apply(routing.TopicSpec{Partitions: 32, Shared: p.Shared}))
	for slot := range topic.Slots() {
		if to := topic.SlotPartition(slot); !slices.Contains(p.Shared, to) {
			t.Fatalf("slot %d is on partition %d, which a whale has to itself", slot, to)
		}
	}
	if skew := plan.SkewOf(routedLoads(topic, volumes)); math.Abs(skew.MaxMean-p.Bound) > 1e-9 {
		t.Errorf("max/mean is %v, want the bound %v", skew.MaxMean, p.Bound)
	}
}

func TestApplyRoutesAsPlannedOverAnyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions := rapid.Int32Range(1, 8).Draw(t, "partitions")
		spec := routing.TopicSpec{Partitions: partitions, Slots: rapid.Int32Range(partitions, 40).Draw(t, "slots"), Hash: drawHash(t), TenantOf: spreadable}
		volumes := drawVolumes(t, 40)
		for range rapid.IntRange(1, 3).Draw(t, "plans") {
			layout := plan.LayoutOf(compile(t, spec))
			spread := rapid.SampledFrom([]routing.Spread{routing.SpreadNone, routing.SpreadKey, routing.SpreadRandom}).Draw(t, "spread")
			p, err := plan.Whales(volumes, plan.WhalesConfig{Partitions: partitions, Hash: spec.Hash, Spread: spread, Current: &layout})
			if err != nil {
				t.Fatal(err)
			}
			next := p.Apply(spec)
			for i, load := range routedLoads(compile(t, next), volumes) {
				if math.Abs(load-p.LoadsAfter[i]) > 1e-6*(1+load) {
					t.Fatalf("partition %d holds %v by the table, %v by the plan", i, load, p.LoadsAfter[i])
				}
			}
			if next.Epoch > spec.Epoch+1 {
				t.Fatalf("epoch went from %d to %d", spec.Epoch, next.Epoch)
			}
			spec = next
		}
	})
}

func TestApplyMovesRoutesAsPlanned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int32Range(1, 6).Draw(t, "from")
		to := rapid.Int32Range(from, 9).Draw(t, "to")
		spec := routing.TopicSpec{Partitions: from, Slots: rapid.Int32Range(9, 40).Draw(t, "slots")}
		r, err := plan.Growth(nil, plan.GrowthConfig{From: from, To: to, Slots: spec.Slots})
		if err != nil {
			t.Fatal(err)
		}
		before, after := compile(t, spec), compile(t, plan.ApplyMoves(spec, r.Balance.Moves, to))
		counts := make([]int, to)
		moved := 0
		for slot := range spec.Slots {
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
