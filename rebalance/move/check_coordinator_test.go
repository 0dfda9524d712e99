package move

import "github.com/tenantlane/tenantlane/partitioner/routing"

// coordinator makes one move. Several may be at work.
type coordinator struct {
	life     life
	captured bool // the wait set
	over     bool // a session was passed over
	course   Coordination
	drain    Drain
}

func sessionOf(who uint8) routing.SessionID { return routing.SessionID{who + 1} }

func (m *model) coordinatorSteps(w *world) {
	for i := range w.coords {
		c := &w.coords[i]
		who := uint8(i)
		switch {
		case c.life == off && w.faults.move > 0 && (i == 0 || w.coords[i-1].life != off):
			n := *w
			n.faults.move--
			n.coords[i] = coordinator{life: up, course: Coordinate(moveID(who))}
			if m.rules.captureEarly {
				n.coords[i].captured, n.coords[i].drain = true, m.capture(w, moveID(who))
			}
			m.step(stStart, who, 0, &n)
		case c.life == up:
			m.courseSteps(w, who)
		}
		if c.life != up {
			continue
		}
		if w.faults.crashCoordinator > 0 {
			n := *w
			n.faults.crashCoordinator--
			n.coords[i] = coordinator{life: dead}
			m.fault(stCrashCoordinator, who, 0, &n)
		}
		if a, _ := c.course.Next(); w.faults.giveUp > 0 && a != Abort && a != Prepare {
			n := *w
			n.faults.giveUp--
			n.coords[i].course.GiveUp()
			m.fault(stGiveUp, who, 0, &n)
		}
	}
	m.markerSteps(w)
	m.abortStep(w)
	m.forgetSteps(w)
}

// capture takes the sessions in the log up to its end.
func (m *model) capture(w *world, move string) Drain {
	end := w.entries
	if m.rules.lastStable {
		end = w.stable()
	}
	var sessions []routing.Session
	known := [maxProds]bool{}
	for _, e := range w.routing[:end] {
		if e.kind == ofSession && !known[e.who] {
			known[e.who] = true
			sessions = append(sessions, routing.Session{ID: sessionOf(e.who)})
		}
	}
	return NewDrain(move, sessions)
}

// quiet tells whether the log can be read to its end, and written by a
// transaction.
func (w *world) quiet() bool { return w.stable() == w.entries }

func (m *model) courseSteps(w *world, who uint8) {
	switch a, _ := w.coords[who].course.Next(); a {
	case Prepare:
		m.prepareStep(w, who)
	case AwaitDrained:
		m.drainSteps(w, who)
	case WriteFence:
		m.fenceSteps(w, who)
	case Switch, Abort:
		m.endSteps(w, who, a)
	case Look:
		if w.quiet() {
			n := *w
			c := &n.coords[who]
			c.course.Saw(m.inTable(&n, who))
			m.stopped(c)
			m.step(stLook, who, 0, &n)
		}
	case Stop:
	}
}

// stopped forgets a coordinator that has nothing left to do.
func (m *model) stopped(c *coordinator) {
	if c.course.Outcome() != Unfinished {
		*c = coordinator{life: dead}
	}
}

// inTable is what the table at the log's end says of a move.
func (m *model) inTable(w *world, who uint8) *routing.Move {
	mv, _ := m.viewOf(w, w.entries).topic.Move(moveID(who))
	return mv
}

// commit writes a transaction: with an answer, or without one.
func (m *model) commit(w *world, who uint8, kind stepKind, e entry, done func(*coordinator, *world)) {
	if w.entries == maxEntries {
		return
	}
	n := *w
	e.status = m.committed()
	n.appendEntry(e)
	done(&n.coords[who], &n)
	m.stopped(&n.coords[who])
	m.step(kind, who, 0, &n)
	if w.faults.lose == 0 {
		return
	}
	n = *w
	n.faults.lose--
	e.status = unknown
	n.appendEntry(e)
	n.coords[who].course.Unconfirmed()
	m.fault(kind, who, 1, &n)
}

func (m *model) prepareStep(w *world, who uint8) {
	if !w.quiet() {
		return
	}
	t := w.read(w.entries)
	if t.open() != nil || int(t.n) == maxMoves {
		return // somebody has to end it first: abortStep
	}
	next := t.switched()
	if next >= len(m.scope.plan) {
		n := *w
		n.coords[who].course.Refuse()
		m.stopped(&n.coords[who])
		m.step(stPrepare, who, 2, &n)
		return
	}
	e := entry{kind: ofTable, who: who, to: routing.MovePrepared, home: m.scope.plan[next]}
	m.commit(w, who, stPrepare, e, func(c *coordinator, n *world) { c.course.Prepared(m.inTable(n, who)) })
}

func (m *model) drainSteps(w *world, who uint8) {
	c := &w.coords[who]
	if !c.captured {
		if w.quiet() || m.rules.lastStable {
			n := *w
			n.coords[who].captured, n.coords[who].drain = true, m.capture(w, moveID(who))
			m.step(stCapture, who, 0, &n)
		}
		return
	}
	drained := c.drain
	for i := range w.prods[:m.scope.producers] {
		p := &w.prods[i]
		if p.told&(1<<who) != 0 {
			drained.Lease(routing.Lease{ID: sessionOf(uint8(i)), Drained: []string{moveID(who)}})
			continue
		}
		passed := c.drain
		passed.Expired(sessionOf(uint8(i)))
		if !p.leased && len(passed.waiting) < len(c.drain.waiting) {
			n := *w
			n.coords[who].drain, n.coords[who].over = passed, true
			m.step(stPassOver, who, uint8(i), &n)
		}
	}
	if drained.Done() {
		n := *w
		n.coords[who].course.Drained()
		n.coords[who].drain = Drain{}
		m.step(stDrained, who, 0, &n)
	}
}

func (m *model) fenceSteps(w *world, who uint8) {
	_, partition := w.coords[who].course.Next()
	n := *w
	offset := n.logs[partition].append(logged{kind: aFence, who: who})
	n.coords[who].course.Fenced(int64(offset))
	m.step(stFence, who, 0, &n)
	if w.faults.lose > 0 {
		n = *w
		n.faults.lose--
		n.logs[partition].append(logged{kind: aFence, who: who})
		m.fault(stFence, who, 1, &n)
	}
}

func (m *model) endSteps(w *world, who uint8, a Action) {
	if !w.quiet() {
		return
	}
	c := &w.coords[who]
	mv := m.inTable(w, who)
	if (mv == nil || !mv.Open()) && (a == Abort || !m.rules.switchBlindly) {
		n := *w
		n.coords[who].course.Refuse()
		m.step(stEnd, who, 2, &n)
		return
	}
	e := entry{kind: ofTable, who: who, to: routing.MoveAborted}
	if a == Switch {
		e.to, e.x, e.over = routing.MoveSwitched, int8(c.course.Fences()[0].Offset), c.over
	}
	m.commit(w, who, stEnd, e, func(c *coordinator, _ *world) { c.course.Committed() })
}

// committed is the status of a transaction whose writer has the answer. That its
// marker comes later keeps readers waiting, and so changes nothing but in
// scopes that look at it.
func (m *model) committed() status {
	if m.scope.markers {
		return marking
	}
	return settled
}

// markerSteps end a transaction in the log.
func (m *model) markerSteps(w *world) {
	at := w.stable()
	if at == w.entries {
		return
	}
	n := *w
	n.routing[at].status = settled
	m.step(stMarker, 0, 0, &n)
	if w.routing[at].status == unknown {
		n = *w
		n.routing[at].status = void
		m.step(stMarker, 0, 1, &n)
	}
}

// abortStep is anybody who aborts an open move past its deadline.
func (m *model) abortStep(w *world) {
	if !w.quiet() || w.entries == maxEntries {
		return
	}
	t := w.read(w.entries)
	open := t.open()
	if open == nil || w.faults.abort == 0 && w.coords[open.who].life == up {
		return
	}
	n := *w
	n.faults.abort = max(0, n.faults.abort-1)
	n.appendEntry(entry{kind: ofTable, who: open.who, to: routing.MoveAborted, status: m.committed()})
	m.step(stAbort, open.who, 0, &n)
}

// forgetSteps are the end of a log's retention, and of what the table holds.
func (m *model) forgetSteps(w *world) {
	if m.scope.truncate == 0 {
		return
	}
	t := w.read(w.entries)
	for _, mv := range t.moves[:t.n] {
		if mv.state != routing.MoveSwitched || mv.gone || w.entries == maxEntries || !w.quiet() {
			continue
		}
		log := &w.logs[mv.from]
		if w.faults.truncate > 0 && log.start <= mv.x && w.parts[mv.from].commit.watermark > mv.x {
			n := *w
			n.faults.truncate--
			n.logs[mv.from].start = mv.x + 1
			m.fault(stTruncate, mv.who, 0, &n)
		}
		held, _ := m.viewOf(w, w.entries).topic.Move(moveID(mv.who))
		start := func(partition int32) (int64, bool) { return int64(w.logs[partition].start), true }
		if m.rules.forgettable(held, start) {
			n := *w
			n.appendEntry(entry{kind: ofTable, who: mv.who, forget: true, to: routing.MoveSwitched, status: m.committed()})
			m.fault(stForget, mv.who, 0, &n)
		}
	}
}
