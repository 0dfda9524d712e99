package consumer

import (
	"context"
	"sync"
)

// barrier keeps the poll loop and the group's callbacks apart. A fetch that
// the loop holds while partitions change hands must be admitted under the old
// assignment or not at all, so every assign, revoke and lost callback first
// interrupts the poll under way and waits until the loop has put its batch
// away.
//
//	loop:      enter ── poll ── admit ── leave      enter (waits for callbacks) …
//	callback:  ────────── wait: cancels the poll, returns once left ──────────▶
type barrier struct {
	mu sync.Mutex
	// guards the fields below
	cancel context.CancelFunc // of the poll under way; nil between polls
	left   chan struct{}      // closed when that poll's batch is admitted
	asked  bool               // interrupt was called between polls
}

// enter begins one round of the loop and returns the context to poll with.
func (b *barrier) enter(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel = cancel
	b.left = make(chan struct{})
	if b.asked {
		b.asked = false
		cancel()
	}
	return ctx
}

// leave ends the round that enter began; its batch is admitted.
func (b *barrier) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel()
	b.cancel = nil
	close(b.left)
}

// interrupt ends the poll under way, or the next one.
func (b *barrier) interrupt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel == nil {
		b.asked = true
		return
	}
	b.cancel()
}

// wait returns once the loop is between rounds, or was at some time during
// the call: what it polls later was fetched after the callback began.
func (b *barrier) wait() {
	b.mu.Lock()
	cancel, left := b.cancel, b.left
	b.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	<-left
}
