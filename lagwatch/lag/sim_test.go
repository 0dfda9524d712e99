package lag_test

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// world is a topic with one group in virtual time, in steps of one second.
type world struct {
	rng   *rand.Rand
	rule  lag.Rule
	parts []*simPart
	// in and capacity give records per second of a partition at a second.
	in, capacity func(p, s int) float64
	// commitEvery is the commit interval of a partition in seconds.
	commitEvery func(p int) int
	// unknown says whether a sample of a partition is lost.
	unknown func(p, s int) bool
	// rebalancing says whether the group is moving partitions.
	rebalancing func(s int) bool
	// mark adds to a sample what the logs do not say; nil: nothing.
	mark func(sample *lag.Sample)

	tracker *lag.Tracker
	plain   plainRule
	start   time.Time
	samples []lag.Sample
}

type simPart struct {
	log                   lag.Log
	end, position, commit float64
	commitOffset          int
}

var simStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(seed uint64, n int, rule lag.Rule) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 7)), rule: rule, start: simStart,
		in:          func(int, int) float64 { return 100 },
		capacity:    func(int, int) float64 { return 200 },
		commitEvery: func(int) int { return 5 },
		unknown:     func(int, int) bool { return false },
		rebalancing: func(int) bool { return false },
		tracker:     lag.NewTracker(rule, nil),
		plain:       plainRule{ratio: rule.Ratio, rounds: int(rule.For / rule.Interval)},
	}
	for range n {
		w.parts = append(w.parts, &simPart{commitOffset: w.rng.IntN(60)})
	}
	return w
}

// outcome is what a run of a world came to.
type outcome struct {
	firstHot   time.Duration // from the moment asked for; −1: never
	hotPages   int           // times that partition_hot began to page
	hotAtEnd   map[int32]bool
	plainFired int
	plainFirst time.Duration
	plainAtEnd bool
	tickets    map[string]bool
	resolved   int
	rounds     int
}

// run lives through the seconds [0, until) and watches at the rule's interval.
func (w *world) run(until, onset int) outcome {
	o := outcome{firstHot: -1, plainFirst: -1, hotAtEnd: map[int32]bool{}, tickets: map[string]bool{}}
	every := int(w.rule.Interval / time.Second)
	wasHot := map[int32]bool{}
	wasPlain := false
	for s := range until {
		w.step(s)
		if s%every != 0 {
			continue
		}
		v := w.observe(s)
		o.rounds++
		hot := map[int32]bool{}
		for _, a := range v.Alerts {
			if a.Name != lag.AlertHot || a.Severity == lag.Ticket {
				o.tickets[a.Name] = true
				continue
			}
			for _, p := range a.Partitions {
				hot[p] = true
			}
		}
		for p := range hot {
			if !wasHot[p] {
				o.hotPages++
				if o.firstHot < 0 {
					o.firstHot = time.Duration(s-onset) * time.Second
				}
			}
		}
		for p := range wasHot {
			if !hot[p] {
				o.resolved++
			}
		}
		if w.plain.firing && !wasPlain {
			o.plainFired++
			if o.plainFirst < 0 {
				o.plainFirst = time.Duration(s-onset) * time.Second
			}
		}
		wasHot, wasPlain = hot, w.plain.firing
	}
	o.hotAtEnd, o.plainAtEnd = wasHot, wasPlain
	return o
}

// step moves every partition one second on.
func (w *world) step(s int) {
	for i, p := range w.parts {
		p.end += w.in(i, s)
		p.position = math.Min(p.end, p.position+w.capacity(i, s))
		if every := w.commitEvery(i); every > 0 && (s+p.commitOffset)%every == 0 && w.capacity(i, s) > 0 {
			p.commit = p.position
		}
	}
}

func (w *world) observe(s int) *lag.Verdict {
	at := w.start.Add(time.Duration(s) * time.Second)
	w.samples = w.samples[:0]
	for i, p := range w.parts {
		if w.unknown(i, s) {
			w.samples = append(w.samples, lag.Sample{Partition: int32(i)})
			continue
		}
		w.samples = append(w.samples, p.sample(at, int32(i)))
		if w.mark != nil {
			w.mark(&w.samples[len(w.samples)-1])
		}
	}
	w.plain.observe(w.samples)
	return w.tracker.Observe(&lag.Round{
		At: at, Samples: w.samples,
		Group: lag.GroupSample{Known: true, Members: 4, Rebalancing: w.rebalancing(s)},
	})
}

// sample is what the watcher reads of a partition; every record is visible.
func (p *simPart) sample(at time.Time, id int32) lag.Sample {
	end, commit := int64(p.end), int64(p.commit)
	p.log.Observe(at, 0, end, end)
	s := lag.Sample{
		Partition: id, Known: true, Committed: commit, Runnable: commit, Visible: commit,
		End: end, Stable: end, LossIn: -1, Owned: true,
	}
	s.Delay, s.DelayBound = p.log.Delay(at, commit)
	return s
}

// plainRule is the rule of the first sentence: the largest lag exceeds ratio
// times the mean, held for a number of rounds; an unknown partition or a round
// below resets it; what it does not know counts as nothing.
type plainRule struct {
	ratio  float64
	rounds int
	held   int
	firing bool
}

func (r *plainRule) observe(samples []lag.Sample) {
	var largest, sum int64
	n := 0
	for _, s := range samples {
		n++
		if !s.Known {
			r.held, r.firing = 0, false
			return
		}
		l := s.End - s.Committed
		largest, sum = max(largest, l), sum+l
	}
	if float64(largest) <= r.ratio*float64(sum)/float64(n) {
		r.held, r.firing = 0, false
		return
	}
	r.held++
	r.firing = r.held >= r.rounds
}

// poisson draws from a Poisson distribution of mean 1.
func poisson1(rng *rand.Rand) int64 {
	limit, k, p := math.Exp(-1), int64(0), 1.0
	for {
		if p *= rng.Float64(); p <= limit {
			return k
		}
		k++
	}
}
