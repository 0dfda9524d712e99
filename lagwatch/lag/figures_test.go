package lag_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// The figures that the rule must keep. Each row is run over several pool sizes
// and seeds, against the rule and against the plain one, and both are printed.

const onset = 1800 // seconds of ordinary life before anything happens

var poolSizes = []int{4, 8, 16, 32, 64}

// row is one scenario: set prepares a world whose partitions below hot are the
// guilty ones; want is whether they must page, or nothing may.
type row struct {
	name    string
	set     func(w *world, hot int)
	hot     func(n int) int
	found   bool
	minutes int   // after onset
	sizes   []int // of pools; poolSizes when empty
}

func one(int) int    { return 1 }
func half(n int) int { return n / 2 }
func none(int) int   { return 0 }

// flood makes the first hot partitions receive five times what the others do.
func flood(w *world, hot int) {
	w.in = func(p, s int) float64 {
		if p < hot && s >= onset {
			return 500
		}
		return 100
	}
}

func rows() []row {
	return []row{
		{"one hot partition", flood, one, true, 30, nil},
		{"half of the partitions hot", flood, half, true, 30, nil},
		{"one hot of two or three", flood, one, true, 30, []int{2, 3}},
		{"one hot, 20 % unknown", func(w *world, hot int) {
			flood(w, hot)
			w.unknown = func(int, int) bool { return w.rng.Float64() < 0.2 }
		}, one, true, 30, nil},
		{"a quarter hot, 20 % unknown", func(w *world, hot int) {
			flood(w, hot)
			w.unknown = func(int, int) bool { return w.rng.Float64() < 0.2 }
		}, func(n int) int { return n / 4 }, true, 30, nil},
		{"half hot, 20 % unknown", func(w *world, hot int) {
			flood(w, hot)
			w.unknown = func(int, int) bool { return w.rng.Float64() < 0.2 }
		}, half, true, 30, nil},
		{"one slow consumer", func(w *world, hot int) {
			w.capacity = func(p, s int) float64 {
				if p < hot && s >= onset {
					return 40
				}
				return 200
			}
		}, one, true, 30, nil},
		{"one hot while all ramp up", func(w *world, hot int) {
			flood(w, hot)
			in := w.in
			w.in = func(p, s int) float64 { return in(p, s) * (1 + 0.5*float64(max(s-onset, 0))/3600) }
		}, one, true, 60, nil},
		{"nightly batch", nightly, none, false, 240, nil},
		{"nightly batch, 20 % unknown", func(w *world, hot int) {
			nightly(w, hot)
			w.unknown = func(int, int) bool { return w.rng.Float64() < 0.2 }
		}, none, false, 240, nil},
		{"outage of all", outage, none, false, 120, nil},
		{"outage of all, 20 % unknown", func(w *world, hot int) {
			outage(w, hot)
			w.unknown = func(int, int) bool { return w.rng.Float64() < 0.2 }
		}, none, false, 120, nil},
		{"sawtooth", func(w *world, _ int) {
			w.commitEvery = func(int) int { return 1 }
			phase := uneven(w, 0, 600)
			w.capacity = func(p, s int) float64 { // works one minute in ten
				if (s+int(phase[p]))%600 < 60 {
					return 5000
				}
				return 0
			}
		}, none, false, 600, nil},
		{"rolling deploy, 60 s each", func(w *world, _ int) {
			workers := max(len(w.parts)/4, 2)
			w.capacity = func(p, s int) float64 {
				down := s - onset
				if down >= 0 && down/60 == p%workers && down < 60*workers {
					return 0
				}
				return 200
			}
		}, none, false, 60, nil},
		{"commit interval 60 s", func(w *world, _ int) {
			w.in = func(int, int) float64 { return 300 }
			w.capacity = func(int, int) float64 { return 600 }
			w.commitEvery = func(int) int { return 60 }
		}, none, false, 240, nil},
		{"commit intervals 1 to 60 s", func(w *world, _ int) {
			w.in = func(int, int) float64 { return 300 }
			w.capacity = func(int, int) float64 { return 600 }
			every := uneven(w, 1, 60)
			w.commitEvery = func(p int) int { return int(every[p]) }
		}, none, false, 240, nil},
	}
}

// outage stops every partition for 40 minutes; they drain at their own speed.
func outage(w *world, _ int) {
	speed := uneven(w, 250, 400)
	w.capacity = func(p, s int) float64 {
		if s >= onset && s < onset+2400 {
			return 0
		}
		return speed[p]
	}
}

// nightly gives every partition a batch of its own size at once, two nights
// of it; partitions drain at their own speed.
func nightly(w *world, _ int) {
	size, speed := uneven(w, 200_000, 1_000_000), uneven(w, 250, 500)
	w.in = func(p, s int) float64 {
		if s >= onset && s < onset+120 || s >= onset+7200 && s < onset+7320 {
			return 50 + size[p]/120
		}
		return 50
	}
	w.capacity = func(p, _ int) float64 { return speed[p] }
}

func uneven(w *world, lo, hi float64) []float64 {
	out := make([]float64, len(w.parts))
	for i := range out {
		out[i] = lo + (hi-lo)*w.rng.Float64()
	}
	return out
}

func TestFiguresHold(t *testing.T) {
	t.Parallel()
	seeds := 10
	sizes := poolSizes
	if raceEnabled || testing.Short() {
		seeds, sizes = 1, []int{4, 16}
	}
	for _, r := range rows() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			runs, found, plainFound, falsePages, plainFalse := 0, 0, 0, 0, 0
			var took, plainTook time.Duration
			if r.sizes == nil {
				r.sizes = sizes
			}
			for _, n := range r.sizes {
				for seed := range seeds {
					w := newWorld(uint64(1000*n+seed), n, lag.Defaults())
					r.set(w, r.hot(n))
					o := w.run(onset+r.minutes*60, onset)
					runs++
					if !r.found {
						falsePages += o.hotPages
						plainFalse += o.plainFired
						continue
					}
					if all(o.hotAtEnd, r.hot(n)) {
						found++
						took += o.firstHot
					}
					if o.plainFired > 0 && o.plainFirst >= 0 {
						plainFound++
						plainTook += o.plainFirst
					}
				}
			}
			if r.found {
				t.Logf("FIGURE %-28s found %3d %% in %v | plain %3d %% in %v", r.name,
					100*found/runs, average(took, found), 100*plainFound/runs, average(plainTook, plainFound))
				if found != runs {
					t.Errorf("found in %d of %d runs", found, runs)
				}
				if a := average(took, found); a > 8*time.Minute {
					t.Errorf("found after %v", a)
				}
				return
			}
			t.Logf("FIGURE %-28s false pages %d in %d runs | plain %d", r.name, falsePages, runs, plainFalse)
			if falsePages != 0 {
				t.Errorf("%d false pages", falsePages)
			}
		})
	}
}

// all is true when exactly the first n partitions fire.
func all(firing map[int32]bool, n int) bool {
	for p := range n {
		if !firing[int32(p)] {
			return false
		}
	}
	return len(firing) == n
}

func average(d time.Duration, n int) time.Duration {
	if n == 0 {
		return 0
	}
	return (d / time.Duration(n)).Round(time.Second)
}

// TestPoissonNoiseNeverPages: a quiet topic's lag is one record here and
// there. Without a floor on the lag any rule of ratios pages for it.
func TestPoissonNoiseNeverPages(t *testing.T) {
	t.Parallel()
	for n, hours := range map[int]int{4: 10_000, 16: 2_000, 64: 400} {
		if raceEnabled || testing.Short() {
			hours = 400 / n
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			for _, floor := range []int64{10, 1} {
				rule := lag.Defaults()
				rule.MinLag, rule.MinDelay = floor, 0
				h := hours
				if floor == 1 {
					h = hours / 4
				}
				pages, plain := noise(n, h, rule)
				t.Logf("FIGURE Poisson(1), N=%-2d, min_lag %-2d, %5d h: %d pages (%.2f a week) | plain, held 1 min: %.0f in 1000 h",
					n, floor, h, pages, float64(pages)*24*7/float64(h), float64(plain)*1000/float64(h))
				if floor >= 10 && pages != 0 {
					t.Errorf("%d false pages", pages)
				}
			}
		})
	}
}

// noise runs the rule over independent Poisson(1) lags and counts the pages.
func noise(n, hours int, rule lag.Rule) (pages, plain int) {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(hours)))
	tracker := lag.NewTracker(rule, nil)
	plainly := plainRule{ratio: rule.Ratio, rounds: 6}
	samples := make([]lag.Sample, n)
	firing, plainFiring := false, false
	for i := range hours * 360 {
		for p := range samples {
			end := int64(i + 10)
			commit := end - poisson1(rng)
			samples[p] = lag.Sample{
				Partition: int32(p), Known: true, Committed: commit, Runnable: commit, Visible: commit,
				End: end, Stable: end, LossIn: -1,
			}
		}
		v := tracker.Observe(&lag.Round{At: simStart.Add(time.Duration(i) * rule.Interval), Samples: samples, Group: lag.GroupSample{Known: true, Members: 1}})
		now := false
		for _, a := range v.Alerts {
			now = now || a.Name == lag.AlertHot && a.Severity >= lag.Page
		}
		if now && !firing {
			pages++
		}
		plainly.observe(samples)
		if plainly.firing && !plainFiring {
			plain++
		}
		firing, plainFiring = now, plainly.firing
	}
	return pages, plain
}
