package sketch_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/internal/sketch"
)

// stream is a random weighted stream with some keys far heavier than others,
// and the naive twin's exact count of it.
type stream struct {
	keys    []string
	weights []uint64
	truth   map[string]uint64
	total   uint64
}

func drawStream(t *rapid.T, name string) stream {
	s := stream{truth: map[string]uint64{}}
	n := rapid.IntRange(0, 400).Draw(t, name+" length")
	universe := rapid.IntRange(1, 80).Draw(t, name+" universe")
	for range n {
		id := rapid.IntRange(0, universe-1).Draw(t, "key")
		if rapid.Bool().Draw(t, "heavy") {
			id %= 4
		}
		key := fmt.Sprintf("tenant-%d", id)
		w := rapid.Uint64Range(0, 20).Draw(t, "weight")
		s.keys, s.weights = append(s.keys, key), append(s.weights, w)
		s.truth[key] += w
		s.total += w
	}
	return s
}

func (s stream) addTo(sk *sketch.Sketch) {
	for i, key := range s.keys {
		sk.Add([]byte(key), s.weights[i])
	}
}

// requireBounds checks the guarantees of doc.go against the exact counts.
func requireBounds(t *rapid.T, sk *sketch.Sketch, truth map[string]uint64, keptAbove float64) {
	kept := map[string]bool{}
	smallest := ^uint64(0)
	for _, e := range sk.Top(-1) {
		if e.Count < truth[e.Key] || e.Count-e.Err > truth[e.Key] {
			t.Fatalf("%s: truth %d outside [%d, %d]", e.Key, truth[e.Key], e.Count-e.Err, e.Count)
		}
		kept[e.Key] = true
		smallest = min(smallest, e.Count)
	}
	for key, n := range truth {
		if kept[key] || n == 0 {
			continue
		}
		if float64(n) > keptAbove {
			t.Fatalf("%s weighs %d, above %v, and is not kept", key, n, keptAbove)
		}
		if n > smallest {
			t.Fatalf("%s weighs %d, is not kept, and the smallest counter is %d", key, n, smallest)
		}
	}
}

func TestBoundsHoldAgainstExactCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 40).Draw(t, "k")
		s := drawStream(t, "stream")
		sk := sketch.New(k)
		s.addTo(sk)
		if sk.Total() != s.total || sk.Len() > k {
			t.Fatalf("total %d want %d, %d entries of %d", sk.Total(), s.total, sk.Len(), k)
		}
		requireBounds(t, sk, s.truth, float64(s.total)/float64(k))
	})
}

func TestMergedBoundsHoldAgainstExactCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 40).Draw(t, "k")
		a, b, after := drawStream(t, "a"), drawStream(t, "b"), drawStream(t, "after")
		left, right := sketch.New(k), sketch.New(k)
		a.addTo(left)
		b.addTo(right)
		left.Merge(right)
		truth := map[string]uint64{}
		for _, s := range []stream{a, b} {
			for key, n := range s.truth {
				truth[key] += n
			}
		}
		requireBounds(t, left, truth, 2*float64(left.Total())/float64(k))
		after.addTo(left)
		for key, n := range after.truth {
			truth[key] += n
		}
		requireBounds(t, left, truth, float64(2*left.Total()))
	})
}

func TestTopIsOrderedAndTruncated(t *testing.T) {
	t.Parallel()
	sk := sketch.New(4)
	for key, n := range map[string]uint64{"a": 5, "b": 9, "c": 5, "d": 1} {
		sk.Add([]byte(key), n)
	}
	got := fmt.Sprint(sk.Top(3))
	if want := "[{b 9 0} {a 5 0} {c 5 0}]"; got != want {
		t.Fatalf("Top(3) = %s, want %s", got, want)
	}
	sk.Reset()
	if sk.Total() != 0 || len(sk.Top(-1)) != 0 {
		t.Fatalf("after Reset: total %d, entries %v", sk.Total(), sk.Top(-1))
	}
	sk.Add([]byte("e"), 2)
	if got := fmt.Sprint(sk.Top(1)); got != "[{e 2 0}]" {
		t.Fatalf("after Reset and Add: %s", got)
	}
}

func TestKnownKeyAddsWithoutAllocating(t *testing.T) {
	sk := sketch.New(8)
	keys := make([][]byte, 8)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "tenant-with-a-long-name-%d", i)
		sk.Add(keys[i], 1)
	}
	i := 0
	if n := testing.AllocsPerRun(1000, func() { sk.Add(keys[i%8], uint64(i%3)); i++ }); n != 0 {
		t.Fatalf("adding a known key allocates %v times", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.2, 1, 100_000)
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "tenant-%d", zipf.Uint64())
	}
	for _, k := range []int{64, 1024} {
		b.Run(fmt.Sprintf("power-law/k=%d", k), func(b *testing.B) {
			sk := sketch.New(k)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				sk.Add(keys[i&(1<<16-1)], 1)
			}
		})
	}
	b.Run("known", func(b *testing.B) {
		sk := sketch.New(64)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			sk.Add(keys[i&31], 1)
		}
	})
}

func ExampleSketch() {
	sk := sketch.New(100)
	for _, tenant := range []string{"acme", "bolt", "acme", "acme", "cargo"} {
		sk.Add([]byte(tenant), 1)
	}
	top := sk.Top(1)[0]
	fmt.Printf("%s made %d of %d records\n", top.Key, top.Count, sk.Total())
	// Output: acme made 3 of 5 records
}
