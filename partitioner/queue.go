package partitioner

import "slices"

// The queue of a gate: first the records that go out a second time, by their
// sequence, then those that were never sent, as they came. See gate.

// place finds where in the queue a flight belongs that comes from its front, or
// goes out again.
func (g *gate) place(f *flight) int {
	at := slices.IndexFunc(g.queue, func(q *flight) bool { return !q.again || f.again && q.seq > f.seq })
	if at < 0 {
		return len(g.queue)
	}
	return at
}

// push puts a flight at the end of the queue, or at its place in front if it
// was there before or goes out again. It is false when the queue is full.
func (g *gate) push(f *flight, front bool, most limit) bool {
	at := len(g.queue)
	switch {
	case front:
		at = g.place(f)
		g.shard.waiting.force(f.size)
	case len(g.queue) > 0 && (int64(len(g.queue)) >= most.records || g.queued+f.size > most.bytes):
		return false
	case !g.shard.waiting.take(f.size):
		return false
	}
	g.queue = slices.Insert(g.queue, at, f)
	g.queued += f.size
	return true
}

// pop takes the first flight of a draining gate's queue. Without one the gate
// is open, or closed again.
func (s *shard) pop(g *gate) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.held != 0 || len(g.queue) == 0 {
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
	if i == 0 {
		g.queue[0] = nil
		g.queue = g.queue[1:]
	} else {
		g.queue = slices.Delete(g.queue, i, i+1)
	}
	g.queued -= f.size
	g.shard.waiting.give(f.size)
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
