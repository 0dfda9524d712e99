package lane

import (
	"fmt"
	"math"
)

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
	for _, t := range c.tenants {
		for ; t != nil; t = t.next {
			entries++
			tenants[t.tier][&t.ent] = true
		}
	}
	if entries != c.entries {
		return fmt.Errorf("%d tenants, counted %d", c.entries, entries)
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
		want := len(t.lanes.ready.s) > 0 && !t.paused && t.ent.running < t.limit && t.timer.pos < 0
		if want != (t.ent.pos >= 0) {
			return fmt.Errorf("tenant %q ready %v, want %v", t.name, t.ent.pos >= 0, want)
		}
		if t.count == 0 && !t.pinned && !t.paused && !t.ent.busy && t.ent.debtPos < 0 && t.timer.pos < 0 {
			return fmt.Errorf("tenant %q is kept for nothing", t.name)
		}
	}
	if running != tr.ent.running {
		return fmt.Errorf("tier %q: %d grants, its tenants have %d", tr.name, tr.ent.running, running)
	}
	want := len(tr.tenants.ready.s) > 0 && tr.ent.running < tr.limit && tr.timer.pos < 0
	if want != (tr.ent.pos >= 0) {
		return fmt.Errorf("tier %q ready %v, want %v", tr.name, tr.ent.pos >= 0, want)
	}
	return nil
}

func (g *group) check(what string, members map[*entity]bool) error {
	var weight float64
	busy, counted, ready, debt := 0, 0, 0, 0
	for e := range members {
		if e.counted {
			counted++
			weight += e.weight
		}
		if e.busy {
			busy++
		}
		if e.pos >= 0 {
			ready++
			if g.ready.s[e.pos].e != e || g.ready.s[e.pos].v != e.v {
				return fmt.Errorf("%s: ready position is wrong", what)
			}
		}
		if e.debtPos >= 0 {
			debt++
			if g.debt.s[e.debtPos].e != e || e.busy {
				return fmt.Errorf("%s: debt position is wrong", what)
			}
		}
		if e.busy != (e.pos >= 0 || e.running > 0) {
			return fmt.Errorf("%s: busy %v, ready %v, running %d", what, e.busy, e.pos >= 0, e.running)
		}
		if e.counted != (e.busy || e.debtPos >= 0) {
			return fmt.Errorf("%s: counted %v, busy %v, debt %v", what, e.counted, e.busy, e.debtPos >= 0)
		}
	}
	switch {
	case busy != g.busy || counted != g.members:
		return fmt.Errorf("%s: busy %d want %d, counted %d want %d", what, g.busy, busy, g.members, counted)
	case math.Abs(weight-g.weight) > 0:
		return fmt.Errorf("%s: weight %v, want %v", what, g.weight, weight)
	case ready != len(g.ready.s) || debt != len(g.debt.s):
		return fmt.Errorf("%s: %d ready, want %d; %d in debt, want %d", what, len(g.ready.s), ready, len(g.debt.s), debt)
	}
	for _, h := range []*heap4{&g.ready, &g.debt} {
		for i := 1; i < len(h.s); i++ {
			if h.s[i].less(&h.s[(i-1)/4]) {
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
		over := 0
		for i, l := range p.all {
			count(l)
			records += l.n
			bytes += l.bytes
			if l.over {
				over++
			}
			if l.ent.pos >= 0 {
				ready++
			}
			if l.index != i || s.find(p, l.key, l.hash) != l {
				return fmt.Errorf("lane %q is not where it says", l.key)
			}
			if p.first[i] != l.unfinished() {
				return fmt.Errorf("lane %q: first %d, want %d", l.key, p.first[i], l.unfinished())
			}
			if l.grantable() != (l.ent.pos >= 0) {
				return fmt.Errorf("lane %q: ready %v", l.key, l.ent.pos >= 0)
			}
			if l.n == 0 && !l.over {
				return fmt.Errorf("lane %q is kept for nothing", l.key)
			}
			if l.over && l.n > 0 && l.at(l.n-1).Offset >= l.from {
				return fmt.Errorf("lane %q holds %d, skipped from %d", l.key, l.at(l.n-1).Offset, l.from)
			}
		}
		if over != p.over {
			return fmt.Errorf("%d lanes overflow, counted %d", over, p.over)
		}
	}
	for _, l := range s.ghosts {
		count(l)
	}
	if records != s.records || bytes != s.bytes || ready != s.core.ready {
		return fmt.Errorf("records %d want %d, bytes %d want %d, ready %d want %d",
			s.records, records, s.bytes, bytes, s.core.ready, ready)
	}
	for _, t := range s.core.tenants {
		for ; t != nil; t = t.next {
			if err := s.checkTenant(t, lanes[t]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Scheduler[R]) checkTenant(t *tenant, lanes map[*entity]bool) error {
	if err := t.lanes.check(fmt.Sprintf("tenant %q", t.name), lanes); err != nil {
		return err
	}
	records, over, parkedLanes, backoffLanes := 0, 0, 0, 0
	var running int32
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
	if records != t.records || len(lanes) != t.count || running != t.ent.running ||
		over != t.over || parkedLanes != t.parked || backoffLanes != t.backoff {
		return fmt.Errorf("tenant %q: records %d want %d, lanes %d want %d, running %d want %d, over %d want %d, parked %d want %d, back-off %d want %d",
			t.name, t.records, records, t.count, len(lanes), t.ent.running, running,
			t.over, over, t.parked, parkedLanes, t.backoff, backoffLanes)
	}
	return nil
}
