package lane

import "time"

// Skip notes a record that the main cursor passes without admitting it: the
// lane overflows from it on. It is for lanes that must wait without buffering,
// such as those behind a fence, and for lanes that a commit's metadata named:
// then first is the named offset and last the one below the frontier. Records
// that the lane holds in memory do not count as skipped. It answers Skipped or
// Gone.
func (s *Scheduler[R]) Skip(p *Partition[R], id ID, first, last int64) Verdict {
	if p.revoked {
		return Gone
	}
	s.skip(s.laneOf(p, &id), first, last)
	return Skipped
}

func (s *Scheduler[R]) skip(l *lane[R], first, last int64) {
	if !l.over {
		if l.n > 0 {
			first = max(first, l.at(l.n-1).Offset+1)
		}
		l.setOver(true)
		l.from, l.to, l.vague = first, last, first != last
		if l.n == 0 {
			l.p.first[l.index] = first
		}
		s.relist(l)
		return
	}
	l.to = max(l.to, last)
}

// Pass is one re-read of a partition, going up from an offset. Begin another
// one to read an offset again.
type Pass[R any] struct {
	p  *Partition[R]
	id uint64
	at int64 // everything from where the pass began up to here was offered
}

// At is the offset up to which the pass has come.
func (ps *Pass[R]) At() int64 { return ps.at }

// BeginPass begins a re-read of p at an offset.
func (s *Scheduler[R]) BeginPass(p *Partition[R], from int64) Pass[R] {
	s.passes++
	return Pass[R]{p: p, id: s.passes, at: from}
}

// Refill offers a re-read's record, in offset order, and none at or above the
// next offset to admit. It is Queued if its lane overflows and waits for it,
// Full if there is no room (the lane then takes nothing more from this pass),
// Unwanted if the lane does not wait for it, Gone after Revoke. Refills and the
// Passed that ends them are made without letting Push or Skip in between.
func (s *Scheduler[R]) Refill(ps *Pass[R], id ID, it Item[R]) Verdict {
	p := ps.p
	if p.revoked {
		return Gone
	}
	l := s.wanted(ps, &id, it.Offset)
	switch {
	case l == nil:
		return Unwanted
	case l.full == ps.id:
		return Full
	case s.full(l):
		l.full, l.from, l.vague = ps.id, it.Offset, false
		return Full
	}
	s.advance(l, it.Offset+1)
	s.add(l, id.Tier, &it)
	return Queued
}

// Passed notes that the pass has offered every record below next. Lanes that
// waited for one of them, and were not full, now wait for what follows; those
// whose last skipped offset is below next rejoin. It returns their number.
func (s *Scheduler[R]) Passed(ps *Pass[R], next int64) int {
	rejoined, p := 0, ps.p
	for i := len(p.overs) - 1; i >= 0; i-- {
		l := p.overs[i]
		if l.from < ps.at || l.from >= next || l.full == ps.id {
			continue
		}
		if s.advance(l, next); !l.over {
			rejoined++
		}
		s.after(l)
	}
	ps.at = max(ps.at, next)
	return rejoined
}

// Overflow is what a re-read schedule needs to know of an overflowing lane.
type Overflow struct {
	First, Last int64 // skipped offsets that the lane waits for
	Records     int   // in memory
	Bytes       int64 // in memory
	Free        int   // records that it has room for
	Runnable    bool  // neither parked, held nor paused
	BackOff     bool  // waits for its back-off
}

// Overflows appends p's overflowing lanes to dst, in no order.
func (s *Scheduler[R]) Overflows(p *Partition[R], dst []Overflow) []Overflow {
	for _, l := range p.overs {
		dst = append(dst, Overflow{
			First: l.from, Last: l.to, Records: l.n, Bytes: l.bytes,
			Free:     max(s.core.cfg.LaneRecords-l.n, 0),
			Runnable: l.state&(parked|held) == 0 && !l.t.paused, BackOff: l.state&backoff != 0,
		})
	}
	return dst
}

// Lost notes that everything below start is gone from the log: lanes that wait
// for skipped records there wait for what is left. It returns how many lanes
// had waited below.
func (s *Scheduler[R]) Lost(p *Partition[R], start int64) int {
	n := 0
	for _, lanes := range [...][]*lane[R]{p.overs, p.gated, p.late} {
		for i := len(lanes) - 1; i >= 0; i-- {
			l := lanes[i]
			if l == nil || l.from >= start {
				continue // nil: it left the list with another
			}
			n++
			if l.gate != nil && l.gate.Offset < start {
				l.ungate() // the next record is judged anew
			}
			s.advance(l, start)
			s.after(l)
		}
	}
	return n
}

// LimitLanes changes Config.LaneRecords, LaneBytes and LaneWait from now on, as
// when the worker's memory fills. What lanes hold already stays.
func (s *Scheduler[R]) LimitLanes(records int, bytes int64, wait time.Duration) {
	s.core.cfg.LaneRecords, s.core.cfg.LaneBytes, s.core.cfg.LaneWait = records, bytes, wait
}
