package lag

import "time"

// goneState follows a group that had members and has none.
type goneState struct {
	condition
	existed  bool  // members or a commit were seen
	members  bool  // members were seen
	emptyAt  int64 // since when there are none and nothing was committed
	emptyEnd int64 // sum of ends at that time
	missing  int   // rounds in a row in which the coordinator knew no such group
}

// idleMembersAfter is how long a group has more members than partitions before
// it is a ticket: a deploy has both the old and the new ones for a while.
const idleMembersAfter = 10 * time.Minute

// followIdle fires while the group has members that hold nothing. Claims is
// how many partitions there are to hold, in all topics of the group.
func (t *Tracker) followIdle(g *GroupSample) {
	if g.Claims == 0 || g.Members <= g.Claims {
		t.idleAt = 0
		t.idle.settle(true, t.dt, t.rule.KeepFiring)
		return
	}
	if t.idleAt == 0 {
		t.idleAt = t.now
	}
	if millis(t.now-t.idleAt) >= idleMembersAfter {
		t.idle.fire(t.idleAt)
	}
}

// blindness counts rounds in which too much was unknown.
type blindness struct {
	condition
	bad, good int
}

// step needs three bad rounds in a row to fire and three good ones to end.
func (b *blindness) step(bad bool, now int64) {
	if bad {
		b.bad, b.good = b.bad+1, 0
	} else {
		b.bad, b.good = 0, b.good+1
	}
	switch {
	case b.bad >= blindRounds:
		b.fire(now)
	case b.good >= blindRounds:
		b.condition = condition{}
	}
}

// followGroup updates what concerns the group as a whole.
func (t *Tracker) followGroup(g *GroupSample) {
	t.groupBlind.step(!g.Known, t.now)
	t.frozen = false
	if !g.Known {
		return
	}
	t.followRebalance(g.Rebalancing)
	t.followMembers(g)
	t.followIdle(g)
}

// followRebalance spends the budget within which a rebalance suppresses, and
// fires when it is spent.
func (t *Tracker) followRebalance(rebalancing bool) {
	t.rebalanced.turn(t.now, rebalanceSpan)
	if rebalancing {
		t.rebalanced.add(t.now, rebalanceSpan, millis(t.dt))
	}
	spent := t.rebalanced.sum() >= rebalanceGrace
	t.frozen = rebalancing && !spent
	t.rebalanceStuck.step(rebalancing && spent, t.now, t.dt, t.rule.KeepFiring)
}

func (t *Tracker) followMembers(g *GroupSample) {
	s := &t.gone
	ends, lastCommit, complete := t.progress()
	s.existed = s.existed || g.Members > 0 || lastCommit != 0
	s.members = s.members || g.Members > 0
	if g.Missing {
		s.missing++
	} else {
		s.missing = 0
	}
	switch {
	case g.Members > 0:
		s.emptyAt = 0
	case !complete: // blind: neither longer nor shorter
	case s.emptyAt == 0 || lastCommit > s.emptyAt:
		s.emptyAt, s.emptyEnd = t.now, ends
	}
	idle := s.members && s.emptyAt != 0 && millis(t.now-s.emptyAt) >= goneAfter && ends > s.emptyEnd
	if idle || s.existed && s.missing >= goneRounds {
		s.fire(max(s.emptyAt, 1))
		return
	}
	if g.Members > 0 || lastCommit > s.since {
		s.settle(true, t.dt, t.rule.KeepFiring)
	}
}

// progress sums the ends and finds the newest commit; complete is false when a
// partition is unknown.
func (t *Tracker) progress() (ends, lastCommit int64, complete bool) {
	complete = true
	for _, p := range t.partitions {
		if !p.cur.Known {
			complete = false
			continue
		}
		ends += p.cur.End
		if p.seen && p.committed != None {
			lastCommit = max(lastCommit, p.commitAt)
		}
	}
	return ends, lastCommit, complete
}

func at(ms int64) time.Time { return time.UnixMilli(ms) }
