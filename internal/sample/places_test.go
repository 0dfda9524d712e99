package sample

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestPlacesAreOnePerEqualPart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "from")
		span := rapid.OneOf(rapid.Int64Range(-5, 40), rapid.Int64Range(1, math.MaxInt64/2)).Draw(t, "span")
		n := rapid.IntRange(0, 64).Draw(t, "n")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		at := places(rng, from, from+span, n)
		want := int(max(min(int64(n), span), 0))
		if len(at) != want {
			t.Fatalf("%d places, want %d", len(at), want)
		}
		for i, o := range at {
			part := float64(o-from) / float64(span) * float64(want)
			if o < from || o >= from+span || math.Abs(part-float64(i)-0.5) > 1.5 {
				t.Fatalf("place %d is %d, outside its part of [%d, %d)", i, o, from, from+span)
			}
			if i > 0 && o <= at[i-1] {
				t.Fatalf("places %d and %d do not ascend", at[i-1], o)
			}
		}
	})
}
