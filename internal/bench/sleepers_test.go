package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkSleepersThatCompute says what 100 goroutines reach that sleep for a
// millisecond and then compute for so long, with no lock between them. Sleeping
// goroutines wake together: Go waits for their timers with a resolution of a
// millisecond once no goroutine can run, counted from when the last one began
// to sleep. So each round takes a millisecond and all that the hundred compute.
func BenchmarkSleepersThatCompute(b *testing.B) {
	for _, micros := range []int{0, 1, 2, 4, 6} {
		b.Run(fmt.Sprintf("%dus", micros), func(b *testing.B) {
			compute := computing(time.Duration(micros) * time.Microsecond)
			var rounds atomic.Int64
			rounds.Store(int64(b.N) * 100_000)
			var group sync.WaitGroup
			begun := time.Now()
			for range 100 {
				group.Go(func() {
					for rounds.Add(-1) >= 0 {
						time.Sleep(time.Millisecond)
						compute()
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)*100_000/time.Since(begun).Seconds(), "records/s")
		})
	}
}

// computing returns a function that computes for about so long.
func computing(d time.Duration) func() {
	var sink atomic.Uint64
	spin := func(n int) {
		x := uint64(n)
		for range n {
			x = x*6364136223846793005 + 1
		}
		sink.Store(x)
	}
	const sample = 10_000_000
	begun := time.Now()
	spin(sample)
	steps := int(float64(sample) * d.Seconds() / time.Since(begun).Seconds())
	return func() { spin(steps) }
}
