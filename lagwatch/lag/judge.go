package lag

import "time"

// peers is what a pool's measured partitions look like in one round.
type peers struct {
	n           int
	sumLag      int64
	medianLag   int64 // lower median
	sumDelay    time.Duration
	medianDelay time.Duration // lower median
}

// lowerMedian is the index of the lower median of n sorted values. With an
// even number it is the smaller of the two middles, so that half of the pool
// being hot does not lift it.
func lowerMedian(n int) int { return (n - 1) / 2 }

// baseline is B(p): the less of the mean of the others and the lower median,
// with a floor.
func (s *peers) baseline(r *Rule, lag int64) float64 {
	floor := float64(r.MinLag) / r.Ratio
	if s.n < 2 {
		return floor
	}
	others := float64(s.sumLag-lag) / float64(s.n-1)
	return max(min(others, float64(s.medianLag)), floor)
}

// delayBaseline is the same for delays, without a floor.
func (s *peers) delayBaseline(delay time.Duration) time.Duration {
	if s.n < 2 {
		return 0
	}
	return min((s.sumDelay-delay)/time.Duration(s.n-1), s.medianDelay)
}

// Check is one condition of the rule with its value: it holds when Value is
// above Limit (for "at least" conditions: not below).
type Check struct {
	Name         string
	Value, Limit float64
	OK           bool
}

// hotChecks are the four conditions of hot(p), and that there is a peer.
func (t *Tracker) hotChecks(p *partition, s *peers) [5]Check {
	r := &t.rule
	limit := r.Ratio * p.baseline
	checks := [5]Check{
		{"known peers", float64(s.n), 2, s.n >= 2},
		{"lag > ratio × baseline", float64(p.lag), limit, float64(p.lag) > limit},
		{"lag ≥ min_lag", float64(p.lag), float64(r.MinLag), p.lag >= r.MinLag},
		{Name: "delay ≥ max(min_delay, 3 × commit gap)", OK: true},
		{Name: "delay ≥ 2 × peers' delay", OK: true},
	}
	if r.MinDelay <= 0 {
		return checks
	}
	need, peer := max(r.MinDelay, 3*p.gaps.longest()), 2*s.delayBaseline(p.delay)
	checks[3].Value, checks[3].Limit, checks[3].OK = p.delay.Seconds(), need.Seconds(), p.delay >= need
	checks[4].Value, checks[4].Limit, checks[4].OK = p.delay.Seconds(), peer.Seconds(), p.delay >= peer
	return checks
}

// judge decides one partition, after its pool's numbers are known.
func (t *Tracker) judge(p *partition, pool *pool) {
	s := &pool.peers
	p.baseline = s.baseline(&t.rule, p.lag)
	if !p.cur.Known {
		p.hot.push(false, false)
		return
	}
	if p.measured {
		t.judgeHot(p, pool)
		t.judgeChronic(p)
		t.judgeStuck(p)
		t.judgeSlow(p, pool)
	}
	t.judgeLog(p)
}

// judgeHot runs hot(p), the window, the holds, and the clear.
func (t *Tracker) judgeHot(p *partition, pool *pool) {
	s := &pool.peers
	p.hold = HoldNone
	p.hotNow = len(pool.members) >= 2
	if p.hotNow {
		for _, c := range t.hotChecks(p, s) {
			p.hotNow = p.hotNow && c.OK
		}
	}
	t.followLate(p, s)
	if t.frozen {
		p.hot.push(false, false)
		return
	}
	p.hot.push(true, p.hotNow)
	switch {
	case p.hot.hotCount == 0:
		p.hotSince = 0
	case p.hotNow && p.hotSince == 0:
		p.hotSince = t.now
	}
	c := &p.conds[kindHot]
	if c.firing() {
		c.settle(t.hotCleared(p, s), t.dt, t.rule.KeepFiring)
		return
	}
	if !p.hotNow || !p.hot.full() || !p.hot.mostlyHot() {
		return
	}
	if p.hold = t.holds(p); p.hold == HoldNone && !p.wait(t.now) {
		c.fire(p.hotSince)
	}
}

// followLate keeps the largest baseline since the partition became late, and
// whether its whole pool was late in that time.
func (t *Tracker) followLate(p *partition, s *peers) {
	if t.rule.MinDelay <= 0 || p.delay < t.rule.MinDelay {
		p.peak, p.poolLate = 0, false
		return
	}
	p.peak = max(p.peak, p.baseline)
	p.poolLate = p.poolLate || s.medianDelay >= t.rule.MinDelay
}

// holds says why a partition that is ready to fire should not page.
func (t *Tracker) holds(p *partition) Hold {
	if p.cur.Moving {
		return HoldMoving
	}
	if p.draining(t.rule.DrainOK) {
		return HoldDraining
	}
	if p.poolLate && p.falling() && float64(p.lag) <= t.rule.Ratio*p.peak {
		return HoldRecovering
	}
	return HoldNone
}

// hotCleared is the end of hot: little lag, little delay, or near its peers
// while those are not late themselves.
func (t *Tracker) hotCleared(p *partition, s *peers) bool {
	r := &t.rule
	switch {
	case p.lag == 0 || 2*p.lag < r.MinLag:
		return true
	case 2*p.delay < r.MinDelay && !p.cur.DelayBound:
		return true
	}
	return float64(p.lag) < 2*p.baseline && (r.MinDelay <= 0 || s.medianDelay < r.MinDelay)
}

// judgeChronic tickets a partition that was hot for more than a quarter of six
// hours, paged or not.
func (t *Tracker) judgeChronic(p *partition) {
	c := &p.conds[kindChronic]
	if p.hotNow {
		p.hotTime.add(t.now, chronicSpan, millis(t.dt))
	}
	if p.hotTime.at == 0 {
		return
	}
	p.hotTime.turn(t.now, chronicSpan)
	c.step(p.hotTime.sum() > time.Duration(chronicShare*float64(chronicSpan)), t.now, t.dt, t.rule.KeepFiring)
}

// judgeStuck needs the commit unmoved and its first visible record old.
func (t *Tracker) judgeStuck(p *partition) {
	if t.frozen {
		return
	}
	after := p.stuckAfter()
	still := p.lag > 0 && millis(t.now-p.commitAt) >= after && p.delay >= after
	if still && !p.conds[kindStuck].firing() {
		still = !p.wait(t.now)
	}
	p.conds[kindStuck].step(still, p.commitAt, t.dt, t.rule.KeepFiring)
}

// judgeSlow compares a partition that has no peers with its own past.
func (t *Tracker) judgeSlow(p *partition, pool *pool) {
	if len(pool.members) != 1 {
		p.slow = nil
		return
	}
	if p.slow == nil {
		p.slow = &usual{}
	}
	limit := p.slow.limit(t.rule.MaxDelay)
	over := limit > 0 && p.delay > limit
	c := &p.conds[kindSlow]
	c.step(over && (c.firing() || !p.wait(t.now)), t.now, t.dt, t.rule.KeepFiring)
	if !over && !c.firing() {
		p.slow.add(t.now, p.delay)
	}
}

// judgeLog is what needs neither peers nor a minimum of lag.
func (t *Tracker) judgeLog(p *partition) {
	s, keep := &p.cur, t.rule.KeepFiring
	risk := p.measured && p.lag > 0 && s.LossIn >= 0 && s.LossIn < lossLimit(t.retention)
	p.conds[kindLoss].step(risk, t.now, t.dt, keep)
	p.conds[kindHanging].step(s.Hanging, t.now, t.dt, keep)
	held := p.heldAt != 0 && millis(t.now-p.heldAt) >= noCommitAfter && s.End > p.heldEnd
	p.conds[kindNoCommit].step(held, p.heldAt, t.dt, keep)
	p.conds[kindLane].step(s.LaneDelay >= stuckFloor, t.now, t.dt, keep)
	lost := p.measured && s.Start > s.Committed && s.Start > s.First()
	p.conds[kindLost].settle(!lost, t.dt, keep)
	p.conds[kindRewind].settle(true, t.dt, keep)
}

// lossLimit is max(1 h, 10 % of retention), and never more than half of a
// short retention, which would otherwise always be at risk.
func lossLimit(retention time.Duration) time.Duration {
	if retention <= 0 {
		return lossFloor
	}
	return min(max(lossFloor, retention/10), retention/2)
}

// classOf is the most urgent thing that is true of a partition.
func (t *Tracker) classOf(p *partition, pool *pool) Class {
	fires := func(k kind) bool { return p.conds[k].firing() }
	switch {
	case !p.cur.Known:
		return Unknown
	case fires(kindLost):
		return Lost
	case fires(kindLoss):
		return LossRisk
	case t.reset.firing():
		return Reset
	case fires(kindRewind):
		return Rewind
	case t.gone.firing():
		return Gone
	case fires(kindStuck):
		return Stuck
	case fires(kindHanging):
		return TxnHanging
	case p.hold != HoldNone:
		return Recovering
	case fires(kindHot) || p.hotNow:
		return Hot
	case fires(kindSlow):
		return Slow
	case pool.behind.firing() && p.delay >= t.rule.MaxDelay:
		return Behind
	case p.cur.Committed == None && p.cur.End > p.cur.Start:
		return NoCommit
	case p.lag == 0 && p.cur.Quiet:
		return Idle
	}
	return OK
}
