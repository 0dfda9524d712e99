package lane

// Spill drops from memory what lanes of p hold beyond keep records (at least
// one) and cannot run now, because they are in back-off, parked or held, or
// their tenant is paused: they overflow from there on, and re-reads bring the
// records back. It calls dropped for each of them and returns their number.
// Unordered lanes are left alone.
func (s *Scheduler[R]) Spill(p *Partition[R], keep int, dropped func(*Item[R])) int {
	if p.revoked {
		return 0
	}
	total, keep := 0, max(keep, 1)
	for _, l := range p.all {
		waits := l.state&(backoff|parked|held) != 0 || l.t.paused
		if waits && l.loose == nil && l.ent.running == 0 && l.n > keep {
			total += l.n - keep
			s.spill(l, keep, dropped)
		}
	}
	return total
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
}
