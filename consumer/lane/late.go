package lane

import "math"

// late is what a lane has that is, or was, further behind than it may be.
type late struct {
	since int64  // lateness counts from here, since the lane had to wait before
	until int64  // records below are given up; 0: the lane is not late
	pass  uint64 // the pass that takes them
}

// Late describes a lane that has just become late.
type Late struct {
	Tenant, Key []byte // valid until the next call to the Scheduler
	First       int64  // first unfinished offset
	Until       int64  // records below are to be given up
}

// MarkLate finds lanes of p whose skipped records lie more than most offsets
// below cursor, and appends them to dst. A late lane is granted nothing more,
// and its records are not for Refill but for TakeLate, until it is an eighth of
// most within the limit. An unordered one goes on with what is in memory.
//
// A lane that is parked, held, whose tenant is paused, or that has come to a
// gate or has one before it, is not late however far it is behind. When it goes
// on, what it may be behind counts from the cursor's place at that time. Nothing
// counts from below base.
func (s *Scheduler[R]) MarkLate(p *Partition[R], cursor, base, most int64, dst []Late) []Late {
	for i := len(p.overs) - 1; i >= 0; i-- {
		l := p.overs[i]
		switch {
		case l.excused():
			l.waits = true
		case l.state&(held|shadowed) != 0:
		case l.waits:
			l.waits = false
			l.late = &late{since: cursor}
		case cursor-max(l.from, base, l.lateSince()) > most:
			until := cursor - most + most/8
			dst = append(dst, Late{Tenant: l.t.name, Key: l.key, First: l.unfinished(), Until: until})
			s.setLate(l, until)
		}
	}
	return dst
}

// excused says that the lane waits for somebody else.
func (l *lane[R]) excused() bool { return l.state&parked != 0 || l.t.paused || l.gate != nil }

func (l *lane[R]) lateSince() int64 {
	if l.late == nil {
		return math.MinInt64
	}
	return l.late.since
}

func (l *lane[R]) lateUntil() int64 {
	if l.late == nil {
		return 0
	}
	return l.late.until
}

// setLate makes a lane late up to an offset; 0 ends it.
func (s *Scheduler[R]) setLate(l *lane[R], until int64) {
	if until == 0 {
		l.endLate()
	} else {
		l.late = &late{since: l.lateSince(), until: until}
		l.p.late = append(l.p.late, l)
		if l.loose == nil {
			l.set(overdue)
		}
	}
	s.relist(l)
	s.after(l)
}

// endLate takes the lane off the late ones, if it is one of them.
func (l *lane[R]) endLate() {
	if l.lateUntil() == 0 {
		return
	}
	l.late.until = 0
	l.unset(overdue)
	for i, other := range l.p.late {
		if other == l {
			last := len(l.p.late) - 1
			l.p.late[i], l.p.late[last] = l.p.late[last], nil
			l.p.late = l.p.late[:last]
			return
		}
	}
}

// Late is how many lanes are late.
func (p *Partition[R]) Late() int { return len(p.late) }

// LateFrom is the lowest offset from which TakeLate has something to take, once
// late lanes have dropped from memory what they hold, for which it calls
// dropped. False: there is none, or all of them have a record in hand. Lanes
// that have come to wait for somebody else are late no more.
func (s *Scheduler[R]) LateFrom(p *Partition[R], dropped func(*Item[R])) (from int64, ok bool) {
	for i := len(p.late) - 1; i >= 0; i-- {
		l := p.late[i]
		if l.excused() {
			l.waits = true
			s.setLate(l, 0)
			continue
		}
		s.unload(l, dropped)
		if l.givable() && (!ok || l.from < from) {
			from, ok = l.from, true
		}
	}
	return from, ok
}

// unload drops what an idle late lane holds, so that it is read again, and
// forgets its back-off.
func (s *Scheduler[R]) unload(l *lane[R], dropped func(*Item[R])) {
	if l.loose != nil || l.n == 0 || l.ent.running > 0 || l.state&held != 0 {
		return
	}
	s.spill(l, 0, dropped)
	l.attempts = 0
	l.unset(backoff)
	s.core.timers.stop(&l.alarm)
	s.after(l)
}

// givable says that nothing of a late lane comes before what it waits for.
func (l *lane[R]) givable() bool {
	return l.loose != nil || l.n == 0 && l.ent.running == 0 && l.state&shadowed == 0
}

// BeginLate begins a re-read of p for its late lanes, at LateFrom.
func (s *Scheduler[R]) BeginLate(p *Partition[R], from int64) Pass[R] {
	ps := s.BeginPass(p, from)
	for _, l := range p.late {
		if l.givable() && l.from >= from {
			l.late.pass = ps.id
		}
	}
	return ps
}

// TakeLate says that a re-read's record, offered in offset order, is one that a
// late lane gives up: the caller has it until PassedLate.
func (s *Scheduler[R]) TakeLate(ps *Pass[R], id *ID, offset int64) bool {
	l := s.taken(ps, id)
	return l != nil && offset >= l.from && offset <= l.to && offset < l.late.until &&
		(l.gate == nil || offset < l.gate.Offset)
}

// SpareLate ends a late lane's giving up before a record that is not to be.
func (s *Scheduler[R]) SpareLate(ps *Pass[R], id *ID, offset int64) {
	if l := s.taken(ps, id); l != nil {
		l.late.until = min(l.late.until, offset)
	}
}

// taken is the late lane of a record that the pass is for, or nil.
func (s *Scheduler[R]) taken(ps *Pass[R], id *ID) *lane[R] {
	if ps.p.revoked {
		return nil
	}
	l := s.find(ps.p, id.Key, s.hash(id.Key))
	if l == nil || l.lateUntil() == 0 || l.late.pass != ps.id {
		return nil
	}
	return l
}

// PassedLate notes that all that the pass took below next is finished. It
// returns how many lanes are late no more.
func (s *Scheduler[R]) PassedLate(ps *Pass[R], next int64) int {
	before := len(ps.p.late)
	for i := before - 1; i >= 0; i-- {
		l := ps.p.late[i]
		if l.late.pass != ps.id {
			continue
		}
		if to := min(next, l.late.until); l.from < to {
			s.advance(l, to)
		}
		if l.over && (l.from >= l.late.until || l.gate != nil && l.from >= l.gate.Offset) {
			l.endLate()
			s.relist(l)
		}
		s.after(l)
	}
	ps.at = max(ps.at, next)
	return before - len(ps.p.late)
}
