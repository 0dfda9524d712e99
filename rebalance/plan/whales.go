package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// OrderCost says in words what order is left to a tenant spread that way.
func OrderCost(s routing.Spread) string {
	switch s {
	case routing.SpreadKey:
		return "order holds per (tenant, key), no longer across the tenant's keys"
	case routing.SpreadRandom:
		return "no order at all is left among the tenant's records"
	case routing.SpreadNone:
	}
	return "order is kept"
}

// WhalesConfig says what Whales plans for.
type WhalesConfig struct {
	// Partitions to plan for. Above 0.
	Partitions int32
	// Slots of the table. Default 4096.
	Slots int32
	// Hash of the table; the zero value is xxhash64.
	Hash routing.Hash
	// Spread is how a tenant may be divided; routing.SpreadNone forbids it.
	Spread routing.Spread
	// Target is the max/mean at which the plan is good enough and divides no
	// more tenants. Default 1.02, at least 1.
	Target float64
	// Current is where things are, so that as little as possible moves; nil
	// for a new table.
	Current *Layout
}

func (c WhalesConfig) withDefaults() WhalesConfig {
	if c.Current != nil {
		c.Slots = int32(len(c.Current.Slots))
	}
	if c.Slots == 0 {
		c.Slots = 4096
	}
	if c.Target == 0 {
		c.Target = 1.02
	}
	return c
}

func (c WhalesConfig) validate() error {
	switch {
	case c.Partitions < 1:
		return fmt.Errorf("plan: Partitions is %d, must be at least 1", c.Partitions)
	case c.Slots < 1:
		return fmt.Errorf("plan: Slots is %d, must be at least 1", c.Slots)
	case !(c.Target >= 1):
		return fmt.Errorf("plan: Target is %v, must be at least 1", c.Target)
	case c.Spread > routing.SpreadRandom:
		return fmt.Errorf("plan: Spread is %v, must be none, key or random", c.Spread)
	}
	if c.Current != nil {
		return c.Current.validate(c.Partitions)
	}
	return nil
}

// here copies the volumes of the tenants that are not placed on another topic.
func (c WhalesConfig) here(volumes []Volume) []Volume {
	volumes = slices.Clone(volumes)
	if c.Current == nil {
		return volumes
	}
	return slices.DeleteFunc(volumes, func(v Volume) bool {
		to, placed := c.Current.Placements[v.Tenant]
		return placed && len(to) == 0
	})
}

// Whale is a tenant that the plan gives a placement of its own.
type Whale struct {
	Tenant string
	// Volume in the input's unit, and as a share of all volume, 0 to 1.
	Volume, Share float64
	// Partitions that it goes to, ascending unless the tenant has them in
	// another order now; more than one only when spread.
	Partitions []int32
	// Spread is routing.SpreadNone when the tenant stays whole.
	Spread routing.Spread
}

// WhalesPlan is the answer of Whales.
type WhalesPlan struct {
	// Before and After are the skew of the partitions' volumes, now (by hash
	// alone when there is no current layout) and with the plan.
	Before, After Skew
	// LoadsBefore and LoadsAfter are the partitions' volumes.
	LoadsBefore, LoadsAfter []float64
	// Whales are the tenants with a placement, largest first.
	Whales []Whale
	// Shared are the partitions that slots map to by default in a new table.
	Shared []int32
	// Slots is the partition of each slot.
	Slots []int32
	// BoundBy is the tenant that keeps the plan from its target, because it may
	// not be divided (further); empty when the target is reached or no single
	// tenant is to blame.
	BoundBy string
	// Bound is the max/mean that no plan without dividing a tenant can go
	// below: the largest tenant's volume over the mean, at least 1.
	Bound float64
}

// maxRounds bounds the search; each round divides one tenant further or takes
// one out of its slot.
const maxRounds = 256

// Whales plans which tenants to place and where each slot goes so that
// max/mean of the partitions' volumes is as low as it can be, while dividing
// no more tenants than the target needs: at first those that alone exceed it,
// then, while the plan misses the target, the largest thing in the fullest
// partition: a tenant is taken out of a slot that it shares, or divided, or
// divided further. Each round packs all pieces and slots by LPT.
func Whales(volumes []Volume, c WhalesConfig) (*WhalesPlan, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	volumes = Sorted(c.here(volumes))
	sum := total(volumes)
	if !(sum > 0) || math.IsInf(sum, 0) {
		return nil, fmt.Errorf("plan: the volumes sum to %v, nothing can be planned", sum)
	}
	w := newWhaler(volumes, c, sum/float64(c.Partitions))
	best := w.pack()
	for range maxRounds {
		if best.skew <= c.Target || !w.refine() {
			break
		}
		if next := w.pack(); next.skew < best.skew {
			best = next
		}
	}
	return w.plan(best), nil
}

// whaler holds the state of one search.
type whaler struct {
	c       WhalesConfig
	volumes []Volume // largest first
	mean    float64  // of a partition
	slot    []int32  // of each tenant
	pieces  []int    // of each tenant; 0: it goes with its slot
	home    Layout
	last    packing
}

// packing is one complete assignment.
type packing struct {
	items  []item
	owner  []int // tenant of each piece, or −1−slot for a slot
	at     []int32
	loads  []float64
	pieces []int
	skew   float64 // max/mean
}

func newWhaler(volumes []Volume, c WhalesConfig, mean float64) *whaler {
	w := &whaler{c: c, volumes: volumes, mean: mean, slot: make([]int32, len(volumes)), pieces: make([]int, len(volumes))}
	for i, v := range volumes {
		w.slot[i] = slotOf(c.Hash, v.Tenant, c.Slots)
	}
	dedicated := int32(0)
	for i, v := range volumes {
		if v.Volume <= c.Target*mean {
			break
		}
		w.pieces[i] = 1
		if c.Spread != routing.SpreadNone {
			w.pieces[i] = min(int(math.Ceil(v.Volume/mean)), int(c.Partitions))
			continue
		}
		dedicated++
	}
	if c.Current != nil {
		w.home = *c.Current
		w.keepPlaced()
		return w
	}
	w.home = ModuloLayout(c.Slots, span(dedicated, c.Partitions))
	return w
}

// keepPlaced leaves tenants that have a placement with one of their own.
func (w *whaler) keepPlaced() {
	for i, v := range w.volumes {
		to := w.home.Placements[v.Tenant]
		if len(to) == 0 || w.pieces[i] > 0 {
			continue
		}
		w.pieces[i] = 1
		if w.c.Spread != routing.SpreadNone {
			w.pieces[i] = len(to)
		}
	}
}

// pack assigns the present pieces and slots, staying at home where that
// reaches the target, else by plain LPT where that is better.
func (w *whaler) pack() packing {
	p := w.items()
	p.at, p.loads = pack(p.items, int(w.c.Partitions), level(p.items, int(w.c.Partitions)))
	p.skew = SkewOf(p.loads).MaxMean
	if p.skew > w.c.Target {
		at, loads := pack(p.items, int(w.c.Partitions), 0)
		if skew := SkewOf(loads).MaxMean; skew < p.skew {
			p.at, p.loads, p.skew = at, loads, skew
		}
	}
	p.pieces = slices.Clone(w.pieces)
	w.last = p
	return p
}

// level is the mean of the partitions that no single item overfills: each item
// above it takes a partition to itself.
func level(items []item, partitions int) float64 {
	sum, volumes := 0.0, make([]float64, len(items))
	for i, it := range items {
		volumes[i] = it.volume
		sum += it.volume
	}
	slices.SortFunc(volumes, func(a, b float64) int { return cmp.Compare(b, a) })
	for _, v := range volumes {
		if partitions == 1 || v <= sum/float64(partitions) {
			break
		}
		sum -= v
		partitions--
	}
	return sum / float64(partitions)
}

func (w *whaler) items() packing {
	slots := make([]float64, w.c.Slots)
	var p packing
	for i, v := range w.volumes {
		if w.pieces[i] == 0 {
			slots[w.slot[i]] += v.Volume
			continue
		}
		homes := w.home.Placements[v.Tenant]
		for k := range w.pieces[i] {
			home := int32(-1)
			if k < len(homes) {
				home = homes[k]
			}
			p.items = append(p.items, item{v.Volume / float64(w.pieces[i]), home, i})
			p.owner = append(p.owner, i)
		}
	}
	for s, volume := range slots {
		p.items = append(p.items, item{volume, w.home.Slots[s], -1})
		p.owner = append(p.owner, -1-s)
	}
	return p
}

// refine changes what keeps the last packing's fullest partition full and says
// whether there was anything to change.
func (w *whaler) refine() bool {
	full := maxIndex(w.last.loads)
	largest := -1
	for i, it := range w.last.items {
		if w.last.at[i] == int32(full) && (largest < 0 || it.volume > w.last.items[largest].volume) {
			largest = i
		}
	}
	if owner := w.last.owner[largest]; owner >= 0 {
		return w.divide(owner)
	}
	return w.takeOut(int32(-1 - w.last.owner[largest]))
}

// divide cuts a tenant into one piece more.
func (w *whaler) divide(tenant int) bool {
	if w.c.Spread == routing.SpreadNone || w.pieces[tenant] >= int(w.c.Partitions) {
		return false
	}
	w.pieces[tenant] = max(w.pieces[tenant], 1) + 1
	return true
}

// takeOut pins the largest tenant of a slot that has several, or divides the only one.
func (w *whaler) takeOut(slot int32) bool {
	first, count := -1, 0
	for i := range w.volumes {
		if w.slot[i] == slot && w.pieces[i] == 0 && w.volumes[i].Volume > 0 {
			if first < 0 {
				first = i
			}
			count++
		}
	}
	switch {
	case first < 0:
		return false
	case count == 1:
		return w.divide(first)
	}
	w.pieces[first] = 1
	return true
}

func (w *whaler) plan(best packing) *WhalesPlan {
	before := ModuloLayout(w.c.Slots, span(0, w.c.Partitions))
	if w.c.Current != nil {
		before = *w.c.Current
	}
	loads := before.Loads(w.volumes, w.c.Hash, w.c.Partitions)
	p := &WhalesPlan{
		Before: SkewOf(loads), LoadsBefore: loads,
		After: SkewOf(best.loads), LoadsAfter: best.loads,
		Shared: distinct(w.home.Slots), Slots: make([]int32, w.c.Slots),
		Bound: max(1, w.volumes[0].Volume/w.mean),
	}
	whales := map[int][]int32{}
	for i, owner := range best.owner {
		if owner < 0 {
			p.Slots[-1-owner] = best.at[i]
			continue
		}
		whales[owner] = append(whales[owner], best.at[i])
	}
	for i, v := range w.volumes {
		if to, ok := whales[i]; ok {
			p.Whales = append(p.Whales, w.whale(v, to))
		}
	}
	p.BoundBy = w.boundBy(best)
	return p
}

func (w *whaler) whale(v Volume, to []int32) Whale {
	slices.Sort(to)
	// A key's partition depends on the order: the same partitions stay as they are.
	if now := w.home.Placements[v.Tenant]; slices.Equal(to, slices.Sorted(slices.Values(now))) {
		to = slices.Clone(now)
	}
	whale := Whale{Tenant: v.Tenant, Volume: v.Volume, Share: v.Volume / (w.mean * float64(w.c.Partitions)), Partitions: to}
	if len(to) > 1 {
		whale.Spread = w.c.Spread
	}
	return whale
}

// boundBy names the tenant whose piece alone is above the target, if any.
func (w *whaler) boundBy(best packing) string {
	if best.skew <= w.c.Target {
		return ""
	}
	for i, v := range w.volumes {
		if v.Volume/float64(max(best.pieces[i], 1)) > w.c.Target*w.mean {
			return v.Tenant
		}
	}
	return ""
}

func maxIndex(loads []float64) int {
	top := 0
	for i, l := range loads {
		if l > loads[top] {
			top = i
		}
	}
	return top
}

func distinct(ps []int32) []int32 {
	return slices.Compact(slices.Sorted(slices.Values(ps)))
}
