package lane

import (
	"container/heap"
	"time"
)

// ResourceConfig limits a resource. A zero field is no limit.
type ResourceConfig struct {
	Concurrency int     // claims granted at once
	Rate, Burst float64 // grants a second, and at once; a rate without a burst has one second's
}

// Resource shares what is limited between the tenants that wait for it, apart
// from lanes: by virtual time, so that of tenants that always wait each has it
// as long as any other, or as often where only its rate is limited. One that
// comes back begins at the later of its own and the current virtual time.
// It remembers no more tenants than twice those that wait or have it, and a few.
// T is what the caller keeps for a claim. A Resource is not safe for concurrent
// use.
type Resource[T any] struct {
	cfg     ResourceConfig
	bucket  *bucket
	shares  map[string]*share[T]
	queue   shareHeap[T] // shares with claims that wait
	waiting int          // claims
	held    int          // claims
	clock   float64      // virtual time of the last grant
	mean    float64      // seconds that a claim was held, moving average
	claims  uint64
}

// share is one tenant's.
type share[T any] struct {
	name        string
	v           float64
	first, last *Claim[T] // that wait
	held        int
	pos         int // in queue; -1: not there
}

// Claim is one wish for the resource, from Claim to Cancel or Release.
type Claim[T any] struct {
	Value T

	share      *share[T]
	prev, next *Claim[T] // in the share's queue
	number     uint64
	since      time.Duration // it waits, or is held, since
	charged    float64
	granted    bool
}

// Granted says that the claim has the resource.
func (c *Claim[T]) Granted() bool { return c.granted }

// Since is when it was granted, or began to wait.
func (c *Claim[T]) Since() time.Duration { return c.since }

// NewResource makes a Resource that nobody has. Negative limits count as none.
func NewResource[T any](cfg ResourceConfig) *Resource[T] {
	return &Resource[T]{cfg: cfg, bucket: (*bucket)(nil).with(cfg.Rate, cfg.Burst, 0), shares: map[string]*share[T]{}, mean: 1e-3}
}

// Waiting and Held are how many claims wait and are granted.
func (r *Resource[T]) Waiting() int { return r.waiting }

// Held is how many claims are granted and not released.
func (r *Resource[T]) Held() int { return r.held }

// Claim queues a wish behind its tenant's others. Next grants it.
func (r *Resource[T]) Claim(tenant []byte, value T, now time.Duration) *Claim[T] {
	s := r.shares[string(tenant)]
	if s == nil {
		r.prune()
		s = &share[T]{name: string(tenant), pos: -1}
		r.shares[s.name] = s
	}
	r.claims++
	c := &Claim[T]{Value: value, share: s, prev: s.last, number: r.claims, since: now}
	if s.last == nil {
		s.first = c
	} else {
		s.last.next = c
	}
	s.last = c
	r.waiting++
	if s.pos < 0 {
		if s.held == 0 {
			s.v = max(s.v, r.clock)
		}
		heap.Push(&r.queue, s)
	}
	return c
}

// Next grants the claim whose turn it is, if one may have the resource now.
// Else it says how long until one may for its rate; 0: a Claim or a Release has
// to come first.
func (r *Resource[T]) Next(now time.Duration) (*Claim[T], time.Duration) {
	if r.waiting == 0 || r.cfg.Concurrency > 0 && r.held >= r.cfg.Concurrency {
		return nil, 0
	}
	if wait := r.bucket.wait(1, now); wait > 0 {
		return nil, wait
	}
	r.bucket.spend(1)
	s := r.queue[0]
	c := s.first
	r.clock = max(r.clock, s.v)
	c.granted, c.since, c.charged = true, now, 1
	if r.cfg.Concurrency > 0 {
		c.charged = r.mean
	}
	s.v += c.charged
	s.held++
	r.held++
	r.unqueue(c)
	return c, 0
}

// Cancel withdraws a claim that is not granted.
func (r *Resource[T]) Cancel(c *Claim[T]) {
	r.unqueue(c)
	r.rest()
}

// Release ends a granted claim.
func (r *Resource[T]) Release(c *Claim[T], now time.Duration) {
	s := c.share
	s.held--
	r.held--
	if r.cfg.Concurrency > 0 {
		busy := max((now - c.since).Seconds(), 0)
		s.v += busy - c.charged
		r.mean += (busy - r.mean) / 8
	}
	if s.pos >= 0 {
		heap.Fix(&r.queue, s.pos)
	}
	r.rest()
}

func (r *Resource[T]) unqueue(c *Claim[T]) {
	s := c.share
	if c.prev == nil {
		s.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		s.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	r.waiting--
	if s.first == nil {
		heap.Remove(&r.queue, s.pos)
		return
	}
	heap.Fix(&r.queue, s.pos)
}

// rest forgets every tenant once nobody wants or has the resource.
func (r *Resource[T]) rest() {
	if r.waiting == 0 && r.held == 0 {
		clear(r.shares)
		r.clock = 0
	}
}

// remembered is how many tenants are always remembered.
const remembered = 64

// prune forgets tenants that neither wait nor have the resource when there are
// too many: those without a debt first.
func (r *Resource[T]) prune() {
	most := remembered + 2*(len(r.queue)+r.held)
	for _, debts := range []bool{false, true} {
		if len(r.shares) <= most {
			return
		}
		for name, s := range r.shares {
			if s.first == nil && s.held == 0 && (debts || s.v <= r.clock) {
				delete(r.shares, name)
			}
		}
	}
}

// shareHeap has the lowest virtual time first, of equal ones who has waited
// longest.
type shareHeap[T any] []*share[T]

func (h shareHeap[T]) Len() int { return len(h) }

func (h shareHeap[T]) Less(i, j int) bool {
	if h[i].v != h[j].v {
		return h[i].v < h[j].v
	}
	return h[i].first == nil || h[j].first != nil && h[i].first.number < h[j].first.number
}

func (h shareHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

// Push and Pop are for container/heap.
func (h *shareHeap[T]) Push(x any) {
	s := x.(*share[T])
	s.pos = len(*h)
	*h = append(*h, s)
}

// Pop takes the last one out.
func (h *shareHeap[T]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	s.pos = -1
	return s
}
