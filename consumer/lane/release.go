package lane

import "time"

// Release takes a grant back. It says whether the result counts: false after
// the partition was revoked. Each grant is released once; a worker may release
// grants in any order.
func (s *Scheduler[R]) Release(g *Grant[R], r Result, now time.Duration) bool {
	l, c := g.lane, &s.core
	c.now = max(c.now, now)
	t := l.t
	tr := t.tier
	tried, cost := g.tried(r)
	busy := r.Busy.Seconds()
	c.learn(t, tried, cost, busy)
	tr.bucket.spend(cost - g.cost)
	t.bucket.spend(cost - g.cost)
	l.p.running--
	t.lanes.end(&l.ent, busy-g.est, busy)
	tr.tenants.end(&t.ent, busy-g.est, busy)
	c.root.end(&tr.ent, busy-g.est, busy)
	live := l.state&revoked == 0
	if live {
		g.forgetReported(&r)
		t.finished(r.Done, now)
		s.progress(l, g, r, now)
	}
	s.after(l)
	c.expire(tr)
	return live
}

// tried counts the records that the handler got, and their cost.
func (g *Grant[R]) tried(r Result) (n int, cost float64) {
	n = r.Done
	if r.Outcome != Continue && n < len(g.Items) {
		n++
	}
	if n == len(g.Items) {
		return n, g.cost
	}
	for i := range n {
		cost += g.Items[i].cost()
	}
	return n, cost
}

// progress drops what is done and notes what the lane waits for.
func (s *Scheduler[R]) progress(l *lane[R], g *Grant[R], r Result, now time.Duration) {
	if l.loose != nil {
		s.looseProgress(l, g, r, now)
	} else {
		s.orderedProgress(l, r, now)
	}
	switch r.Outcome {
	case Park:
		l.set(parked)
	case Hold:
		if l.loose == nil {
			l.set(held)
		}
	}
}

func (s *Scheduler[R]) orderedProgress(l *lane[R], r Result, now time.Duration) {
	s.finish(l, r.Done)
	if r.Outcome == Continue {
		return
	}
	if !r.Uncounted {
		l.attempts++
	}
	if r.Outcome == Retry && r.Delay > 0 {
		l.set(backoff)
		s.core.timers.set(&l.alarm, now+r.Delay, l)
	}
}

// after puts a lane where it belongs once something about it has changed, or
// frees it, and its tenant's entry too when nothing is left of it.
func (s *Scheduler[R]) after(l *lane[R]) {
	t := l.t
	idle := l.n == 0 && !l.over && l.ent.running == 0
	if !idle && l.state&revoked == 0 {
		l.p.first[l.index] = l.unfinished()
	}
	s.refreshLane(l)
	if idle {
		s.free(l)
	}
	s.core.refreshTenant(t)
	if idle {
		s.core.drop(t)
	}
}
