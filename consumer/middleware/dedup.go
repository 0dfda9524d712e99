package middleware

import (
	"context"
	"sync"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Dedup steps over a record that the window remembers as handled: a repeat by
// the same producer session and sequence, which the partitioner's Producer
// writes into each record. Records without it always pass. onRepeat, if not
// nil, is told of each.
//
// Only what was handled by this process, and is among the last that the window
// holds, is recognized: Window.Forgotten says how many are not any more.
func Dedup(w *Window, onRepeat func(*consumer.Record)) Middleware {
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, r *consumer.Record) error {
			id, ok := identity(r)
			if !ok {
				return next(ctx, r)
			}
			if w.has(id) {
				if onRepeat != nil {
					onRepeat(r)
				}
				return nil
			}
			if err := next(ctx, r); err != nil {
				return err
			}
			w.add(id)
			return nil
		}
	}
}

// recordID is unique among the records of all producers: a resent record has
// the one that it was first sent with.
type recordID struct {
	session [16]byte
	seq     uint64
}

func identity(r *consumer.Record) (recordID, bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key != routing.HeaderRoute {
			continue
		}
		h, err := routing.ParseRouteHeader(r.Headers[i].Value)
		return recordID{h.Session, h.Seq}, err == nil
	}
	return recordID{}, false
}

// Window remembers the last records that were handled, in bounded memory: about
// 100 bytes each.
type Window struct {
	mu sync.Mutex
	// guards the fields below
	known     map[recordID]struct{}
	ring      []recordID // in the order they came; next is the oldest once full
	next      int
	forgotten uint64
}

// NewWindow makes one that remembers n records, at least one.
func NewWindow(n int) *Window {
	n = max(n, 1)
	return &Window{known: make(map[recordID]struct{}), ring: make([]recordID, 0, n)}
}

// Len is how many records it remembers.
func (w *Window) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ring)
}

// Forgotten is how many records it had to forget: a repeat of one of these is
// handled again.
func (w *Window) Forgotten() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forgotten
}

func (w *Window) has(id recordID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.known[id]
	return ok
}

func (w *Window) add(id recordID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.known[id]; ok {
		return
	}
	w.known[id] = struct{}{}
	if len(w.ring) < cap(w.ring) {
		w.ring = append(w.ring, id)
		return
	}
	delete(w.known, w.ring[w.next])
	w.forgotten++
	w.ring[w.next] = id
	w.next = (w.next + 1) % len(w.ring)
}
