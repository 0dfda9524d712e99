package consumer

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotJoined says that the group has not answered yet.
	ErrNotJoined = errors.New("not in the group yet")
	// ErrEnding says that the worker drains, or has ended.
	ErrEnding = errors.New("the worker is ending")
)

// Ready is nil while the worker is a member of its group, with partitions or
// without, and takes new records: what a readiness probe asks.
func (rt *Runtime) Ready() error {
	switch {
	case rt.ending.Load(), rt.stopped.Load():
		return ErrEnding
	case !rt.joined.Load():
		return ErrNotJoined
	}
	return nil
}

// Healthy is nil unless only a new process helps, which is when every worker
// slot is held by a handler that ignores its deadline: what a liveness probe
// asks. Brokers that do not answer are no reason.
func (rt *Runtime) Healthy() error {
	e := rt.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	late := 0
	for w := range e.workers {
		if since := time.Duration(w.since.Load()); w.running && since != 0 && w.late == since {
			late++
		}
	}
	if e.stuck < e.cfg.Concurrency || late < e.stuck+e.cfg.Concurrency {
		return nil
	}
	return fmt.Errorf("%d handlers: %w", late, ErrStuckHandler)
}
