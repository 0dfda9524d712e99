package consumer

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// TenantState is what a tenant does at a worker, in a word. Of several, the
// first in this list holds.
type TenantState string

// The states of a tenant.
const (
	StatePaused  TenantState = "paused"  // by an operator
	StateParked  TenantState = "parked"  // a lane waits for an operator
	StateFailing TenantState = "failing" // a lane is in back-off
	StateFence   TenantState = "fence"   // a lane waits at a fence, for its move's end
	StateMoved   TenantState = "moved"   // a lane waits for its earlier partition to be done
	StateTable   TenantState = "table"   // a lane waits for the routing table to be read
	StateLimited TenantState = "limited" // it waits for its rate
	StateRunning TenantState = "running" // a record is being handled
	StateWaiting TenantState = "waiting" // it has records, none in hand
	StateIdle    TenantState = "idle"    // it has no record here
)

// rank orders states by how much they want a look.
func (s TenantState) rank() int {
	switch s {
	case StatePaused, StateParked:
		return 0
	case StateFailing:
		return 1
	case StateFence, StateMoved, StateTable:
		return 2
	case StateLimited:
		return 3
	}
	return 4
}

// TenantStatus is what a worker knows of one tenant.
type TenantStatus struct {
	Tenant []byte
	Tier   string
	State  TenantState
	// Depth is how many of its records are in this worker's memory, those
	// being handled included, and Bytes what they are charged. What is not
	// fetched yet is in neither.
	Depth int
	Bytes int64
	Lanes int
	// Skipped bounds how many records more the worker has passed and will read
	// again, when lanes are full: the offsets between the first and the last.
	Skipped int64
	// Waiting is how many of its lanes wait for a move: at a fence, for an
	// earlier partition, or for the routing table. They keep nothing in memory
	// of what waits.
	Waiting int
	// Oldest is the timestamp of its oldest record in memory; zero without one.
	Oldest time.Time
	// Rate is how many of its records were finished a second, over the last
	// ten.
	Rate     float64
	InFlight int
	// Mean is how long a handling of one of its records takes.
	Mean time.Duration
	// ETA is how long Depth takes to drain at Rate, or at Mean where nothing
	// was finished lately. 0 without records, negative while the tenant stands
	// still.
	ETA time.Duration
	// Pause is who paused it, while it is; PausedAt since when.
	Pause    Act
	PausedAt time.Time
	// Troubles are the lanes that are parked or failing, those with the lowest
	// offsets first, at most 16.
	Troubles []Trouble
}

// maxTroubles bounds TenantStatus.Troubles.
const maxTroubles = 16

// Trouble is a record that holds up its lane.
type Trouble struct {
	Place
	Key      []byte // of the record
	Parked   bool   // it waits for an operator; else it is tried again
	Attempts int    // failed, since the worker has the partition
	Error    string // of the last attempt; "" if it was made elsewhere, or is forgotten
	Since    time.Time
}

// TenantFilter chooses tenants.
type TenantFilter struct {
	Most  int         // how many at most; default 100
	State TenantState // only those in it; "": any
}

// Tenants describes the tenants that have records here, or are paused: first
// those that want a look, then the deepest. It looks at every lane, partition
// after partition: some milliseconds for 100,000.
func (rt *Runtime) Tenants(f TenantFilter) []TenantStatus {
	if f.Most <= 0 {
		f.Most = 100
	}
	chosen := rt.engine.choose(f)
	rt.engine.detail(chosen)
	return chosen
}

// Tenant describes one tenant, also an idle one.
func (rt *Runtime) Tenant(name []byte) TenantStatus {
	st := []TenantStatus{rt.engine.statusOf(name)}
	rt.engine.detail(st)
	return st[0]
}

// choose are the first tenants that f wants, in order.
func (e *engine) choose(f TenantFilter) []TenantStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.Advance(e.now())
	e.wakeOne()
	var chosen []TenantStatus
	e.sched.Each(func(name []byte, st lane.TenantState) bool {
		state := tenantState(st)
		if f.State != "" && f.State != state || f.State == "" && state == StateIdle {
			return true
		}
		if chosen = append(chosen, e.status(name, st)); len(chosen) >= 2*f.Most+64 {
			chosen = first(chosen, f.Most)
		}
		return true
	})
	return first(chosen, f.Most)
}

// first sorts and keeps the first n.
func first(all []TenantStatus, n int) []TenantStatus {
	slices.SortFunc(all, func(a, b TenantStatus) int {
		return cmp.Or(cmp.Compare(a.State.rank(), b.State.rank()), cmp.Compare(b.Depth, a.Depth), slices.Compare(a.Tenant, b.Tenant))
	})
	return all[:min(n, len(all))]
}

func (e *engine) statusOf(name []byte) TenantStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.Advance(e.now())
	e.wakeOne()
	st, _ := e.sched.Tenant(name)
	return e.status(name, st)
}

func (e *engine) status(name []byte, st lane.TenantState) TenantStatus {
	s := TenantStatus{
		Tenant: slices.Clone(name), Tier: st.Tier, State: tenantState(st), Depth: st.Records, Bytes: st.Bytes,
		Lanes: st.Lanes, Waiting: sum(st.Waiting), Rate: st.Rate, InFlight: st.InHand, Mean: st.Mean,
	}
	if note, ok := e.pauses[string(name)]; ok {
		s.Pause, s.PausedAt = note.Act, note.at
	}
	s.ETA = s.eta()
	return s
}

func sum(lanes [lane.Whys]int32) (n int) {
	for _, k := range lanes {
		n += int(k)
	}
	return n
}

func tenantState(st lane.TenantState) TenantState {
	switch {
	case st.Paused:
		return StatePaused
	case st.Parked > 0:
		return StateParked
	case st.BackOff > 0:
		return StateFailing
	case st.Waiting[whyFence] > 0:
		return StateFence
	case st.Waiting[whyEarlier] > 0:
		return StateMoved
	case st.Waiting[whyTable] > 0:
		return StateTable
	case st.Limited:
		return StateLimited
	case st.InHand > 0:
		return StateRunning
	case st.Lanes > 0:
		return StateWaiting
	}
	return StateIdle
}

func (s *TenantStatus) eta() time.Duration {
	switch {
	case s.Depth == 0:
		return 0
	case s.State == StatePaused, s.State == StateParked && s.InFlight == 0 && s.Rate == 0:
		return -1
	case s.Rate > 0:
		return time.Duration(float64(s.Depth) / s.Rate * float64(time.Second))
	}
	return time.Duration(s.Depth) * s.Mean / time.Duration(max(s.InFlight, 1))
}

// detail adds what only a look at the lanes tells. It gives the lock back
// between partitions.
func (e *engine) detail(chosen []TenantStatus) {
	byName := make(map[string]*TenantStatus, len(chosen))
	for i := range chosen {
		byName[string(chosen[i].Tenant)] = &chosen[i]
	}
	for _, p := range e.owned(nil) {
		e.detailOf(p, byName)
	}
	for i := range chosen {
		s := &chosen[i]
		slices.SortFunc(s.Troubles, func(a, b Trouble) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
		})
	}
}

func (e *engine) detailOf(p *partition, byName map[string]*TenantStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.gone.Load() {
		return
	}
	for l := range e.lanesOf(p) {
		s := byName[string(l.Tenant)]
		if s == nil {
			continue
		}
		if l.Records > 0 {
			if at := l.Head.rec.Timestamp; s.Oldest.IsZero() || at.Before(s.Oldest) {
				s.Oldest = at
			}
		}
		if l.Overflowing {
			s.Skipped += l.LastSkip - l.FirstSkip + 1
		}
		if (l.Parked || l.Attempts > 0 || l.BackOff || l.Held) && len(s.Troubles) < maxTroubles {
			s.Troubles = append(s.Troubles, p.trouble(&l))
		}
	}
}

func (p *partition) trouble(l *lane.State[entry]) Trouble {
	why := p.troubles.of(l.First)
	t := Trouble{
		Place: Place{p.topic, p.id, l.First}, Parked: l.Parked, Attempts: l.Attempts, Error: why.text, Since: why.at,
	}
	if l.Records > 0 {
		t.Key = slices.Clone(l.Head.rec.Key)
	}
	return t
}

// lanesOf are the lanes of p. The lock is held, and the scheduler left alone,
// until the loop ends.
func (e *engine) lanesOf(p *partition) iter.Seq[lane.State[entry]] {
	return func(yield func(lane.State[entry]) bool) { e.sched.EachLane(p.lanes, yield) }
}

// lanesOfTenant counts a tenant's lanes over all partitions.
func (e *engine) lanesOfTenant(tenant []byte) int {
	n := 0
	for _, p := range e.parts {
		for l := range e.lanesOf(p) {
			if string(l.Tenant) == string(tenant) {
				n++
			}
		}
	}
	return n
}
