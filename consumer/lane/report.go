package lane

import (
	"cmp"
	"slices"
	"time"
)

// Behind is a lane with unfinished records, as a commit names it.
type Behind struct {
	Name   uint32 // Config.Name of its key
	Offset int64  // its first unfinished offset
	Parked bool
	Paused bool // its tenant is
	// AtLeast: its next record was skipped and where it is is not known, but
	// that it is at Offset or above.
	AtLeast bool
}

// Behind appends to dst the lanes of p with the lowest first unfinished
// offsets, in ascending order, at most the given number. With one more than a
// commit can name, the last one's offset is the frontier. It costs a look at
// one number for each lane of p.
func (s *Scheduler[R]) Behind(p *Partition[R], most int, dst []Behind) []Behind {
	if most <= 0 {
		return dst
	}
	s.lowest = s.lowest[:0]
	for i, off := range p.first {
		if len(s.lowest) < most || off < s.lowest[0].offset {
			s.lowest.add(lowEntry{off, i}, most)
		}
	}
	slices.SortFunc(s.lowest, func(a, b lowEntry) int { return cmp.Compare(a.offset, b.offset) })
	for _, e := range s.lowest {
		l := p.all[e.index]
		dst = append(dst, Behind{
			Name: l.name, Offset: e.offset,
			Parked: l.state&parked != 0, Paused: l.t.paused,
			AtLeast: l.n == 0 && l.vague,
		})
	}
	return dst
}

type lowEntry struct {
	offset int64
	index  int
}

// lowest is a max-heap of the entries with the lowest offsets seen.
type lowest []lowEntry

// add takes x in, in place of the highest entry if there are most already.
func (h *lowest) add(x lowEntry, most int) {
	if len(*h) < most {
		*h = append(*h, x)
		s := *h
		for i := len(s) - 1; i > 0 && s[i].offset > s[(i-1)/2].offset; i = (i - 1) / 2 {
			s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
		}
		return
	}
	s := *h
	s[0] = x
	for i := 0; ; {
		m := 2*i + 1
		if m >= len(s) {
			return
		}
		if m+1 < len(s) && s[m+1].offset > s[m].offset {
			m++
		}
		if s[i].offset >= s[m].offset {
			return
		}
		s[i], s[m] = s[m], s[i]
		i = m
	}
}

// Records is how many unfinished records are in memory.
func (s *Scheduler[R]) Records() int { return s.records }

// Bytes is the sum of their Item.Bytes.
func (s *Scheduler[R]) Bytes() int64 { return s.bytes }

// Runnable is how many lanes could be granted now but for limits of their
// tenants and tiers: how many workers may be worth waking.
func (s *Scheduler[R]) Runnable() int { return s.core.ready }

// Tenants is how many tenants have an entry: those with lanes, debts or
// settings of their own.
func (s *Scheduler[R]) Tenants() int { return s.core.tenants.used }

// InHand is how many grants are not released.
func (s *Scheduler[R]) InHand() int {
	n := 0
	for _, tr := range s.core.tiers {
		n += int(tr.ent.running)
	}
	return n
}

// TenantState is what is known of one tenant at this worker.
type TenantState struct {
	Tier        string
	Records     int           // unfinished, in memory
	Bytes       int64         // of these
	Lanes       int           // with unfinished records
	Overflowing int           // lanes that also have skipped records
	Parked      int           // lanes
	BackOff     int           // lanes
	Waiting     [Whys]int32   // lanes that wait at a gate, by reason
	InHand      int           // grants
	Handled     uint64        // records finished since the entry was made
	Rate        float64       // of these, a second, over the last ten or the entry's life
	Mean        time.Duration // handler time of one cost unit; the tier's estimate if unknown
	Paused      bool
	Limited     bool // waits for tokens
}

// Tenant describes a tenant. False: it has no entry.
func (s *Scheduler[R]) Tenant(name []byte) (TenantState, bool) {
	t := s.core.find(name, s.hash(name))
	if t == nil {
		return TenantState{}, false
	}
	return s.core.state(t), true
}

// Each calls f for every tenant with an entry until f returns false. The name
// is valid during the call.
func (s *Scheduler[R]) Each(f func(name []byte, st TenantState) bool) {
	s.core.tenants.each(func(t *tenant) bool { return f(t.name, s.core.state(t)) })
}

func (c *core) state(t *tenant) TenantState {
	return TenantState{
		Tier: t.tier.name, Records: t.records, Bytes: t.bytes, Lanes: int(t.count),
		Overflowing: int(t.over), Parked: int(t.parked), BackOff: int(t.backoff), Waiting: t.gates,
		InHand: int(t.ent.running), Handled: t.handled, Rate: t.speed.rate(c.now),
		Mean:   time.Duration(c.expect(t) * 1e9),
		Paused: t.paused, Limited: t.alarm.set() && t.count > 0,
	}
}

// State is what is known of one lane.
type State[R any] struct {
	Tenant, Key []byte // valid until the next call to the Scheduler
	First       int64  // first unfinished offset
	Head        R      // its record, if Records > 0
	Records     int    // unfinished, in memory
	Bytes       int64
	Attempts    int // failed attempts of the first record
	InHand      int // grants
	Parked      bool
	Held        bool
	BackOff     bool
	Grantable   bool // can be granted now, but for limits of its tenant and tier
	Overflowing bool
	FirstSkip   int64 // while Overflowing
	LastSkip    int64
	Gate        *Gate // it waits there, or nil; read it only, until the next call to the Scheduler
}

// Lane describes a lane. False: there is none.
func (s *Scheduler[R]) Lane(p *Partition[R], key []byte) (State[R], bool) {
	l := s.lookup(p, key)
	if l == nil {
		return State[R]{}, false
	}
	return l.describe(), true
}

// EachLane calls f for every lane of p until f returns false. f must not call
// the Scheduler.
func (s *Scheduler[R]) EachLane(p *Partition[R], f func(State[R]) bool) {
	for _, l := range p.all {
		if !f(l.describe()) {
			return
		}
	}
}

func (l *lane[R]) describe() State[R] {
	st := State[R]{
		Tenant: l.t.name, Key: l.key, First: l.unfinished(), Records: l.n, Bytes: l.bytes,
		Attempts: int(l.attempts), InHand: int(l.ent.running),
		Parked: l.state&parked != 0, Held: l.state&held != 0, BackOff: l.state&backoff != 0,
		Grantable: l.grantable() && !l.t.paused, Overflowing: l.over,
	}
	if l.n > 0 {
		st.Head = l.at(0).Rec
	}
	if l.over {
		st.FirstSkip, st.LastSkip, st.Gate = l.from, l.to, l.gate
	}
	return st
}
