package demo

import (
	"math"
	"slices"
	"sync"
	"time"
)

// latencies keeps how long each quiet tenant's record took from append to
// handled. At a few thousand a second there is no need to estimate.
type latencies struct {
	mu      sync.Mutex // guards samples
	samples []latency
}

type latency struct {
	produced time.Time
	took     time.Duration
}

func (l *latencies) add(produced time.Time, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples = append(l.samples, latency{produced, took})
}

// quantile is that of the records produced in [from, to), in milliseconds; NaN
// for none. It is a sample, by nearest rank.
func (l *latencies) quantile(q float64, from, to time.Time) Figure {
	l.mu.Lock()
	defer l.mu.Unlock()
	var took []time.Duration
	for _, s := range l.samples {
		if !s.produced.Before(from) && s.produced.Before(to) {
			took = append(took, s.took)
		}
	}
	if len(took) == 0 {
		return Figure(math.NaN())
	}
	slices.Sort(took)
	rank := max(0, int(math.Ceil(q*float64(len(took))))-1)
	return Figure(took[rank].Seconds() * 1000)
}
