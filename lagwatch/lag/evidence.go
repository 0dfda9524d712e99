package lag

import (
	"slices"
	"time"
)

// Evidence is what is behind the class of one partition.
type Evidence struct {
	Partition int32
	Class     Class
	Hold      Hold
	// Since is when the oldest open alert of the partition began; zero when
	// none is open.
	Since time.Time
	// First and End bound what waits.
	First, End int64
	Lag        int64
	Baseline   float64
	Ratio      float64
	Delay      time.Duration
	DelayBound bool
	// Inflow and Outflow are records per second over the last 2 minutes.
	Inflow, Outflow float64
	// Drain is the time until the lag is gone at these rates; negative: never.
	Drain time.Duration
	// LossIn is the time until retention reaches the commit; negative: not in
	// sight.
	LossIn time.Duration
	// CommitAge is how long the commit has not moved, CommitGap the longest
	// recent time between commits.
	CommitAge, CommitGap time.Duration
}

// Evidence returns the numbers of a partition as of the last round that saw
// it; false when the tracker does not know it.
func (t *Tracker) Evidence(id int32) (Evidence, bool) {
	i, ok := t.find(id)
	if !ok {
		return Evidence{}, false
	}
	p := t.partitions[i]
	in, out := p.track.rates()
	e := Evidence{
		Partition: id, Class: t.classOf(p, t.poolWith(p)), Hold: p.hold,
		First: p.cur.First(), End: p.cur.End, Lag: p.lag, Baseline: p.baseline, Ratio: p.ratio(),
		Delay: p.delay, DelayBound: p.cur.DelayBound, Inflow: in, Outflow: out, Drain: -1, LossIn: p.cur.LossIn,
		CommitAge: millis(t.now - p.commitAt), CommitGap: p.gaps.longest(),
	}
	if out > in {
		e.Drain = time.Duration(float64(p.lag) / (out - in) * float64(time.Second))
	}
	for k := range p.conds {
		if c := &p.conds[k]; c.firing() && (e.Since.IsZero() || at(c.since).Before(e.Since)) {
			e.Since = at(c.since)
		}
	}
	return e, true
}

// poolWith is the pool that a partition is in.
func (t *Tracker) poolWith(p *partition) *pool {
	for _, pool := range t.pools {
		if slices.Contains(pool.members, p) {
			return pool
		}
	}
	return &pool{}
}
