package bench

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkSleepersThatCompute says what 100 goroutines reach that sleep for a
// millisecond and then compute for so long, with no lock between them. Once no
// goroutine can run, Go waits for its next timer with a resolution of a
// millisecond from then on: those that sleep wake together, and each round takes
// a millisecond and all that the hundred compute.
func BenchmarkSleepersThatCompute(b *testing.B) {
	cfg := ConsumeConfig{Concurrency: 100, HandlerSleep: time.Millisecond, Seconds: 1}
	for _, micros := range []int{0, 1, 2, 4, 6} {
		b.Run(fmt.Sprintf("%dus", micros), func(b *testing.B) {
			compute := computing(time.Duration(micros) * time.Microsecond)
			var t turns
			for b.Loop() {
				t.add(sleepers(b.Context(), cfg, compute))
			}
			b.ReportMetric(median(t.rates), "records/s")
		})
	}
}

// computing returns a function that computes for about so long.
func computing(d time.Duration) func() {
	var sink atomic.Uint64
	spin := func(n int) {
		x := uint64(1)
		for range n {
			x = x*6364136223846793005 + 1
		}
		sink.Store(x)
	}
	const sample = 10_000_000
	begun := time.Now()
	spin(sample)
	steps := int(sample * d.Seconds() / time.Since(begun).Seconds())
	return func() { spin(steps) }
}
