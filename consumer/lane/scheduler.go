package lane

import (
	"hash/maphash"
	"time"
)

// Scheduler holds the lanes of one worker. It is not safe for concurrent use.
// R is what the caller keeps for a record, best a pointer.
type Scheduler[R any] struct {
	core    core
	seed    maphash.Seed
	spare   []*lane[R]
	rings   rings[R]
	parts   []*Partition[R] // assigned
	ghosts  []*lane[R]      // revoked, with a grant in hand
	passes  uint64
	lowest  lowest // Behind's memory
	records int
	bytes   int64
}

// New makes a Scheduler with one tier of weight 1 and no limits. The error
// names the field of cfg that is out of its range.
func New[R any](cfg Config) (*Scheduler[R], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Scheduler[R]{
		seed: maphash.MakeSeed(),
		core: core{
			cfg: cfg, byName: map[string]TierID{}, means: newAverages(cfg.Averages),
		},
	}
	s.core.setTier("", Tier{})
	return s, nil
}

func (s *Scheduler[R]) hash(b []byte) uint64 { return maphash.Bytes(s.seed, b) }

// Push admits the main cursor's next record. Offsets ascend within a lane. It
// answers Queued, Skipped or Gone.
func (s *Scheduler[R]) Push(p *Partition[R], id ID, it Item[R]) Verdict { return s.PushTo(p, &id, &it) }

// PushTo is Push without copies of its arguments, which cost as much as all the
// rest. It keeps neither.
func (s *Scheduler[R]) PushTo(p *Partition[R], id *ID, it *Item[R]) Verdict {
	if p.revoked {
		return Gone
	}
	l := s.laneOf(p, id)
	if l.over || s.full(l) {
		s.skip(l, it.Offset, it.Offset)
		return Skipped
	}
	s.add(l, id.Tier, it)
	return Queued
}

// full says that a lane takes nothing more: it is at a bound, and what it has
// is not done in a moment.
func (s *Scheduler[R]) full(l *lane[R]) bool {
	c := &s.core
	if l.n < c.cfg.LaneRecords && l.bytes < c.cfg.LaneBytes {
		return false
	}
	return l.state != 0 || l.t.paused || float64(l.n)*c.expect(l.t) >= c.cfg.LaneWait.Seconds()
}

// add puts a record at the end of a lane that may have it.
func (s *Scheduler[R]) add(l *lane[R], id TierID, it *Item[R]) {
	l.push(it, &s.rings)
	s.account(l, 1, int64(it.Bytes))
	if tr := s.core.tiers[id]; tr != l.t.tier {
		s.core.retier(l.t, tr)
	}
	if l.n == 1 {
		l.p.first[l.index] = it.Offset
	}
	if l.loose != nil {
		l.loosePush()
	} else if l.n > 1 {
		return
	}
	s.refreshLane(l)
	s.core.refreshTenant(l.t)
}

// Advance lets everything run whose time has come. Take does it by itself.
func (s *Scheduler[R]) Advance(now time.Duration) {
	s.core.now = max(s.core.now, now)
	for {
		of := s.core.timers.expired(now)
		if of == nil {
			break
		}
		switch o := of.(type) {
		case *lane[R]:
			o.unset(backoff)
			if o.loose != nil {
				s.looseWake(o, now)
			}
			s.refreshLane(o)
			s.core.refreshTenant(o.t)
		case *tenant:
			s.core.refreshTenant(o)
			s.core.drop(o)
		case *tier:
			s.core.refreshTier(o)
		}
	}
	for _, tr := range s.core.tiers {
		s.core.expire(tr)
	}
}

// NextWake is when the next lane, tenant or tier becomes runnable by itself,
// on the clock of now. False: nothing waits for time.
func (s *Scheduler[R]) NextWake() (time.Duration, bool) {
	if len(s.core.timers) == 0 {
		return 0, false
	}
	return s.core.timers[0].due, true
}
