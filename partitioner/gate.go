package partitioner

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
)

// gateShards is how many locks a topic's tenants share.
const gateShards = 64

// idleGates is how many tenants without a record in flight a shard remembers,
// so that a tenant that sends one record at a time does not cost a new gate
// for each. A topic remembers gateShards times as many.
const idleGates = 128

// holds are the reasons for which a gate is closed. It opens when the last one
// is gone.
type holds uint8

const (
	// byPause is from Pause until Resume.
	byPause holds = 1 << iota
	// byMove is while the table has an open move of the tenant's records.
	byMove
	// byLate is while records that were sent under an earlier registration are
	// unanswered, or answered and undecided (see late.go): whether they must be
	// sent again shows then, and before anything newer.
	byLate
)

// gate is one tenant of one topic at this Producer: what it has in flight, and
// whether it is held back.
//
//	        first hold         last hold gone        queue empty
//	open ──────────────▶ closed ────────────▶ draining ─────────▶ open
//	                       ▲                     │ a hold
//	                       └─────────────────────┘
//
// While it is not open, new records join the queue, so that they leave in the
// order in which they came.
type gate struct {
	shard    *shard // whose mutex guards all below
	tenant   string
	room     *room
	slotted  int64  // of what is in flight, records routed by the tenant's slot
	term     uint64 // the registration under which it was sent; see membership
	held     holds
	closing  uint64 // which of the shard's closings by Pause was the last here; 0 is none
	draining bool
	queue    []*flight
	queued   int64     // bytes in queue
	late     []*flight // answered and undecided
	watches  []watch
}

// watch waits until a gate has nothing in flight.
type watch struct {
	gate    *gate
	slotted bool // of what was routed by slot, only
	done    chan struct{}
}

// passage is how a flight gets past a gate.
type passage uint8

const (
	passed passage = iota
	shut           // closed, or others are to leave first
	full           // no room
	queued
	opened // it was shut and no longer is
)

func (g *gate) open() bool { return g.held == 0 && !g.draining }

// lets tells whether a flight may pass that comes out of the queue of from.
func (g *gate) lets(from *gate) bool { return g.held == 0 && (!g.draining || from == g) }

func (g *gate) idle() bool {
	return g.open() && g.room.used.records == 0 && len(g.queue) == 0 && len(g.late) == 0 &&
		g.room.waiting.Load() == 0 && len(g.watches) == 0
}

// inFlight counts what kgo has and has not answered, of all or of what was
// routed by slot.
func (g *gate) inFlight(slotted bool) int64 {
	if slotted {
		return g.slotted
	}
	return g.room.used.records
}

// gates are a topic's tenants.
type gates struct {
	seed   maphash.Seed
	shards [gateShards]shard
}

type shard struct {
	waiting *budget // of all queues of the Producer

	mu sync.Mutex
	// guards gates and everything in each of them, moving and closings
	gates    map[string]*gate
	moving   []*gate // held byMove
	closings uint64
}

func newGates(waiting *budget) *gates {
	g := &gates{seed: maphash.MakeSeed()}
	for i := range g.shards {
		g.shards[i].waiting, g.shards[i].gates = waiting, make(map[string]*gate)
	}
	return g
}

func (g *gates) shard(tenant []byte) *shard {
	return &g.shards[maphash.Bytes(g.seed, tenant)%gateShards]
}

// gate gives a tenant's gate, new if there is none. The shard is locked.
func (s *shard) gate(tenant []byte) *gate {
	g, ok := s.gates[string(tenant)]
	if !ok {
		g = &gate{shard: s, tenant: string(tenant), room: newRoom(ErrTenantBackpressure)}
		s.gates[g.tenant] = g
	}
	return g
}

// forget drops a gate that says nothing, if the shard remembers enough.
func (s *shard) forget(g *gate) {
	if len(s.gates) > idleGates && g.idle() {
		delete(s.gates, g.tenant)
	}
}

// enter counts a flight at its tenant's gate, if that lets it pass and has room.
// slotted is 1 where the flight was routed by its slot in this topic.
func (s *shard) enter(f *flight, from *gate, most limit, slotted int64) (*gate, passage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gate(f.tenant)
	if g.room.used.records > 0 && g.term != f.term {
		g.held |= byLate
	}
	if !g.lets(from) {
		return g, shut
	}
	if !g.room.fits(f.size, most) {
		return g, full
	}
	g.room.take(f.size)
	g.term = f.term
	g.slotted += slotted
	return g, passed
}

// give ends a record's time in flight. drain tells that somebody must empty the
// gate's queue.
func (s *shard) give(g *gate, size, slotted int64) (drain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.slotted -= slotted
	g.room.give(size)
	if len(g.watches) > 0 {
		g.watches = slices.DeleteFunc(g.watches, func(w watch) bool {
			settled := g.inFlight(w.slotted) == 0
			if settled {
				close(w.done)
			}
			return settled
		})
	}
	if g.room.used.records > 0 {
		return false
	}
	return s.settle(g)
}

// settle lets go what was held byLate, if nothing is in flight or undecided any
// more. The shard is locked.
func (s *shard) settle(g *gate) (drain bool) {
	if g.held&byLate != 0 && g.room.used.records == 0 && len(g.late) == 0 {
		return s.letGo(g, byLate)
	}
	s.forget(g)
	return false
}

// letGo ends one reason to hold the gate's records back. drain tells that
// somebody must empty its queue. The shard is locked.
func (s *shard) letGo(g *gate, why holds) (drain bool) {
	g.held &^= why
	drain = g.held == 0 && len(g.queue) > 0 && !g.draining
	g.draining = g.draining || drain
	s.forget(g)
	return drain
}

// close holds the tenant's new records back until it is reopened.
func (s *shard) close(tenant []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closings++
	g := s.gate(tenant)
	g.held |= byPause
	g.closing = s.closings
}

// closing says which closing of the tenant's gate holds now.
func (s *shard) closing(tenant []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate(tenant).closing
}

// reopen ends a Pause, if it is still that closing that holds.
func (s *shard) reopen(tenant []byte, closing uint64) (g *gate, drain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g = s.gate(tenant)
	if g.closing != closing {
		return g, false
	}
	return g, s.letGo(g, byPause)
}

// holdForMove closes a gate until release finds that no open move covers its
// tenant. The shard is locked.
func (s *shard) holdForMove(g *gate) {
	if g.held&byMove == 0 {
		g.held |= byMove
		s.moving = append(s.moving, g)
	}
}

// release lets go the gates that no open move covers any more, and gives those
// whose queues somebody must empty.
func (s *shard) release(covered func(*gate) bool) (drain []*gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moving = slices.DeleteFunc(s.moving, func(g *gate) bool {
		if covered(g) {
			return false
		}
		if s.letGo(g, byMove) {
			drain = append(drain, g)
		}
		return true
	})
	return drain
}

func (s *shard) inFlight(tenant []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.gates[string(tenant)]; ok {
		return int(g.room.used.records)
	}
	return 0
}

// unsettled counts the records in flight of the gates that match, and gives a
// watch for each such gate.
func (s *shard) unsettled(slotted bool, match func(*gate) bool) (records int64, watches []watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gates {
		n := g.inFlight(slotted)
		if n == 0 || !match(g) {
			continue
		}
		w := watch{gate: g, slotted: slotted, done: make(chan struct{})}
		g.watches = append(g.watches, w)
		records, watches = records+n, append(watches, w)
	}
	return records, watches
}

// wait returns when the gate has nothing in flight, or ctx ends.
func (w watch) wait(ctx context.Context) error {
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		w.drop()
		return ctx.Err()
	}
}

func (w watch) drop() {
	w.gate.shard.mu.Lock()
	defer w.gate.shard.mu.Unlock()
	w.gate.watches = slices.DeleteFunc(w.gate.watches, func(other watch) bool { return other == w })
}
