package marks

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A Set is held to a map.
func TestMarksAreASetOfOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		twin := map[int64]bool{}
		var m Set
		for range rapid.IntRange(0, 5).Draw(t, "marks") {
			offsets := rapid.SliceOfNDistinct(rapid.Int64Range(0, 60), 1, 20, rapid.ID[int64]).Draw(t, "offsets")
			slices.Sort(offsets)
			if err := m.Add(Format(offsets)); err != nil {
				t.Fatal(err)
			}
			for _, o := range offsets {
				twin[o] = true
			}
			if m.Has(offsets[0]) != true {
				t.Fatalf("offset %d is missing", offsets[0])
			}
		}
		for o := range int64(62) {
			if m.Has(o) != twin[o] {
				t.Fatalf("offset %d: %v, want %v (%v)", o, m.Has(o), twin[o], m.spans)
			}
		}
	})
}

func FuzzAdd(f *testing.F) {
	for _, text := range []string{"7", "7,9-12", "0-1", "", "1,2", "9-7", "01", "-5", "1-1", "+1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spans, err := parse(text)
		if err != nil {
			return
		}
		var offsets []int64
		for _, s := range spans {
			if s.to-s.from > 1000 || s.to == math.MaxInt64 {
				return
			}
			for o := s.from; o <= s.to; o++ {
				offsets = append(offsets, o)
			}
		}
		if back := Format(offsets); back != text {
			t.Errorf("%q is read, and written %q", text, back)
		}
	})
}
