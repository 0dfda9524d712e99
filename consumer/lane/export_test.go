package lane

import "fmt"

// Check walks everything that the scheduler holds and reports the first thing
// that does not fit together.
func (s *Scheduler[R]) Check() error {
	c := &s.core
	tiers := map[*entity]bool{}
	for _, tr := range c.tiers {
		tiers[&tr.ent] = true
	}
	if err := c.root.check("root", tiers); err != nil {
		return err
	}
	tenants, entries := map[*tier]map[*entity]bool{}, 0
	for _, tr := range c.tiers {
		tenants[tr] = map[*entity]bool{}
	}
	c.tenants.each(func(t *tenant) bool {
		entries++
		tenants[t.tier][&t.ent] = true
		return true
	})
	if entries != c.tenants.used {
		return fmt.Errorf("%d tenants, counted %d", c.tenants.used, entries)
	}
	for _, tr := range c.tiers {
		if err := tr.tenants.check("tier "+tr.name, tenants[tr]); err != nil {
			return err
		}
		if err := c.checkTier(tr, tenants[tr]); err != nil {
			return err
		}
	}
	return s.checkLanes()
}

func (c *core) checkTier(tr *tier, members map[*entity]bool) error {
	var running int32
	for e := range members {
		t := e.owner.(*tenant)
		running += t.ent.running
		want := len(t.lanes.ready) > 0 && !t.paused && t.ent.running < t.limit && !t.alarm.set()
		if want != (t.ent.place == inReady) {
			return fmt.Errorf("tenant %q ready %v, want %v", t.name, t.ent.place == inReady, want)
		}
		if t.count == 0 && t.own == nil && !t.paused && !t.ent.busy && t.ent.place != inDebt && !t.alarm.set() {
			return fmt.Errorf("tenant %q is kept for nothing", t.name)
		}
	}
	if running != tr.ent.running {
		return fmt.Errorf("tier %q: %d grants, its tenants have %d", tr.name, tr.ent.running, running)
	}
	want := len(tr.tenants.ready) > 0 && tr.ent.running < tr.limit && !tr.alarm.set()
	if want != (tr.ent.place == inReady) {
		return fmt.Errorf("tier %q ready %v, want %v", tr.name, tr.ent.place == inReady, want)
	}
	return nil
}

func (g *group) check(what string, members map[*entity]bool) error {
	var weight float64
	var owed float64
	busy, ready, debt := 0, 0, 0
	for e := range members {
		if e.busy {
			busy++
			weight += e.weight
		}
		if e.place == inReady {
			ready++
			if g.ready[e.pos].e != e || g.ready[e.pos].v != e.v {
				return fmt.Errorf("%s: ready position is wrong", what)
			}
		}
		if e.place == inDebt {
			debt++
			owed += e.weight
			if g.debt[e.pos].e != e || e.busy {
				return fmt.Errorf("%s: debt position is wrong", what)
			}
		}
		if e.busy != (e.place == inReady || e.running > 0) {
			return fmt.Errorf("%s: busy %v, ready %v, running %d", what, e.busy, e.place == inReady, e.running)
		}
	}
	switch {
	case busy != g.busy:
		return fmt.Errorf("%s: busy %d, want %d", what, g.busy, busy)
	case weight != g.weight || owed != g.owed:
		return fmt.Errorf("%s: weight %v, want %v; owed %v, want %v", what, g.weight, weight, g.owed, owed)
	case ready != len(g.ready) || debt != len(g.debt):
		return fmt.Errorf("%s: %d ready, want %d; %d in debt, want %d", what, len(g.ready), ready, len(g.debt), debt)
	}
	for _, h := range []heap4{g.ready, g.debt} {
		for i := 1; i < len(h); i++ {
			if h[i].less(&h[(i-1)/4]) {
				return fmt.Errorf("%s: heap order is broken", what)
			}
		}
	}
	return nil
}

func (s *Scheduler[R]) checkLanes() error {
	lanes := map[*tenant]map[*entity]bool{}
	records, bytes, ready := 0, int64(0), 0
	count := func(l *lane[R]) {
		if lanes[l.t] == nil {
			lanes[l.t] = map[*entity]bool{}
		}
		lanes[l.t][&l.ent] = true
	}
	for _, p := range s.parts {
		over, fed, gates := 0, 0, [Whys]int{}
		for i, l := range p.all {
			count(l)
			records += l.n
			bytes += l.bytes
			if l.over {
				over++
			}
			if err := l.checkGate(); err != nil {
				return err
			}
			if l.fed {
				fed++
			}
			if l.gate != nil {
				gates[l.gate.Why]++
			}
			if l.ent.place == inReady {
				ready++
			}
			if l.index != i || s.find(p, l.key, l.hash) != l {
				return fmt.Errorf("lane %q is not where it says", l.key)
			}
			if p.first[i] != l.unfinished() {
				return fmt.Errorf("lane %q: first %d, want %d", l.key, p.first[i], l.unfinished())
			}
			if l.grantable() != (l.ent.place == inReady) {
				return fmt.Errorf("lane %q: ready %v", l.key, l.ent.place == inReady)
			}
			if l.n == 0 && !l.over {
				return fmt.Errorf("lane %q is kept for nothing", l.key)
			}
			if l.over && l.n > 0 && l.at(l.n-1).Offset >= l.from {
				return fmt.Errorf("lane %q holds %d, skipped from %d", l.key, l.at(l.n-1).Offset, l.from)
			}
		}
		if over != p.over || fed != len(p.overs) || gates != p.gates {
			return fmt.Errorf("%d lanes overflow, counted %d; %d are fed, listed %d; waiting %v, counted %v",
				over, p.over, fed, len(p.overs), gates, p.gates)
		}
	}
	for _, l := range s.ghosts {
		count(l)
	}
	if records != s.records || bytes != s.bytes || ready != s.core.ready {
		return fmt.Errorf("records %d want %d, bytes %d want %d, ready %d want %d",
			s.records, records, s.bytes, bytes, s.core.ready, ready)
	}
	var err error
	s.core.tenants.each(func(t *tenant) bool {
		err = s.checkTenant(t, lanes[t])
		return err == nil
	})
	return err
}

// checkGate says that the lane is in the lists that it belongs into.
func (l *lane[R]) checkGate() error {
	switch p := l.p; {
	case l.gate != nil && (!l.over || p.gated[l.gateIndex] != l):
		return fmt.Errorf("lane %q waits at %d and overflows %v", l.key, l.gate.Offset, l.over)
	case l.gate != nil && (l.from > l.gate.Offset || l.to < l.gate.Offset):
		return fmt.Errorf("lane %q waits at %d and skipped %d to %d", l.key, l.gate.Offset, l.from, l.to)
	case l.fed != (l.over && l.lateUntil() == 0 && (l.gate == nil || l.from < l.gate.Offset)):
		return fmt.Errorf("lane %q is fed %v", l.key, l.fed)
	case l.fed && p.overs[l.overIndex] != l:
		return fmt.Errorf("lane %q is not where it says", l.key)
	}
	return nil
}

func (s *Scheduler[R]) checkTenant(t *tenant, lanes map[*entity]bool) error {
	if err := t.lanes.check(fmt.Sprintf("tenant %q", t.name), lanes); err != nil {
		return err
	}
	records := 0
	var running, over, parkedLanes, backoffLanes int32
	for e := range lanes {
		l := e.owner.(*lane[R])
		records += l.n
		running += l.ent.running
		if l.over {
			over++
		}
		if l.state&parked != 0 {
			parkedLanes++
		}
		if l.state&backoff != 0 {
			backoffLanes++
		}
	}
	if records != t.records || len(lanes) != int(t.count) || running != t.ent.running ||
		over != t.over || parkedLanes != t.parked || backoffLanes != t.backoff {
		return fmt.Errorf("tenant %q: records %d want %d, lanes %d want %d, running %d want %d, over %d want %d, parked %d want %d, back-off %d want %d",
			t.name, t.records, records, t.count, len(lanes), t.ent.running, running,
			t.over, over, t.parked, parkedLanes, t.backoff, backoffLanes)
	}
	return nil
}

// Remembered is how many tenants r has an entry of.
func (r *Resource[T]) Remembered() int { return len(r.shares) }
