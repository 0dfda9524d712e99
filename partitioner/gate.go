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

// gate is one tenant of one topic at this Producer: what it has in flight, and
// whether it is held back.
//
//	       Pause            Resume             queue empty
//	open ─────────▶ closed ─────────▶ draining ───────────▶ open
//	                  ▲                  │ Pause
//	                  └──────────────────┘
//
// While it is not open, new records join the queue, so that they leave in the
// order in which they came.
type gate struct {
	shard    *shard // whose mutex guards all below
	tenant   string
	room     *room
	closed   bool
	closing  uint64 // which of the shard's closings was the last here; 0 is none
	draining bool
	queue    []*flight
	queued   int64           // bytes in queue
	settled  []chan struct{} // closed when nothing is in flight
}

// passage is how a flight gets past a gate.
type passage uint8

const (
	passed passage = iota
	shut           // closed, or others are to leave first
	full           // no room
	queued
)

func (g *gate) open() bool { return !g.closed && !g.draining }

// lets tells whether a flight may pass that comes out of the queue of from.
func (g *gate) lets(from *gate) bool { return !g.closed && (!g.draining || from == g) }

func (g *gate) idle() bool {
	return g.open() && g.room.used.records == 0 && len(g.queue) == 0 && g.room.waiting.Load() == 0 && len(g.settled) == 0
}

// gates are a topic's tenants.
type gates struct {
	seed   maphash.Seed
	shards [gateShards]shard
}

type shard struct {
	mu sync.Mutex
	// guards gates and everything in each of them, and closings
	gates    map[string]*gate
	closings uint64
}

func newGates() *gates {
	g := &gates{seed: maphash.MakeSeed()}
	for i := range g.shards {
		g.shards[i].gates = make(map[string]*gate)
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
func (s *shard) enter(f *flight, from *gate, most limit) (*gate, passage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gate(f.tenant)
	if !g.lets(from) {
		return g, shut
	}
	if !g.room.fits(f.size, most) {
		return g, full
	}
	g.room.take(f.size)
	return g, passed
}

// give ends a record's time in flight.
func (s *shard) give(g *gate, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.room.give(size)
	if g.room.used.records > 0 {
		return
	}
	for _, settled := range g.settled {
		close(settled)
	}
	g.settled = nil
	s.forget(g)
}

// close holds the tenant's new records back.
func (s *shard) close(tenant []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closings++
	g := s.gate(tenant)
	g.closed, g.closing = true, s.closings
}

// closing says which closing of the tenant's gate holds now.
func (s *shard) closing(tenant []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate(tenant).closing
}

// reopen lets the tenant's records leave again, if it is still that closing
// that holds. drain tells that somebody must empty its queue.
func (s *shard) reopen(tenant []byte, closing uint64) (g *gate, drain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g = s.gate(tenant)
	if g.closing != closing {
		return g, false
	}
	g.closed = false
	drain = len(g.queue) > 0 && !g.draining
	g.draining = g.draining || drain
	s.forget(g)
	return g, drain
}

func (s *shard) inFlight(tenant []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.gates[string(tenant)]; ok {
		return int(g.room.used.records)
	}
	return 0
}

// wait returns when the tenant has nothing in flight, or ctx ends.
func (s *shard) wait(ctx context.Context, tenant []byte) error {
	settled := s.settled(tenant)
	if settled == nil {
		return nil
	}
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		s.unwatch(tenant, settled)
		return ctx.Err()
	}
}

func (s *shard) settled(tenant []byte) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.gates[string(tenant)]
	if !ok || g.room.used.records == 0 {
		return nil
	}
	settled := make(chan struct{})
	g.settled = append(g.settled, settled)
	return settled
}

func (s *shard) unwatch(tenant []byte, settled chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.gates[string(tenant)]; ok {
		g.settled = slices.DeleteFunc(g.settled, func(ch chan struct{}) bool { return ch == settled })
	}
}

// push puts a flight at the end of the queue, or at its front if it comes from
// there. It is false when the queue is full.
func (g *gate) push(f *flight, front bool, most limit) bool {
	if front {
		g.queue = slices.Insert(g.queue, 0, f)
		g.queued += f.size
		return true
	}
	if len(g.queue) > 0 && (int64(len(g.queue)) >= most.records || g.queued+f.size > most.bytes) {
		return false
	}
	g.queue = append(g.queue, f)
	g.queued += f.size
	return true
}

// pop takes the first flight of a draining gate's queue. Without one the gate
// is open, or closed again.
func (s *shard) pop(g *gate) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.closed || len(g.queue) == 0 {
		g.draining = false
		s.forget(g)
		return nil
	}
	return g.remove(0)
}

// pull takes a flight out of the queue, unless it has left.
func (s *shard) pull(g *gate, f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(g.queue, f)
	if i >= 0 {
		g.remove(i)
	}
	return i >= 0
}

// drop empties all queues.
func (s *shard) drop() (dropped []*flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gates {
		for len(g.queue) > 0 {
			dropped = append(dropped, g.remove(0))
		}
	}
	return dropped
}

// remove takes a flight out of the queue and lets the next one in.
func (g *gate) remove(i int) *flight {
	f := g.queue[i]
	g.queue = slices.Delete(g.queue, i, i+1)
	g.queued -= f.size
	if f.unwatch != nil {
		f.unwatch()
	}
	g.room.wake()
	return f
}

// queued counts the records in all queues.
func (g *gates) queued() (n int) {
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		for _, gate := range s.gates {
			n += len(gate.queue)
		}
		s.mu.Unlock()
	}
	return n
}
