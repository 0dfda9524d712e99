package consumer

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

func TestSlabsHaveRoomForTheirBatchAndAQuarterMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(slabLeast, slabMost).Draw(t, "n")
		class, room := slabClass(n)
		if class < 0 || class >= slabClasses || room < n || room > n+n/4+1 {
			t.Fatalf("class %d with room for %d", class, room)
		}
		if again, same := slabClass(room); again != class || same != room {
			t.Fatalf("room for %d is class %d, its own is %d with %d", room, class, again, same)
		}
	})
}

// pointers are the records of a slab as a fetch has them.
func pointers(slab []kgo.Record) []*kgo.Record {
	records := make([]*kgo.Record, len(slab))
	for i := range slab {
		records[i] = &slab[i]
	}
	return records
}

// TestSlabsAreSpentOnceAllTheirRecordsAreDone cuts batches into arrivals
// anywhere, ends these in any order, and wants each slab spent with the last of
// its records, and none of which a record failed or was not admitted.
func TestSlabsAreSpentOnceAllTheirRecordsAreDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, e := &slabs{}, &engine{}
		var records []*kgo.Record
		batchOf := map[*kgo.Record]int{}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 3*slabLeast), 1, 6).Draw(t, "batches")
		whole := make([]int, len(sizes)) // records that are done, or -1: one never is
		for i, n := range sizes {
			slab := s.GetRecords(n)
			if (slab == nil) != (n < slabLeast) {
				t.Fatalf("a slab for %d records: %v", n, slab != nil)
			}
			if slab == nil {
				slab = make([]kgo.Record, n)
			}
			drop := rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "dropped")
			if drop > 0 {
				whole[i] = -1
			}
			for _, r := range pointers(slab[drop:]) {
				batchOf[r] = i
				records = append(records, r)
			}
		}
		var c claims
		var open [][]*kgo.Record
		var arrivals []*arrival
		for len(records) > 0 {
			n := rapid.IntRange(1, len(records)).Draw(t, "cut")
			in := &arrival{parts: c.follow(s, records[:n]), kept: rapid.IntRange(0, 4).Draw(t, "kept") == 0}
			arrivals, open = append(arrivals, in), append(open, records[:n])
			records = records[n:]
		}
		for _, i := range rapid.Permutation(indices(len(arrivals))).Draw(t, "order") {
			e.giveUpSlabs(arrivals[i])
			var want int
			for _, r := range open[i] {
				b := batchOf[r]
				switch {
				case arrivals[i].kept:
					whole[b] = -1
				case whole[b] >= 0:
					if whole[b]++; whole[b] == sizes[b] && sizes[b] >= slabLeast {
						want++
					}
				}
			}
			spent := e.takeSpent()
			if len(spent) != want {
				t.Fatalf("%d slabs are spent, want %d", len(spent), want)
			}
			s.put(spent)
		}
	})
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestSlabsThatAreForgottenAreNotUsedAgain(t *testing.T) {
	s := &slabs{}
	records := pointers(s.GetRecords(slabLeast))
	s.forget()
	var c claims
	if parts := c.follow(s, records); len(parts) > 0 {
		t.Errorf("parts %v of a slab that was forgotten", parts)
	}
}
