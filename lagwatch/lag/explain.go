package lag

import "time"

// Explanation is each condition of the rule for one partition, with its value,
// and what came of it.
type Explanation struct {
	Evidence
	Pool  string
	Peers int // measured partitions of the pool
	// Hot are the conditions that must all hold for the partition to be hot
	// now; Window those that make it ready; Holds those that keep it from
	// paging; Clear those of which one ends it.
	Hot, Window, Holds, Clear, Other []Check
	// Firing names the kinds of alerts that are open for it.
	Firing []string
	// Frozen is true when a rebalance suspends judgment.
	Frozen bool
}

// Explain returns why a partition did or did not page as of the last round;
// false when the tracker does not know it.
func (t *Tracker) Explain(id int32) (Explanation, bool) {
	ev, ok := t.Evidence(id)
	if !ok {
		return Explanation{}, false
	}
	i, _ := t.find(id)
	p := t.partitions[i]
	pool := t.poolWith(p)
	s := &pool.peers
	hot := t.hotChecks(p, s)
	x := Explanation{Evidence: ev, Pool: pool.name, Peers: s.n, Hot: hot[:], Frozen: t.frozen}
	x.Window = t.windowChecks(p)
	x.Holds = t.holdChecks(p)
	x.Clear = t.clearChecks(p, s)
	x.Other = t.otherChecks(p, pool)
	for k := range p.conds {
		if p.conds[k].firing() {
			x.Firing = append(x.Firing, kindAlert[k].name)
		}
	}
	return x, true
}

func (t *Tracker) windowChecks(p *partition) []Check {
	w := &p.hot
	share := 0.0
	if w.knownCount > 0 {
		share = float64(w.hotCount) / float64(w.knownCount)
	}
	return []Check{
		{"hot now", truth(p.hotNow), 1, p.hotNow},
		{"rounds seen of the window", float64(w.filled), float64(w.n), w.filled == w.n},
		{"of them known", float64(w.knownCount), float64(w.n) / 2, 2*w.knownCount >= w.n},
		{"share of known rounds that were hot", share, hotShare, w.mostlyHot()},
	}
}

func (t *Tracker) holdChecks(p *partition) []Check {
	in, out := p.track.rates()
	drain := 0.0
	if out > in {
		drain = float64(p.lag) / (out - in)
	}
	return []Check{
		{"moving: a move of tenants holds records back", truth(p.cur.Moving), 1, p.cur.Moving},
		{"draining: seconds until the lag is gone ≤ drain_ok", drain, t.rule.DrainOK.Seconds(), p.draining(t.rule.DrainOK)},
		{"recovering: the pool was late while this one was", truth(p.poolLate), 1, p.poolLate},
		{"recovering: the lag falls", truth(p.falling()), 1, p.falling()},
		{"recovering: lag ≤ ratio × its peak baseline", float64(p.lag), t.rule.Ratio * p.peak, float64(p.lag) <= t.rule.Ratio*p.peak},
	}
}

func (t *Tracker) clearChecks(p *partition, s *peers) []Check {
	r := &t.rule
	near := float64(p.lag) < 2*p.baseline && (r.MinDelay <= 0 || s.medianDelay < r.MinDelay)
	return []Check{
		{"lag < min_lag / 2", float64(p.lag), float64(r.MinLag) / 2, p.lag == 0 || 2*p.lag < r.MinLag},
		{"delay < min_delay / 2", p.delay.Seconds(), r.MinDelay.Seconds() / 2, 2*p.delay < r.MinDelay && !p.cur.DelayBound},
		{"ratio < 2, and the pool is not late itself", p.ratio(), 2, near},
	}
}

func (t *Tracker) otherChecks(p *partition, pool *pool) []Check {
	after := p.stuckAfter().Seconds()
	age := millis(t.now - p.commitAt).Seconds()
	checks := []Check{
		{"stuck: seconds since the commit moved", age, after, p.lag > 0 && age >= after},
		{"stuck: delay", p.delay.Seconds(), after, p.delay.Seconds() >= after},
		{"behind: the pool's median delay ≥ max_delay", pool.peers.medianDelay.Seconds(), t.rule.MaxDelay.Seconds(), pool.behind.firing()},
	}
	if p.cur.LossIn >= 0 {
		limit := lossLimit(t.retention)
		checks = append(checks, Check{"loss: seconds until retention reaches it", p.cur.LossIn.Seconds(), limit.Seconds(), p.cur.LossIn < limit})
	}
	if p.slow != nil {
		limit := p.slow.limit(t.rule.MaxDelay)
		checks = append(checks, Check{"slow: delay against its own week", p.delay.Seconds(), limit.Seconds(), limit > time.Duration(0) && p.delay > limit})
	}
	return checks
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
