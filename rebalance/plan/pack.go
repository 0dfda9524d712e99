package plan

import (
	"cmp"
	"container/heap"
	"slices"
)

// item is one thing that a partition can hold.
type item struct {
	volume float64
	home   int32 // where it is now; -1 when nowhere
	owner  int   // items of one owner ≥ 0 never share a partition
}

// pack gives each item a partition out of n by LPT (Graham 1969): largest
// first, each to the emptiest partition, which is within 4/3 − 1/(3n) of the
// best possible maximum. An item stays at home while that keeps its partition
// at or below stay (0: plain LPT); an item without volume always does. It
// answers the partition of each item and the volume of each partition. No
// owner may have more than n items.
func pack(items []item, n int, stay float64) ([]int32, []float64) {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(items[b].volume, items[a].volume) })
	b := newBins(n)
	at := make([]int32, len(items))
	for _, i := range order {
		at[i] = b.place(items[i], stay)
	}
	return at, b.loads
}

// bins is a min-heap of partitions by load, with the place of each in the heap.
type bins struct {
	loads  []float64
	heap   []int32 // partitions, emptiest first
	pos    []int   // partition → index in heap
	owners map[owned]struct{}
}

type owned struct {
	owner     int
	partition int32
}

func newBins(n int) *bins {
	b := &bins{loads: make([]float64, n), heap: make([]int32, n), pos: make([]int, n), owners: map[owned]struct{}{}}
	for p := range n {
		b.heap[p], b.pos[p] = int32(p), p
	}
	return b
}

func (b *bins) place(it item, stay float64) int32 {
	p := it.home
	if p < 0 || !b.stays(it, stay) {
		p = b.emptiest(it.owner)
	}
	b.loads[p] += it.volume
	heap.Fix(b, b.pos[p])
	if it.owner >= 0 {
		b.owners[owned{it.owner, p}] = struct{}{}
	}
	return p
}

func (b *bins) stays(it item, stay float64) bool {
	if _, taken := b.owners[owned{it.owner, it.home}]; taken {
		return false
	}
	return it.volume == 0 || b.loads[it.home]+it.volume <= stay
}

// emptiest is the least loaded partition that holds nothing of owner.
func (b *bins) emptiest(owner int) int32 {
	if owner < 0 {
		return b.heap[0]
	}
	best := int32(-1)
	for p := range b.loads {
		if _, taken := b.owners[owned{owner, int32(p)}]; taken {
			continue
		}
		if best < 0 || b.loads[p] < b.loads[best] {
			best = int32(p)
		}
	}
	return best
}

func (b *bins) Len() int { return len(b.heap) }

// Less breaks ties by number, so that a plan is the same every time.
func (b *bins) Less(i, j int) bool {
	x, y := b.heap[i], b.heap[j]
	return cmp.Or(cmp.Compare(b.loads[x], b.loads[y]), cmp.Compare(x, y)) < 0
}

func (b *bins) Swap(i, j int) {
	b.heap[i], b.heap[j] = b.heap[j], b.heap[i]
	b.pos[b.heap[i]], b.pos[b.heap[j]] = i, j
}

// Push and Pop complete heap.Interface; the number of partitions never changes.
func (b *bins) Push(any) {}
func (b *bins) Pop() any { return nil }
