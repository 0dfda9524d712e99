package plan_test

import (
	"testing"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
)

func BenchmarkWhales(b *testing.B) {
	volumes := readVolumes(b)
	for b.Loop() {
		if _, err := plan.Whales(volumes, plan.WhalesConfig{Partitions: 32, Spread: routing.SpreadRandom}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBalanceByVolume(b *testing.B) {
	volumes := readVolumes(b)
	for b.Loop() {
		if _, err := plan.Growth(volumes[6:], plan.GrowthConfig{From: 32, To: 64, ByVolume: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNode(b *testing.B) {
	key := []byte("tenant-4711")
	for _, f := range []struct {
		name string
		node plan.NodeFunc
	}{
		{"modulo", plan.Modulo(routing.XXHash64, 32)},
		{"jump", plan.Jump(routing.XXHash64, 32)},
		{"ring", plan.Ring(routing.XXHash64, 32)},
		{"rendezvous", plan.Rendezvous(routing.XXHash64, 32)},
	} {
		b.Run(f.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.node(key)
			}
		})
	}
}
