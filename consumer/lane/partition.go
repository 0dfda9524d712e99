package lane

import (
	"math"
	"slices"
)

// Partition is one assignment of a partition: its lanes, and what is buffered.
// Its methods may be called wherever the Scheduler's may.
type Partition[R any] struct {
	topic   string
	id      int32
	epoch   int64
	lanes   table[lane[R]]
	all     []*lane[R] // in no order
	first   []int64    // first unfinished offset of all[i]
	limit   int64      // records at or above it are not granted
	over    int        // overflowing lanes
	overs   []*lane[R] // of these, those that a re-read may feed, in no order
	gated   []*lane[R] // lanes that wait at a gate, in no order
	late    []*lane[R] // late lanes, in no order
	gates   [Whys]int  // of these, by reason
	running int        // grants in hand
	records int
	bytes   int64
	revoked bool
}

// Topic is the partition's topic.
func (p *Partition[R]) Topic() string { return p.topic }

// ID is the partition's number.
func (p *Partition[R]) ID() int32 { return p.id }

// Epoch is the assignment epoch given to Assign.
func (p *Partition[R]) Epoch() int64 { return p.epoch }

// Records is how many unfinished records are in memory.
func (p *Partition[R]) Records() int { return p.records }

// Bytes is the sum of their Item.Bytes.
func (p *Partition[R]) Bytes() int64 { return p.bytes }

// Lanes is how many lanes have unfinished records.
func (p *Partition[R]) Lanes() int { return len(p.all) }

// Overflowing is how many lanes have records that the main cursor skipped.
func (p *Partition[R]) Overflowing() int { return p.over }

// InHand is how many grants of the partition are not released yet, also after
// it was revoked.
func (p *Partition[R]) InHand() int { return p.running }

// Revoked says that Revoke was called.
func (p *Partition[R]) Revoked() bool { return p.revoked }

// Assign makes the handle of a partition for one assignment. The epoch is the
// caller's, for its own use.
func (s *Scheduler[R]) Assign(topic string, id int32, epoch int64) *Partition[R] {
	p := &Partition[R]{
		topic: topic, id: id, epoch: epoch, limit: math.MaxInt64,
	}
	s.parts = append(s.parts, p)
	return p
}

// Stop grants nothing more of p. What is in hand goes on, and releasing it
// counts.
func (s *Scheduler[R]) Stop(p *Partition[R]) { s.limitTo(p, math.MinInt64) }

// Start undoes Stop and Drain.
func (s *Scheduler[R]) Start(p *Partition[R]) { s.limitTo(p, math.MaxInt64) }

// Drain grants of p only what must still be done so that at most names lanes
// are left unfinished: everything below the offset from which only the lanes
// that reach furthest, and those that cannot run, have records. It returns
// that offset. What a commit can name needs no more draining.
func (s *Scheduler[R]) Drain(p *Partition[R], names int) int64 {
	limit := s.drainLimit(p, names)
	s.limitTo(p, limit)
	return limit
}

func (s *Scheduler[R]) limitTo(p *Partition[R], limit int64) {
	if p.revoked || p.limit == limit {
		return
	}
	p.limit = limit
	for _, l := range p.all {
		s.refreshLane(l)
		s.core.refreshTenant(l.t)
	}
}

// drainLimit keeps, in a heap of size names, the lanes with the highest last
// offsets: all other lanes are to be finished.
func (s *Scheduler[R]) drainLimit(p *Partition[R], names int) int64 {
	if names <= 0 {
		return math.MaxInt64
	}
	var ends largest
	for _, l := range p.all {
		end := int64(math.MaxInt64)
		if l.state == 0 && !l.over && !l.t.paused && l.n > 0 {
			end = l.at(l.n - 1).Offset
		}
		ends.add(end, names)
	}
	if len(ends) < names {
		return math.MinInt64
	}
	if ends[0] == math.MaxInt64 {
		return math.MaxInt64
	}
	return ends[0]
}

// largest is a min-heap of the largest values seen.
type largest []int64

func (h *largest) add(x int64, size int) {
	if len(*h) < size {
		*h = append(*h, x)
		for i := len(*h) - 1; i > 0 && (*h)[i] < (*h)[(i-1)/2]; i = (i - 1) / 2 {
			(*h)[i], (*h)[(i-1)/2] = (*h)[(i-1)/2], (*h)[i]
		}
		return
	}
	if x <= (*h)[0] {
		return
	}
	(*h)[0] = x
	for i := 0; ; {
		m := 2*i + 1
		if m >= size {
			return
		}
		if m+1 < size && (*h)[m+1] < (*h)[m] {
			m++
		}
		if (*h)[i] <= (*h)[m] {
			return
		}
		(*h)[i], (*h)[m] = (*h)[m], (*h)[i]
		i = m
	}
}

// Revoke ends an assignment: p's lanes are dropped, nothing more of p is
// granted or accepted, and releasing what is in hand changes nothing but
// limits and virtual time. It is idempotent.
func (s *Scheduler[R]) Revoke(p *Partition[R]) {
	if p.revoked {
		return
	}
	p.revoked = true
	for _, l := range p.all {
		s.discard(l)
	}
	p.lanes, p.all, p.first, p.overs, p.gated, p.late = table[lane[R]]{}, nil, nil, nil, nil, nil
	s.parts = slices.DeleteFunc(s.parts, func(q *Partition[R]) bool { return q == p })
}

// discard drops a lane with all its records. One with grants in hand is freed
// by their release.
func (s *Scheduler[R]) discard(l *lane[R]) {
	for i := range l.n {
		s.account(l, -1, -int64(l.at(i).Bytes))
	}
	l.clear()
	l.setState(revoked)
	l.setOver(false)
	s.core.timers.stop(&l.alarm)
	t := l.t
	s.refreshLane(l)
	if l.ent.running == 0 {
		s.free(l)
		s.core.refreshTenant(t)
		s.core.drop(t)
		return
	}
	s.ghosts = append(s.ghosts, l)
	s.core.refreshTenant(t)
}

// shadow keeps an ordered lane waiting while a handler still runs a record of
// the same lane from an earlier assignment: its lock outlives the assignment.
func (s *Scheduler[R]) shadow(l *lane[R]) {
	if l.loose == nil && s.ghostOf(l) {
		l.set(shadowed)
	}
}

func (s *Scheduler[R]) ghostOf(l *lane[R]) bool {
	for _, g := range s.ghosts {
		if g.hash == l.hash && g.p.id == l.p.id && g.p.topic == l.p.topic && string(g.key) == string(l.key) {
			return true
		}
	}
	return false
}

// unshadow lets the lanes go on that waited for a revoked lane's handler.
func (s *Scheduler[R]) unshadow(g *lane[R]) {
	i := slices.Index(s.ghosts, g)
	if i < 0 {
		return
	}
	s.ghosts = slices.Delete(s.ghosts, i, i+1)
	for _, p := range s.parts {
		if p.id != g.p.id || p.topic != g.p.topic {
			continue
		}
		if l := s.find(p, g.key, g.hash); l != nil && l.state&shadowed != 0 && !s.ghostOf(l) {
			l.unset(shadowed)
			s.refreshLane(l)
			s.core.refreshTenant(l.t)
		}
	}
}

func (s *Scheduler[R]) account(l *lane[R], records int, bytes int64) {
	l.bytes += bytes
	l.t.records += records
	l.t.bytes += bytes
	l.p.records += records
	l.p.bytes += bytes
	s.records += records
	s.bytes += bytes
}
