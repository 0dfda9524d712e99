package check

import (
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestRangesAgreeWithASet(t *testing.T) {
	numbers := rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Uint64Range(math.MaxUint64-5, math.MaxUint64))
	rapid.Check(t, func(t *rapid.T) {
		var r, other ranges
		twin, otherTwin := map[uint64]bool{}, map[uint64]bool{}
		for _, x := range rapid.SliceOf(numbers).Draw(t, "numbers") {
			if added := r.add(x); added == twin[x] {
				t.Fatalf("add(%d) is %v in %v", x, added, r)
			}
			twin[x] = true
		}
		for _, x := range rapid.SliceOf(numbers).Draw(t, "other") {
			other.add(x)
			otherTwin[x] = true
		}
		missing := slices.Sorted(maps.Keys(twin))
		missing = slices.DeleteFunc(missing, func(x uint64) bool { return otherTwin[x] })
		n, lowest := r.missing(other)
		if int(n) != len(missing) || n > 0 && lowest != missing[0] {
			t.Fatalf("missing of %v in %v: %d from %d, want %v", r, other, n, lowest, missing)
		}
		for i, s := range r {
			if s.low > s.high || i > 0 && (s.low <= r[i-1].high || s.low-1 == r[i-1].high) {
				t.Fatalf("%v is not ascending and apart", r)
			}
		}
	})
}
