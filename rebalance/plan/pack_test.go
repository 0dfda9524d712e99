package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawItems(t *rapid.T, most int) []item {
	volumes := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, most).Draw(t, "volumes")
	items := make([]item, len(volumes))
	for i, v := range volumes {
		items[i] = item{volume: v, home: -1, owner: -1}
	}
	return items
}

// leastMaximum tries every assignment.
func leastMaximum(items []item, n int) float64 {
	loads := make([]float64, n)
	var try func(i int) float64
	try = func(i int) float64 {
		if i == len(items) {
			return slices.Max(loads)
		}
		best := -1.0
		for p := range loads {
			loads[p] += items[i].volume
			if m := try(i + 1); best < 0 || m < best {
				best = m
			}
			loads[p] -= items[i].volume
		}
		return best
	}
	return try(0)
}

func TestPackIsWithinGrahamsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "partitions")
		items := drawItems(t, 7)
		_, loads := pack(items, n, 0)
		bound := (4.0/3 - 1/(3*float64(n))) * leastMaximum(items, n)
		if got := slices.Max(loads); got > bound*(1+1e-9) {
			t.Fatalf("LPT's maximum %v is above its bound %v", got, bound)
		}
	})
}

// packNaively is pack without a heap and without an index of owners.
func packNaively(items []item, n int, stay float64) ([]int32, []float64) {
	at, loads := make([]int32, len(items)), make([]float64, n)
	done := make([]bool, len(items))
	holds := func(owner int, p int32) bool {
		for i, it := range items {
			if done[i] && at[i] == p && it.owner == owner && owner >= 0 {
				return true
			}
		}
		return false
	}
	for range items {
		next := -1
		for i, it := range items {
			if !done[i] && (next < 0 || it.volume > items[next].volume) {
				next = i
			}
		}
		it, to := items[next], int32(-1)
		for p := range int32(n) {
			if !holds(it.owner, p) && (to < 0 || loads[p] < loads[to]) {
				to = p
			}
		}
		if h := it.home; h >= 0 && !holds(it.owner, h) && (it.volume == 0 || loads[h]+it.volume <= stay) {
			to = h
		}
		at[next], done[next] = to, true
		loads[to] += it.volume
	}
	return at, loads
}

func TestPackEqualsItsNaiveTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "partitions")
		items := drawItems(t, 20)
		owners := map[int]int{}
		for i := range items {
			items[i].home = rapid.Int32Range(-1, int32(n)-1).Draw(t, "home")
			if owner := rapid.IntRange(-1, 2).Draw(t, "owner"); owner >= 0 && owners[owner] < n {
				items[i].owner = owner
				owners[owner]++
			}
		}
		stay := rapid.Float64Range(0, 200).Draw(t, "stay")
		at, loads := pack(items, n, stay)
		wantAt, wantLoads := packNaively(items, n, stay)
		if !slices.Equal(at, wantAt) || !slices.Equal(loads, wantLoads) {
			t.Fatalf("pack = %v %v, naively %v %v", at, loads, wantAt, wantLoads)
		}
	})
}
