package lane

import "time"

// Take grants up to most lanes to a worker that has nothing in hand, in b,
// whose former content it overwrites. It returns the number of grants; 0 means
// that nothing may run before the next Push, Release, change of a setting, or
// NextWake.
func (s *Scheduler[R]) Take(now time.Duration, most int, b *Batch[R]) int {
	b.Reset()
	s.Advance(now)
	c := &s.core
	left := c.cfg.TakeTime.Seconds()
	var behind *tenant // granted, has more, and has the least virtual time of these
	for len(b.Grants) < most && left > 0 {
		e := c.root.min()
		if e == nil {
			break
		}
		tr := e.owner.(*tier)
		t := tr.tenants.min().owner.(*tenant)
		if behind != nil && behind.before(t) {
			break
		}
		l := t.lanes.min().owner.(*lane[R])
		if c.limited(tr, t, l.next1().cost(), now) {
			continue
		}
		left -= s.grant(tr, t, l, b)
		if l.n > len(b.Grants[len(b.Grants)-1].Items) && (behind == nil || t.before(behind)) {
			behind = t
		}
	}
	return len(b.Grants)
}

// before says that t would be served before u if its lane were not in hand.
// Then a worker takes nothing else beside that lane: the tenant with the
// cheapest handler would get a quantum each time others get a millisecond.
func (t *tenant) before(u *tenant) bool {
	if t.tier == u.tier {
		return t.ent.v < u.ent.v
	}
	return t.tier.ent.v < u.tier.ent.v
}

// next1 is the record that the lane's next grant starts with.
func (l *lane[R]) next1() *Item[R] {
	if u := l.loose; u != nil {
		if l.againReady() {
			return l.at(int(u.again[0].num - u.base))
		}
		return l.at(u.fresh)
	}
	return l.at(0)
}

// limited arms the timer of the tenant or tier that has no tokens for a record
// of the given cost, and takes it out of the queue until then.
func (c *core) limited(tr *tier, t *tenant, cost float64, now time.Duration) bool {
	if tr.bucket != nil {
		if wait := tr.bucket.wait(cost, now); wait > 0 {
			c.timers.set(&tr.alarm, now+wait, tr)
			c.refreshTier(tr)
			return true
		}
	}
	if t.bucket != nil {
		if wait := t.bucket.wait(cost, now); wait > 0 {
			c.timers.set(&t.alarm, now+wait, t)
			c.refreshTenant(t)
			return true
		}
	}
	return false
}

// grant gives the lane's next records out and returns their expected time.
func (s *Scheduler[R]) grant(tr *tier, t *tenant, l *lane[R], b *Batch[R]) float64 {
	c := &s.core
	unit := c.expect(t)
	g := Grant[R]{lane: l, Attempt: int(l.attempts)}
	i, n := 0, min(c.cfg.Quantum, l.n)
	if l.loose != nil {
		i, n = s.looseTake(&g, l)
	}
	from, budget := len(b.items), c.budget(tr, t, unit)
	for ; n > 0; n-- {
		it := l.at(i)
		cost := it.cost()
		if g.cost > 0 && (g.cost+cost > budget || it.Offset >= l.p.limit) {
			break
		}
		b.items = append(b.items, *it)
		g.cost += cost
		i++
	}
	g.Items = b.items[from:len(b.items):len(b.items)]
	if l.loose != nil {
		l.looseGive(g.num+int64(len(g.Items)), n)
	}
	g.est = unit * g.cost
	b.Grants = append(b.Grants, g)
	tr.bucket.spend(g.cost)
	t.bucket.spend(g.cost)
	l.p.running++
	t.lanes.start(&l.ent, g.est)
	tr.tenants.start(&t.ent, g.est)
	c.root.start(&tr.ent, g.est)
	s.refreshLane(l)
	c.refreshTenant(t)
	return g.est
}

// budget is the cost that a grant may have, beyond its first record, by the
// time for a lane and the tokens at hand.
func (c *core) budget(tr *tier, t *tenant, unit float64) float64 {
	most := c.cfg.LaneTime.Seconds() / unit
	if tr.bucket != nil {
		most = min(most, tr.bucket.tokens)
	}
	if t.bucket != nil {
		most = min(most, t.bucket.tokens)
	}
	return most
}
