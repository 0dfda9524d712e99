package lag

import "time"

// kind indexes the alerts that a single partition can raise.
type kind uint8

const (
	kindHot kind = iota
	kindChronic
	kindStuck
	kindSlow
	kindLoss
	kindRewind
	kindLost
	kindNoCommit
	kindHanging
	kindLane
	kinds
)

// kindAlert gives each kind's alert and its least severity.
var kindAlert = [kinds]struct {
	name     string
	severity Severity
}{
	kindHot:      {AlertHot, Page},
	kindChronic:  {AlertHot, Ticket},
	kindStuck:    {AlertStuck, Page},
	kindSlow:     {AlertSlow, Page},
	kindLoss:     {AlertLossRisk, Page},
	kindRewind:   {AlertRewind, Ticket},
	kindLost:     {AlertLost, Page},
	kindNoCommit: {AlertNoCommit, Ticket},
	kindHanging:  {AlertTxnHanging, Page},
	kindLane:     {AlertLaneBehind, Ticket},
}

// partition is the state of one partition of one group.
type partition struct {
	id       int32
	cur      Sample
	measured bool  // known and with a commit: may enter a baseline
	lag      int64 // of the current sample, when measured
	delay    time.Duration

	seen      bool
	seenAt    int64 // of the last known sample
	peerAt    int64 // of the last sample whose lag and delay are remembered; 0: none
	committed int64 // last known commit
	commitAt  int64 // when it last moved, or was first seen
	pending   int64 // known milliseconds that work has waited for a commit; None: none waits
	heldAt    int64 // since when a member holds it without a commit; 0: not so
	heldEnd   int64
	asked     int // rounds in which a probe was wanted in vain

	gaps  gaps
	track track
	hot   window

	hotNow   bool
	hotSince int64
	hotTime  budget
	baseline float64
	peak     float64 // largest baseline while late
	poolLate bool    // the pool was late while this one was
	hold     Hold
	slow     *usual // only in a pool of one

	conds [kinds]condition
}

// take reads one sample into the state: commit movements, gaps, the recent
// track. Judgments come after all partitions of the pool have been taken.
func (p *partition) take(s *Sample, now, dt int64, stale time.Duration) {
	p.cur = *s
	p.measured = s.Known && s.Committed != None
	p.hotNow = false
	if !s.Known {
		return
	}
	if p.seen && millis(now-p.seenAt) > stale {
		p.hot.clear()
		p.track.clear()
		p.hotSince = 0
	}
	p.seenAt = now
	p.lag, p.delay = s.backlog()
	p.takeHeld(s, now)
	if !p.measured {
		p.seen, p.committed = true, s.Committed
		return
	}
	p.peerAt = now
	p.takeCommit(s, now, dt)
	p.track.push(trackPoint{at: now, end: s.End, run: s.First()})
	p.takeLost(s, now)
}

// First is the first offset that the group has still to finish: Runnable, or
// the first visible record beyond it.
func (s *Sample) First() int64 { return max(s.Runnable, s.Visible) }

// CaughtUp is true when nothing that a read_committed consumer can be given is
// left, although the commit is below the end.
func (s *Sample) CaughtUp() bool {
	return s.Visible != None && s.Stable != None && s.Visible >= s.Stable
}

// backlog is the lag and the delay that count.
func (s *Sample) backlog() (int64, time.Duration) {
	first := s.First()
	if s.CaughtUp() || first >= s.End {
		return 0, 0
	}
	return s.End - max(first, s.Start), s.Delay
}

func (p *partition) takeCommit(s *Sample, now, dt int64) {
	if !p.seen || p.committed == None {
		p.commitAt = now
	}
	moved := p.seen && s.Committed != p.committed
	if moved && s.Committed < p.committed {
		p.conds[kindRewind].fire(now)
		p.track.clear()
	}
	if p.pending != None {
		p.pending += dt
	}
	if moved {
		if !p.conds[kindStuck].firing() {
			p.gaps.add(now, p.pending)
		}
		p.commitAt, p.pending, p.asked = now, None, 0
	}
	switch {
	case p.lag == 0:
		p.pending = None
	case p.pending == None:
		p.pending = 0
	}
	p.gaps.turn(now)
	p.seen, p.committed = true, s.Committed
}

// takeHeld follows how long a member holds the partition without a commit.
func (p *partition) takeHeld(s *Sample, now int64) {
	switch {
	case s.Committed != None || !s.Owned:
		p.heldAt = 0
	case p.heldAt == 0:
		p.heldAt, p.heldEnd = now, s.End
	}
}

// takeLost notices records that retention deleted before the group read them.
func (p *partition) takeLost(s *Sample, now int64) {
	if s.Start > s.Committed && s.Start > s.First() {
		p.conds[kindLost].fire(now)
		p.track.clear()
	}
}

// forget clears the past, as when the topic was made again.
func (p *partition) forget() {
	fresh := partition{id: p.id, hot: p.hot, slow: p.slow, committed: None, pending: None}
	fresh.hot.clear()
	*p = fresh
}

// draining is true when the net slope of the last 2 minutes clears the lag
// within ok.
func (p *partition) draining(ok time.Duration) bool {
	if ok <= 0 || p.track.n < 2 {
		return false
	}
	then, enough := p.track.since(slopeSpan)
	if !enough {
		return false
	}
	now := p.track.back(0)
	fallen := then.lag() - now.lag()
	if fallen <= 0 {
		return false
	}
	return float64(now.lag())/float64(fallen)*float64(now.at-then.at) <= float64(ok.Milliseconds())
}

// falling is true when the lag is less than 5 minutes ago, or than at the
// start of a shorter track.
func (p *partition) falling() bool {
	if p.track.n < 2 {
		return false
	}
	then, ok := p.track.since(fallSpan)
	if !ok {
		then = p.track.back(p.track.n - 1)
	}
	return p.track.back(0).lag() < then.lag()
}

// probeAfter is how long a commit must stand still, with work behind it, before
// a read_committed look tells whether there is anything to be given at all.
const probeAfter = time.Minute

// probePatience is how many rounds a verdict waits for that look.
const probePatience = 3

// doubtful is true while nobody looked whether the lag can be read at all:
// below a transactional tail the commit of a group that has caught up stands
// still for ever.
func (p *partition) doubtful(now int64) bool {
	return p.measured && p.lag > 0 && p.cur.Visible == None && millis(now-p.commitAt) >= probeAfter
}

// wait is true when a verdict should wait for a probe, and counts the rounds.
func (p *partition) wait(now int64) bool {
	if !p.doubtful(now) || p.asked >= probePatience {
		return false
	}
	p.asked++
	return true
}

// stuckAfter is how long the commit may stand still and its record wait.
func (p *partition) stuckAfter() time.Duration { return max(stuckFloor, 3*p.gaps.longest()) }

// ratio is lag over baseline; below one record the baseline counts as one.
func (p *partition) ratio() float64 {
	if !p.measured {
		return 0
	}
	return float64(p.lag) / max(p.baseline, 1)
}
