package lane

import (
	"slices"
	"time"
)

// Whys is how many reasons for a Gate there are: 0 to Whys−1, with the caller's
// meanings.
const Whys = 4

// Gate is what a lane waits for before a record: for something that only the
// caller knows of, such as the end of a move.
type Gate struct {
	Offset int64  // of the first record that waits
	Why    uint8  // below Whys
	Mark   uint64 // the caller's, to judge the record again without it
	Since  time.Duration
}

// Gate makes a lane wait from the main cursor's record at g.Offset on: it
// overflows from there, buffers nothing of it and what follows, and is fed by
// no re-read beyond it, until Reopen. What it holds of earlier records, or has
// skipped of them, goes on. It answers Skipped or Gone.
func (s *Scheduler[R]) Gate(p *Partition[R], id *ID, g Gate) Verdict {
	if p.revoked {
		return Gone
	}
	l := s.laneOf(p, id)
	s.gate(l, g)
	s.skip(l, g.Offset, g.Offset)
	return Skipped
}

// RefillGate is Gate for a re-read's record, instead of Refill: it answers
// Skipped where the lane waits for the record, and Unwanted, Full or Gone as
// Refill does.
func (s *Scheduler[R]) RefillGate(ps *Pass[R], id *ID, g Gate) Verdict {
	if ps.p.revoked {
		return Gone
	}
	l := s.wanted(ps, id, g.Offset)
	switch {
	case l == nil:
		return Unwanted
	case l.full == ps.id:
		return Full
	}
	l.from, l.vague = g.Offset, false
	s.gate(l, g)
	s.relist(l)
	s.after(l)
	return Skipped
}

// Wanted says that a re-read's record is one that its lane waits for.
func (s *Scheduler[R]) Wanted(ps *Pass[R], id *ID, offset int64) bool {
	return !ps.p.revoked && s.wanted(ps, id, offset) != nil
}

// wanted is the lane that a re-read's record is for, or nil if it does not wait
// for it.
func (s *Scheduler[R]) wanted(ps *Pass[R], id *ID, offset int64) *lane[R] {
	l := s.find(ps.p, id.Key, s.hash(id.Key))
	switch {
	case l == nil || !l.over || offset < l.from || offset > l.to || l.lateUntil() != 0:
		return nil
	case l.from < ps.at:
		return nil // the pass began above what the lane needs first
	case l.gate != nil && offset >= l.gate.Offset:
		return nil
	}
	return l
}

// gate sets l's gate unless it has one that is lower.
func (s *Scheduler[R]) gate(l *lane[R], g Gate) {
	if l.gate != nil && l.gate.Offset <= g.Offset {
		return
	}
	l.ungate()
	l.gate, l.waits = &g, true
	l.countGate(1)
	l.gateIndex = len(l.p.gated)
	l.p.gated = append(l.p.gated, l)
}

// ungate takes l's gate away, if it has one.
func (l *lane[R]) ungate() {
	if l.gate == nil {
		return
	}
	l.countGate(-1)
	l.gate = nil
	p, last := l.p, len(l.p.gated)-1
	p.gated[l.gateIndex] = p.gated[last]
	p.gated[l.gateIndex].gateIndex = l.gateIndex
	p.gated[last] = nil
	p.gated = p.gated[:last]
}

func (l *lane[R]) countGate(n int) {
	l.t.gates[l.gate.Why] += int32(n)
	l.p.gates[l.gate.Why] += n
}

// advance moves what l waits for of its skipped records up to an offset that
// no record below is left of, but not beyond its gate.
func (s *Scheduler[R]) advance(l *lane[R], to int64) {
	l.from, l.vague = to, true
	if l.gate != nil && l.gate.Offset <= to {
		l.from, l.vague = l.gate.Offset, false
	}
	if l.from > l.to {
		l.setOver(false)
		return
	}
	s.relist(l)
}

// relist puts an overflowing lane among those that a re-read may feed, or takes
// it out where it has come to its gate.
func (s *Scheduler[R]) relist(l *lane[R]) {
	l.setFed(l.over && l.lateUntil() == 0 && (l.gate == nil || l.from < l.gate.Offset))
}

// Gated is a lane that waits.
type Gated struct {
	Gate
	Name        uint32 // Config.Name of Key
	Tenant, Key []byte // valid during the call
}

// Reopen looks at lanes of p that wait, at most a number of them: those below
// a place in p's list, from there downward. judge says of each whether it still
// waits, and why. The others' wait ends: re-reads bring their records. Reopen
// returns the place to go on from, 0 at the end. Lanes that began to wait since
// are not looked at.
func (s *Scheduler[R]) Reopen(p *Partition[R], from, most int, judge func(Gated) (why uint8, waits bool)) (next int) {
	from = min(from, len(p.gated))
	next = max(from-most, 0)
	for i := from - 1; i >= next; i-- {
		l := p.gated[i]
		why, waits := judge(Gated{Gate: *l.gate, Name: l.name, Tenant: l.t.name, Key: l.key})
		if !waits {
			l.ungate()
			s.relist(l)
			continue
		}
		l.countGate(-1)
		l.gate.Why = why
		l.countGate(1)
	}
	return next
}

// Beyond says that the lane of a released grant has nothing unfinished at or
// below an offset.
func (s *Scheduler[R]) Beyond(r Ref[R], offset int64) bool {
	l := r.get()
	return l == nil || l.unfinished() > offset
}

// Waiting is how many lanes of p wait, by reason.
func (p *Partition[R]) Waiting() [Whys]int { return p.gates }

// EachGated calls f for the lanes of p that wait until f returns false. f must
// not call the Scheduler.
func (s *Scheduler[R]) EachGated(p *Partition[R], f func(Gated) bool) {
	for _, l := range slices.Backward(p.gated) {
		if !f(Gated{Gate: *l.gate, Name: l.name, Tenant: l.t.name, Key: l.key}) {
			return
		}
	}
}
