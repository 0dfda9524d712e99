package lane

// maxCredit is how far, in handler seconds, an entity that could not use its
// share may stay behind the current virtual time. Without a bound a tier with
// one slow lane would collect credit for hours and then shut everyone out.
const maxCredit = 0.05

// expiries bounds the debts looked at in one call, so that the end of a long
// busy period with many debtors is spread over the calls that follow.
const expiries = 8

// continuing marks the sequence of an entity that goes on after a grant. It
// makes one that wakes at the same virtual time go first.
const continuing = 1 << 63

// maxOwed bounds the weight of debtors that the clock takes into account, as a
// multiple of the weight of busy members. See group.
const maxOwed = 1

// group shares time between its members by start-time fair queuing: the one
// with the least virtual time is served; it is charged what it is expected to
// use when it starts and the difference when it ends.
//
// The current virtual time is that of a fluid server (generalized processor
// sharing): it moves by what was served, divided by the weight of the members
// that the fluid server would still be serving. These are the busy ones and the
// debtors: idle, but only because they were served ahead of their turn. It is
// never behind the member served last.
//
// A start-time clock alone would stand still while ever new members arrive: an
// old one would starve and debts would pile up without bound. Leaving the
// debtors out lets the clock run ahead of members with a backlog, so that a
// quiet tenant that wakes waits for them to catch up. Counting them without
// bound makes the clock ever slower when short-lived members never cease,
// which is exact and of no use to the old one: hence maxOwed.
type group struct {
	ready  heap4   // members with runnable work
	debt   heap4   // idle members whose virtual time is ahead
	now    float64 // current virtual time
	top    float64 // the highest virtual time any member reached
	weight float64 // of busy members
	owed   float64 // weight of members in debt
	busy   int     // members that are ready or running
	seq    uint64
}

func (g *group) min() *entity {
	if len(g.ready) == 0 {
		return nil
	}
	return g.ready[0].e
}

// enqueue makes e ready. It is a no-op for one that is.
func (g *group) enqueue(e *entity) {
	if e.place == inReady {
		return
	}
	seq := g.seq
	g.seq++
	if e.busy {
		seq |= continuing
		e.v = max(e.v, g.now-maxCredit/e.weight)
	} else {
		g.wake(e)
	}
	g.ready.push(slot{v: e.v, seq: seq, e: e}, inReady)
}

// dequeue makes e not ready. settle must follow.
func (g *group) dequeue(e *entity) {
	if e.place == inReady {
		g.ready.remove(e)
	}
}

// wake makes e busy.
func (g *group) wake(e *entity) {
	e.busy = true
	g.busy++
	g.weight += e.weight
	if e.place == inDebt {
		g.forget(e)
	} else {
		e.v = max(e.v, g.now)
	}
}

// settle ends e's being busy once it is neither ready nor running. What it
// still owes is remembered; when nobody is busy there is nobody to owe it to.
func (g *group) settle(e *entity) {
	if !e.busy || e.place == inReady || e.running > 0 {
		return
	}
	e.busy = false
	g.busy--
	g.weight -= e.weight
	if g.busy == 0 {
		g.now = max(g.now, g.top)
	}
	g.remember(e)
}

// remember keeps the debt of a member that is not busy, if it has one.
func (g *group) remember(e *entity) {
	if !e.busy && e.v > g.now && e.place != inDebt {
		g.debt.push(slot{v: e.v, e: e}, inDebt)
		g.owed += e.weight
	}
}

// forget drops the debt of a member, if it has one.
func (g *group) forget(e *entity) {
	if e.place == inDebt {
		g.debt.remove(e)
		g.owed -= e.weight
	}
}

// start notes a grant of e, the member that min returned, and charges it.
func (g *group) start(e *entity, seconds float64) {
	g.now = max(g.now, e.v)
	e.running++
	g.charge(e, seconds)
}

// end takes back a grant of e, which is busy: it corrects the charge and moves
// the clock by what was served. The caller makes e ready again, or not, and then settles it.
func (g *group) end(e *entity, correction, served float64) {
	e.running--
	g.charge(e, correction)
	g.now += served / (g.weight + min(g.owed, maxOwed*g.weight))
}

// charge moves e's virtual time on, and its place in the queue.
func (g *group) charge(e *entity, seconds float64) {
	if seconds == 0 {
		return
	}
	e.v += seconds / e.weight
	g.top = max(g.top, e.v)
	if e.place == inReady {
		s := g.ready[e.pos]
		s.v, s.seq = e.v, g.seq|continuing
		g.seq++
		g.ready.fix(int(e.pos), s)
	}
}

// setWeight changes e's weight from now on.
func (g *group) setWeight(e *entity, w float64) {
	if e.busy {
		g.weight += w - e.weight
	}
	if e.place == inDebt {
		g.owed += w - e.weight
	}
	e.weight = w
}

// expired takes out one debtor that the clock has passed, or returns nil.
func (g *group) expired() *entity {
	if len(g.debt) == 0 || g.debt[0].v > g.now {
		return nil
	}
	e := g.debt[0].e
	g.forget(e)
	return e
}

// reset makes the group as new, keeping its memory. It has no members.
func (g *group) reset() {
	*g = group{ready: g.ready, debt: g.debt}
}
