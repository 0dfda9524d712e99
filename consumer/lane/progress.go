package lane

// Report notes that the first done Items of a grant are finished while the one
// after them is still being handled, so that a handler that hangs does not
// hide from Behind what was done before it. At least the last item stays. It
// returns how many are newly finished, 0 after the partition was revoked.
// Release gets the count of all, as without it.
func (s *Scheduler[R]) Report(g *Grant[R], done int) int {
	l := g.lane
	n := min(done, len(g.Items)-1) - g.reported
	if n <= 0 || l.state&revoked != 0 {
		return 0
	}
	if l.loose != nil {
		s.looseDone(l, g.num+int64(g.reported), n)
	} else {
		s.finish(l, n)
	}
	g.reported += n
	l.t.finished(n, s.core.now)
	l.p.first[l.index] = l.unfinished()
	return n
}

// finish pops the first n records of an ordered lane.
func (s *Scheduler[R]) finish(l *lane[R], n int) {
	var bytes int64
	for range n {
		bytes += int64(l.at(0).Bytes)
		l.pop()
	}
	if n > 0 {
		s.account(l, -n, -bytes)
		l.attempts = 0
	}
}

// forgetReported makes g and r as if the grant had begun with the first item
// that was not reported.
func (g *Grant[R]) forgetReported(r *Result) {
	g.Items = g.Items[g.reported:]
	g.num += int64(g.reported)
	r.Done -= g.reported
	g.reported = 0
}

// Tenant is the tenant's name. It is the scheduler's memory: read it only, and
// only until the grant is released.
func (g *Grant[R]) Tenant() []byte { return g.lane.t.name }
