package plan_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
)

func ExampleSize() {
	r, err := plan.Size(plan.SizeConfig{PeakPerMinute: 12000, P50: 400 * time.Millisecond, Concurrency: 8})
	fmt.Println(r.Partitions, r.Warnings, err)
	// Output: 15 [] <nil>
}

func ExampleWhales() {
	volumes, err := plan.ReadVolumes(strings.NewReader("acme\t60\nglobex\t10\nhooli\t10\ninitech\t10\numbrella\t10\n"), false)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := plan.Whales(volumes, plan.WhalesConfig{Partitions: 4, Spread: routing.SpreadKey})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range p.Whales {
		fmt.Printf("%s has %.0f %% and goes to %v: %s\n", w.Tenant, 100*w.Share, w.Partitions, plan.OrderCost(w.Spread))
	}
	fmt.Printf("max/mean from %.2f to %.2f\n", p.Before.MaxMean, p.After.MaxMean)
	// Output:
	// acme has 60 % and goes to [0 1 2 3]: order holds per (tenant, key), no longer across the tenant's keys
	// max/mean from 2.80 to 1.00
}

func ExampleGrowth() {
	keys := numbered("user-", 1000)
	r, err := plan.Growth(keys, plan.GrowthConfig{From: 4, To: 5, Hash: routing.SHA256First64})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range r.Strategies {
		fmt.Printf("%s moves %d of %d keys\n", s.Strategy, s.Keys, s.Of)
	}
	fmt.Printf("%d slot moves, no plan needs fewer than %d\n", len(r.Balance.Moves), r.Balance.AtLeast)
	// Output:
	// modulo moves 805 of 1000 keys
	// jump moves 187 of 1000 keys
	// ring moves 168 of 1000 keys
	// rendezvous moves 195 of 1000 keys
	// slots moves 186 of 1000 keys
	// 819 slot moves, no plan needs fewer than 819
}

func ExampleHashSkew() {
	countries, err := plan.ReadVolumes(strings.NewReader("nl\t800\nbe\t150\nlu\t50\n"), false)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := plan.HashSkew(countries, routing.XXHash64, 8)
	fmt.Printf("%.2f %v\n", r.HottestShare, err)
	// Output: 0.85 <nil>
}
