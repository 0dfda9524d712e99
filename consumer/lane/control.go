package lane

import "time"

// SetTenant gives a tenant limits of its own from now on, whether it has work
// or not; the zero Tenant takes them back. Tenants with limits of their own
// are kept in memory.
func (s *Scheduler[R]) SetTenant(name []byte, cfg Tenant, now time.Duration) {
	s.Advance(now)
	c := &s.core
	t := c.tenantOf(name, s.hash(name), 0)
	t.own = nil
	if cfg != (Tenant{}) {
		t.own = &cfg
	}
	c.applyTenant(t)
	c.waitForTokens(t)
	c.drop(t)
}

// Retier moves the tenants that have lanes in p to the tiers that tierOf names,
// with their debts and their grants in hand. Others are in the tier of their
// next record anyway.
func (s *Scheduler[R]) Retier(p *Partition[R], tierOf func(tenant []byte) TierID, now time.Duration) {
	s.Advance(now)
	for _, l := range p.all {
		if to := s.core.tiers[tierOf(l.t.name)]; to != l.t.tier {
			s.core.retier(l.t, to)
			s.core.waitForTokens(l.t)
		}
	}
	s.Advance(now)
}

// PauseTenant grants nothing more of a tenant, in any partition, until
// ResumeTenant. Records go on to be admitted.
func (s *Scheduler[R]) PauseTenant(name []byte) { s.setPaused(name, true) }

// ResumeTenant undoes PauseTenant.
func (s *Scheduler[R]) ResumeTenant(name []byte) { s.setPaused(name, false) }

func (s *Scheduler[R]) setPaused(name []byte, paused bool) {
	t := s.core.tenantOf(name, s.hash(name), 0)
	t.paused = paused
	s.core.refreshTenant(t)
	s.core.drop(t)
}

// lookup finds a lane by its key, or returns nil.
func (s *Scheduler[R]) lookup(p *Partition[R], key []byte) *lane[R] {
	if p.revoked {
		return nil
	}
	return s.find(p, key, s.hash(key))
}

// ParkLane stops a lane as the outcome Park does, for one that was parked
// before a restart. It says whether the lane exists.
func (s *Scheduler[R]) ParkLane(p *Partition[R], key []byte) bool {
	return s.setParked(p, key, parked)
}

// ResumeLane lets a parked lane go on with the record that it was parked for.
// It says whether there was such a lane.
func (s *Scheduler[R]) ResumeLane(p *Partition[R], key []byte) bool {
	l := s.lookup(p, key)
	if l == nil || l.state&parked == 0 {
		return false
	}
	l.attempts = 0
	return s.setParked(p, key, 0)
}

func (s *Scheduler[R]) setParked(p *Partition[R], key []byte, bit uint8) bool {
	l := s.lookup(p, key)
	if l == nil {
		return false
	}
	l.setState(l.state&^parked | bit)
	s.after(l)
	return true
}

// SkipFirst finishes the first record of a lane unhandled, because an operator
// says so, and lets the lane go on. It returns the record; false if there is no
// such lane, none of its records is in memory, or the first one is in hand.
func (s *Scheduler[R]) SkipFirst(p *Partition[R], key []byte) (Item[R], bool) {
	l := s.lookup(p, key)
	if l == nil || l.n == 0 || l.ent.running > 0 {
		return Item[R]{}, false
	}
	it := *l.at(0)
	if l.loose != nil {
		l.looseSkip()
		s.looseDone(l, l.loose.base, 1)
	} else {
		s.account(l, -1, -int64(it.Bytes))
		l.pop()
	}
	l.attempts = 0
	l.unset(parked | backoff | held)
	s.core.timers.stop(&l.alarm)
	s.after(l)
	return it, true
}

// Unhold ends a Hold: done leading records of the lane, in an unordered one the
// held record if done is 1, are finished, and the lane goes on. It says whether
// the record is still there and was held.
func (s *Scheduler[R]) Unhold(r Ref[R], done int) bool {
	l := r.get()
	switch {
	case l == nil:
		return false
	case l.loose != nil:
		return s.looseUnhold(l, r.num, done > 0)
	case l.state&held == 0 || l.n == 0 || l.at(0).Offset != r.offset:
		return false
	}
	l.unset(held)
	for range min(done, l.n) {
		s.account(l, -1, -int64(l.at(0).Bytes))
		l.pop()
		l.attempts = 0
	}
	s.after(l)
	return true
}
