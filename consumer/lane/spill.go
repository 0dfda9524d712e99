package lane

// Spill drops from memory what lanes of p hold beyond a bound: they overflow
// from there on, and re-reads bring the records back. The bound is keep records
// (at least one) for lanes that cannot run now, because they are in back-off,
// parked or held, or their tenant is paused; it is most records, and no less
// than a grant may have, for all others, also for those in hand. Spill calls
// dropped for each record and returns their number. Unordered lanes are left
// alone.
func (s *Scheduler[R]) Spill(p *Partition[R], keep, most int, dropped func(*Item[R])) int {
	if p.revoked {
		return 0
	}
	total, keep, most := 0, max(keep, 1), max(most, s.core.cfg.Quantum)
	for _, l := range p.all {
		bound := most
		if l.ent.running == 0 && (l.state&(backoff|parked|held) != 0 || l.t.paused) {
			bound = keep
		}
		if l.loose == nil && l.n > bound {
			total += l.n - bound
			s.spill(l, bound, dropped)
		}
	}
	return total
}

// Unload drops from memory all that an ordered lane holds, unless some of it is
// in hand: the lane overflows from its first record, and a re-read brings it
// back. It calls dropped for each record and returns their number.
func (s *Scheduler[R]) Unload(p *Partition[R], key []byte, dropped func(*Item[R])) int {
	l := s.lookup(p, key)
	if l == nil || l.loose != nil || l.n == 0 || l.ent.running > 0 {
		return 0
	}
	n := l.n
	s.spill(l, 0, dropped)
	l.attempts = 0
	s.after(l)
	return n
}

func (s *Scheduler[R]) spill(l *lane[R], keep int, dropped func(*Item[R])) {
	first, last := l.at(keep).Offset, l.at(l.n-1).Offset
	records, bytes := l.n-keep, int64(0)
	for i := keep; i < l.n; i++ {
		it := l.at(i)
		dropped(it)
		bytes += int64(it.Bytes)
		*it = Item[R]{}
	}
	l.n = keep
	s.account(l, -records, -bytes)
	if !l.over {
		l.to = last
		l.setOver(true)
	}
	l.from, l.vague = first, false
	s.relist(l)
}
