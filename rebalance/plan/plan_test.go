package plan_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
)

func drawHash(t *rapid.T) routing.Hash {
	h, err := routing.ParseHash(rapid.SampledFrom(routing.HashNames()).Draw(t, "hash"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// drawVolumes draws a population with a long tail, as real ones have.
func drawVolumes(t *rapid.T, most int) []plan.Volume {
	n := rapid.IntRange(1, most).Draw(t, "tenants")
	alpha := rapid.Float64Range(0, 2).Draw(t, "alpha")
	volumes := make([]plan.Volume, n)
	for i := range volumes {
		volumes[i] = plan.Volume{Tenant: fmt.Sprintf("tenant-%d", i), Volume: math.Ceil(1e6 / math.Pow(float64(i+1), alpha))}
	}
	return volumes
}

func drawLayout(t *rapid.T, partitions int32, slots int) plan.Layout {
	l := plan.Layout{Placements: map[string][]int32{}}
	for range slots {
		l.Slots = append(l.Slots, rapid.Int32Range(0, partitions-1).Draw(t, "slot"))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "placed") {
		to := rapid.SliceOfNDistinct(rapid.Int32Range(0, partitions-1), 1, int(partitions), rapid.ID[int32]).Draw(t, "to")
		l.Placements[fmt.Sprintf("tenant-%d", i)] = to
	}
	return l
}

func TestWhalesPlacesEachTenantOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		volumes := drawVolumes(t, 60)
		c := plan.WhalesConfig{
			Partitions: rapid.Int32Range(1, 12).Draw(t, "partitions"),
			Slots:      rapid.Int32Range(1, 64).Draw(t, "slots"),
			Hash:       drawHash(t),
			Spread:     rapid.SampledFrom([]routing.Spread{routing.SpreadNone, routing.SpreadKey, routing.SpreadRandom}).Draw(t, "spread"),
		}
		divided := false
		if rapid.Bool().Draw(t, "has a layout") {
			l := drawLayout(t, c.Partitions, int(c.Slots))
			c.Current = &l
			for _, to := range l.Placements {
				divided = divided || len(to) > 1
			}
		}
		p, err := plan.Whales(volumes, c)
		if err != nil {
			t.Fatal(err)
		}
		loads := independentLoads(t, p, volumes, c)
		for i, want := range loads {
			if math.Abs(p.LoadsAfter[i]-want) > 1e-6*(1+want) {
				t.Fatalf("partition %d holds %v by the plan, %v by routing each tenant", i, p.LoadsAfter[i], want)
			}
		}
		if rejoins := divided && c.Spread == routing.SpreadNone; !rejoins && p.After.MaxMean > p.Before.MaxMean*(4.0/3)+1e-9 {
			t.Fatalf("max/mean went from %v to %v", p.Before.MaxMean, p.After.MaxMean)
		}
	})
}

// independentLoads routes every tenant by the plan, with nothing of the plan's own code.
func independentLoads(t *rapid.T, p *plan.WhalesPlan, volumes []plan.Volume, c plan.WhalesConfig) []float64 {
	whales := map[string]plan.Whale{}
	for _, w := range p.Whales {
		if _, twice := whales[w.Tenant]; twice {
			t.Fatalf("tenant %s is placed twice", w.Tenant)
		}
		sorted := slices.Sorted(slices.Values(w.Partitions))
		if len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
			t.Fatalf("tenant %s has pieces on one partition: %v", w.Tenant, w.Partitions)
		}
		if now := placedNow(c, w.Tenant); slices.Equal(sorted, slices.Sorted(slices.Values(now))) {
			sorted = now
		}
		if !slices.Equal(w.Partitions, sorted) {
			t.Fatalf("tenant %s goes to %v, want the order %v", w.Tenant, w.Partitions, sorted)
		}
		if (len(w.Partitions) > 1) != (w.Spread != routing.SpreadNone) || w.Spread != routing.SpreadNone && w.Spread != c.Spread {
			t.Fatalf("tenant %s on %v is spread %q", w.Tenant, w.Partitions, w.Spread)
		}
		whales[w.Tenant] = w
	}
	loads := make([]float64, c.Partitions)
	for _, v := range volumes {
		to := []int32{p.Slots[c.Hash.Slot(c.Hash.Sum([]byte(v.Tenant)), int32(len(p.Slots)))]}
		if w, ok := whales[v.Tenant]; ok {
			to = w.Partitions
		}
		for _, partition := range to {
			loads[partition] += v.Volume / float64(len(to))
		}
	}
	return loads
}

// placedNow is where the current layout places a tenant by name.
func placedNow(c plan.WhalesConfig, tenant string) []int32 {
	if c.Current == nil {
		return nil
	}
	return c.Current.Placements[tenant]
}

func TestGrowthMovesNothingElseThanListed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int32Range(1, 6).Draw(t, "from")
		c := plan.GrowthConfig{From: from, To: rapid.Int32Range(from, 9).Draw(t, "to"), Hash: drawHash(t), ByVolume: rapid.Bool().Draw(t, "by volume")}
		l := drawLayout(t, from, rapid.IntRange(1, 40).Draw(t, "slots"))
		c.Current = &l
		volumes := drawVolumes(t, 50)
		r, err := plan.Growth(volumes, c)
		if err != nil {
			t.Fatal(err)
		}
		after := slices.Clone(l.Slots)
		for i, m := range r.Balance.Moves {
			if l.Slots[m.Slot] != m.From || m.From == m.To || m.To >= c.To || i > 0 && r.Balance.Moves[i-1].Slot >= m.Slot {
				t.Fatalf("move %+v does not start where slot %d is, or is listed twice", m, m.Slot)
			}
			after[m.Slot] = m.To
		}
		moved := 0
		for _, v := range volumes {
			slot := c.Hash.Slot(c.Hash.Sum([]byte(v.Tenant)), int32(len(l.Slots)))
			if _, placed := l.Placements[v.Tenant]; !placed && after[slot] != l.Slots[slot] {
				moved++
			}
		}
		if got := r.Strategies[len(r.Strategies)-1]; got.Strategy != "slots" || got.Keys != moved || got.Of != len(volumes) {
			t.Fatalf("slots: %+v, but %d of %d tenants have another partition", got, moved, len(volumes))
		}
	})
}

// fewestMoves tries every assignment of slots to partitions that ok accepts.
func fewestMoves(slots, into []int32, ok func(after []int32) bool) int {
	after, best := slices.Clone(slots), -1
	var try func(s, moves int)
	try = func(s, moves int) {
		if best >= 0 && moves >= best {
			return
		}
		if s == len(slots) {
			if ok(after) {
				best = moves
			}
			return
		}
		for _, p := range into {
			after[s] = p
			if p == slots[s] {
				try(s+1, moves)
			} else {
				try(s+1, moves+1)
			}
		}
	}
	try(0, 0)
	return best
}

func drawBalance(t *rapid.T) plan.BalanceConfig {
	n := rapid.Int32Range(1, 3).Draw(t, "partitions")
	return plan.BalanceConfig{
		Slots: rapid.SliceOfN(rapid.Int32Range(0, n-1), 1, 7).Draw(t, "slots"),
		Into:  []int32{0, 1, 2}[:rapid.IntRange(1, 3).Draw(t, "into")],
	}
}

func TestBalanceByCountTakesTheFewestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawBalance(t)
		even := func(after []int32) bool {
			counts := make([]int, len(c.Into))
			for _, p := range after {
				counts[p]++
			}
			return slices.Max(counts)-slices.Min(counts) <= 1
		}
		got := plan.BalanceSlots(c)
		after := slices.Clone(c.Slots)
		for _, m := range got.Moves {
			after[m.Slot] = m.To
		}
		want := fewestMoves(c.Slots, c.Into, even)
		if !even(after) || len(got.Moves) != want || got.AtLeast != want {
			t.Fatalf("%d moves (at least %d) to %v, the fewest are %d", len(got.Moves), got.AtLeast, after, want)
		}
	})
}

func TestBalanceByVolumeIsHonest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawBalance(t)
		// Whole numbers add up exactly in any order.
		whole := rapid.Map(rapid.IntRange(0, 20), func(i int) float64 { return float64(i) })
		c.Volumes = rapid.SliceOfN(whole, len(c.Slots), len(c.Slots)).Draw(t, "volumes")
		c.Fixed = rapid.SliceOfN(whole, len(c.Into), len(c.Into)).Draw(t, "fixed")
		c.Tolerance = rapid.SampledFrom([]float64{1, 1.02, 1.125, 1.5}).Draw(t, "tolerance")
		loadsOf := func(after []int32) []float64 {
			loads := slices.Clone(c.Fixed)
			for s, p := range after {
				loads[p] += c.Volumes[s]
			}
			return loads
		}
		balanced := func(after []int32) bool {
			loads, largest := loadsOf(after), slices.Clone(c.Fixed)
			for s, p := range after {
				largest[p] = max(largest[p], c.Volumes[s])
			}
			for p, load := range loads {
				if load > c.Tolerance*max(mean(loads), largest[p]) {
					return false
				}
			}
			return true
		}
		got := plan.BalanceSlots(c)
		after := slices.Clone(c.Slots)
		for _, m := range got.Moves {
			after[m.Slot] = m.To
		}
		for i, want := range loadsOf(after) {
			if got.Loads[i] != want {
				t.Fatalf("loads %v, want %v", got.Loads, loadsOf(after))
			}
		}
		best := fewestMoves(c.Slots, c.Into, balanced)
		if best >= 0 && got.AtLeast > best {
			t.Fatalf("claims that at least %d moves are needed, %d suffice", got.AtLeast, best)
		}
		if best == 0 && len(got.Moves) > 0 {
			t.Fatalf("moves %v of a balanced layout", got.Moves)
		}
	})
}

func mean(loads []float64) float64 {
	var sum float64
	for _, l := range loads {
		sum += l
	}
	return sum / float64(len(loads))
}

func TestNodesMoveOnlyOntoANewNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, n := drawHash(t), rapid.IntRange(1, 12).Draw(t, "nodes")
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		for name, nodes := range map[string]func(routing.Hash, int) plan.NodeFunc{"ring": plan.Ring, "rendezvous": plan.Rendezvous, "jump": plan.Jump} {
			before, after := nodes(h, n)(key), nodes(h, n+1)(key)
			if before < 0 || before >= n || after != before && after != n {
				t.Fatalf("%s: key %x went from node %d of %d to %d", name, key, before, n, after)
			}
		}
	})
}

func TestNodesEqualTheirNaiveTwins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, n := drawHash(t), rapid.IntRange(1, 12).Draw(t, "nodes")
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		sum := h.Sum(key)
		ring, dist := -1, uint64(math.MaxUint64)
		rendezvous, top := -1, uint64(0)
		for node := range n {
			for v := range plan.RingVirtualNodes {
				// The distance clockwise wraps by itself in unsigned arithmetic.
				d := h.Sum(fmt.Appendf(nil, "db-%d:%d", node+1, v)) - sum
				if ring < 0 || d < dist {
					ring, dist = node, d
				}
			}
			if s := h.Sum(fmt.Appendf(nil, "%s:db-%d", key, node+1)); rendezvous < 0 || s > top {
				rendezvous, top = node, s
			}
		}
		if got := plan.Ring(h, n)(key); got != ring {
			t.Fatalf("ring: node %d, naively %d", got, ring)
		}
		if got := plan.Rendezvous(h, n)(key); got != rendezvous {
			t.Fatalf("rendezvous: node %d, naively %d", got, rendezvous)
		}
	})
}
