package lane

import "time"

// loose is what an unordered lane has on top of an ordered one: its records
// run together and finish in any order, so each has its own mark until all
// before it are done.
type loose struct {
	marks []mark   // beside lane.buf, same length
	base  int64    // number of the first record in the ring, counted from the lane's start
	fresh int      // records from this place on were never granted
	again sequence // records that came back and may run
	later sequence // records in back-off
}

type mark struct {
	done     bool
	held     bool // until Unhold
	attempts int32
}

// sequence is a min-heap of record numbers by time, then number.
type sequence []pending

type pending struct {
	due time.Duration // 0 in loose.again
	num int64
}

func (a pending) less(b pending) bool { return a.due < b.due || a.due == b.due && a.num < b.num }

func (h *sequence) push(p pending) {
	*h = append(*h, p)
	s := *h
	for i := len(s) - 1; i > 0 && s[i].less(s[(i-1)/2]); i = (i - 1) / 2 {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
	}
}

func (h *sequence) pop() pending {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		m := 2*i + 1
		if m >= last {
			return top
		}
		if m+1 < last && s[m+1].less(s[m]) {
			m++
		}
		if !s[m].less(s[i]) {
			return top
		}
		s[i], s[m] = s[m], s[i]
		i = m
	}
}

func (l *lane[R]) looseReady() bool {
	u := l.loose
	return l.againReady() || u.fresh < l.n && l.at(u.fresh).Offset < l.p.limit
}

// againReady says that a record that came back may run.
func (l *lane[R]) againReady() bool {
	u := l.loose
	return len(u.again) > 0 && l.at(int(u.again[0].num-u.base)).Offset < l.p.limit
}

// mark is indexed by the record's number, so that it does not depend on where
// the ring starts.
func (u *loose) mark(num int64) *mark { return &u.marks[num&int64(len(u.marks)-1)] }

// loosePush makes the mark of the record just pushed.
func (l *lane[R]) loosePush() {
	u := l.loose
	last := u.base + int64(l.n-1)
	if len(u.marks) < len(l.buf) {
		old := u.marks
		u.marks = make([]mark, len(l.buf))
		for num := u.base; num < last; num++ {
			*u.mark(num) = old[num&int64(len(old)-1)]
		}
	}
	*u.mark(last) = mark{}
}

// looseTake chooses records for one grant: one that came back, or a run of
// those that were never granted. It returns the first one's place and how many
// there are; looseGive takes those back that the grant does not have room for.
func (s *Scheduler[R]) looseTake(g *Grant[R], l *lane[R]) (first, n int) {
	u := l.loose
	first, n = u.fresh, min(s.core.cfg.Quantum, l.n-u.fresh)
	if l.againReady() {
		first, n = int(u.again.pop().num-u.base), 1
	} else {
		u.fresh += n
	}
	g.num = u.base + int64(first)
	g.Attempt = int(u.mark(g.num).attempts)
	return first, n
}

// looseGive takes records back that a grant did not get to. The last ones
// granted simply become fresh again.
func (l *lane[R]) looseGive(num int64, n int) {
	u := l.loose
	if num+int64(n) == u.base+int64(u.fresh) {
		attempted := false
		for i := range int64(n) {
			attempted = attempted || u.mark(num+i).attempts > 0
		}
		if !attempted {
			u.fresh -= n
			return
		}
	}
	for i := range int64(n) {
		u.again.push(pending{num: num + i})
	}
}

// looseDone marks records as done and drops those that nothing is before.
func (s *Scheduler[R]) looseDone(l *lane[R], num int64, n int) {
	u := l.loose
	for i := range int64(n) {
		u.mark(num + i).done = true
	}
	for l.n > 0 && u.fresh > 0 && u.mark(u.base).done {
		s.account(l, -1, -int64(l.at(0).Bytes))
		l.pop()
		u.base++
		u.fresh--
	}
}

// looseWake moves records whose back-off has ended, and arms the next one's.
func (s *Scheduler[R]) looseWake(l *lane[R], now time.Duration) {
	u := l.loose
	for len(u.later) > 0 && u.later[0].due <= now {
		u.again.push(pending{num: u.later.pop().num})
	}
	if len(u.later) > 0 {
		s.core.timers.set(&l.alarm, u.later[0].due, l)
	}
}

// looseSkip takes the first record out of whatever it waits in. It is not in
// hand.
func (l *lane[R]) looseSkip() {
	u := l.loose
	if u.fresh == 0 {
		u.fresh = 1
		return
	}
	u.again.remove(u.base)
	u.later.remove(u.base)
}

// remove takes the record with the given number out, if it is there.
func (h *sequence) remove(num int64) {
	old := *h
	*h = old[:0:0]
	for _, p := range old {
		if p.num != num {
			h.push(p)
		}
	}
}

// looseProgress is what a released grant means to an unordered lane.
func (s *Scheduler[R]) looseProgress(l *lane[R], g *Grant[R], r Result, now time.Duration) {
	u, rest := l.loose, len(g.Items)-r.Done
	if r.Outcome != Continue {
		rest--
		num := g.num + int64(r.Done)
		m := u.mark(num)
		if !r.Uncounted {
			m.attempts++
		}
		switch {
		case r.Outcome == Hold:
			m.held = true
		case r.Outcome == Retry && r.Delay > 0:
			u.later.push(pending{due: now + r.Delay, num: num})
		default:
			u.again.push(pending{num: num})
		}
	}
	l.looseGive(g.num+int64(len(g.Items)-rest), rest)
	s.looseDone(l, g.num, r.Done)
	s.looseWake(l, now)
}

// looseUnhold ends the hold of one record.
func (s *Scheduler[R]) looseUnhold(l *lane[R], num int64, done bool) bool {
	u := l.loose
	if num < u.base || num >= u.base+int64(u.fresh) || !u.mark(num).held {
		return false
	}
	u.mark(num).held = false
	if done {
		s.looseDone(l, num, 1)
	} else {
		u.again.push(pending{num: num})
	}
	s.after(l)
	return true
}
