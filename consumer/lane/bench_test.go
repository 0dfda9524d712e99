package lane_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// BenchmarkPipeline measures Push, Take and Release together for each record,
// with handlers that cost nothing: what the caller's lock is held for.
func BenchmarkPipeline(b *testing.B) {
	b.Run("hot lanes", func(b *testing.B) {
		benchPipeline(b, 100_000, func(i int, key []byte) []byte { return strconv.AppendInt(key, int64(i&31), 10) })
	})
	b.Run("power law", func(b *testing.B) {
		tenants := powerLaw(b, 1<<20)
		benchPipeline(b, 100_000, func(i int, _ []byte) []byte { return tenants[i&(1<<20-1)] })
	})
	b.Run("distinct tenants", func(b *testing.B) {
		benchPipeline(b, 100_000, func(i int, key []byte) []byte {
			return strconv.AppendInt(key, int64(i%1_000_000), 10)
		})
	})
}

// benchPipeline keeps up to backlog records buffered.
func benchPipeline(b *testing.B, backlog int, keyOf func(int, []byte) []byte) {
	b.Helper()
	s, err := lane.New[*int](lane.Config{})
	if err != nil {
		b.Fatal(err)
	}
	p := s.Assign("t", 0, 1)
	var (
		batch lane.Batch[*int]
		key   []byte
		now   time.Duration
		rec   = new(int)
		next  int

		grants int
	)
	push := func(n int) {
		for range n {
			key = keyOf(next, key[:0])
			s.Push(p, lane.ID{Tenant: key, Key: key}, lane.Item[*int]{Offset: int64(next), Rec: rec, Bytes: 100})
			next++
		}
	}
	run := func(until int) {
		for s.Records() > until {
			s.Take(now, 32, &batch)
			for i := range batch.Grants {
				g := &batch.Grants[i]
				grants++
				busy := 50 * time.Nanosecond * time.Duration(len(g.Items))
				now += busy
				s.Release(g, lane.Result{Done: len(g.Items), Busy: busy}, now)
			}
		}
	}
	push(backlog)
	run(0)
	grants = 0
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += 500 {
		push(500)
		run(backlog / 2)
	}
	run(0)
	b.ReportMetric(float64(b.N)/float64(grants), "records/grant")
}

// powerLaw draws n tenants by the shares of the built-in population.
func powerLaw(tb testing.TB, n int) [][]byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "internal", "load", "tenant_volumes.tsv"))
	if err != nil {
		tb.Fatal(err)
	}
	var names [][]byte
	var sums []float64
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		name, volume, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		v, err := strconv.ParseFloat(volume, 64)
		if err != nil {
			tb.Fatal(err)
		}
		sum += v
		names, sums = append(names, []byte(name)), append(sums, sum)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	drawn := make([][]byte, n)
	for i := range drawn {
		drawn[i] = names[sort.SearchFloat64s(sums, rnd.Float64()*sum)]
	}
	return drawn
}

// BenchmarkBehind measures what a commit of a partition with a hundred thousand
// lanes holds the caller's lock for.
func BenchmarkBehind(b *testing.B) {
	s, err := lane.New[*int](lane.Config{})
	if err != nil {
		b.Fatal(err)
	}
	p := s.Assign("t", 0, 1)
	rnd := rand.New(rand.NewPCG(1, 1))
	var key []byte
	for i := range 100_000 {
		key = strconv.AppendInt(key[:0], int64(i), 10)
		s.Push(p, lane.ID{Tenant: key, Key: key}, lane.Item[*int]{Offset: rnd.Int64N(1 << 40)})
	}
	var dst []lane.Behind
	b.ReportAllocs()
	for b.Loop() {
		dst = s.Behind(p, 106, dst[:0])
	}
}
