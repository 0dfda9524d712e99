package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// wakeOne wakes a worker, or starts one, if a lane is runnable. A worker that
// finds more than it takes wakes the next, so that no more are awake than find
// work.
func (e *engine) wakeOne() {
	if e.sched.Runnable() == 0 || e.stopping || e.ctx == nil {
		return
	}
	if n := len(e.idle); n > 0 {
		w := e.idle[n-1]
		e.idle[n-1] = nil
		e.idle = e.idle[:n-1]
		w.wake <- struct{}{}
		return
	}
	if len(e.workers)-e.stuck < e.cfg.Concurrency {
		e.startWorker()
	}
}

func (e *engine) startWorker() {
	w := &worker{e: e, wake: make(chan struct{}, 1), leases: newLeases(e.resources)}
	e.workers[w] = struct{}{}
	e.group.Go(w.run)
}

// endWorker notes that w ends.
func (e *engine) endWorker(w *worker) {
	delete(e.workers, w)
	if w.stuck {
		e.stuck--
	}
	if ctx := w.ctx.Load(); ctx != nil {
		ctx.cancel(nil)
	}
	if e.stopping && len(e.workers) == 0 {
		close(e.quiet)
	}
}

// bury settles for a worker whose goroutine was ended by its handler
// (runtime.Goexit, as testing's FailNow does), and lets another take its place.
func (e *engine) bury(w *worker) {
	e.mu.Lock()
	now := e.now()
	r := &w.results[w.ran]
	r.outcome = outcome{verdict: verdictRetry, err: errGoexit}
	r.busy = now - time.Duration(w.since.Load())
	w.ran++
	n := len(w.batch.Grants)
	for i := min(int(w.claimed.Swap(int32(n))), n); i < n; i++ {
		if !e.sched.Release(&w.batch.Grants[i], lane.Result{}, now) {
			e.forget(w.parts[i])
		}
	}
	w.at = now
	todo := e.settle(w)
	e.endWorker(w)
	e.wakeOne()
	e.mu.Unlock()
	run(todo)
}

// start lets workers run handlers under ctx, whose end is their "stop now".
func (e *engine) start(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ctx = ctx
	e.wakeOne()
}

// stop ends all workers. Handlings still under way are canceled, and after
// the grace they are left behind: the error says so.
func (e *engine) stop(cancel func(), grace time.Duration) error {
	e.mu.Lock()
	e.stopping = true
	for _, w := range e.idle {
		w.wake <- struct{}{}
	}
	e.idle = nil
	if len(e.workers) == 0 {
		close(e.quiet)
	}
	e.mu.Unlock()
	cancel()
	if !await(e.quiet, grace) {
		return e.stuckError()
	}
	e.group.Wait()
	return nil
}

// await waits for done, at most d. It says whether done came.
func await(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// ErrStuckHandler is wrapped by the error that Run returns when handlers did
// not return although their contexts had ended. Their goroutines are left
// behind: end the process.
var ErrStuckHandler = errors.New("handler does not return")

func (e *engine) stuckError() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.workers {
		p := w.part.Load()
		return fmt.Errorf("topic %s partition %d (%d handlers in all): %w", p.topic, p.id, len(e.workers), ErrStuckHandler)
	}
	return nil
}

// cancel ends the context of a handling of p.
func (w *worker) cancel(p *partition, why error) {
	if w.running && w.since.Load() != 0 && w.part.Load() == p {
		w.ctx.Load().cancel(why)
	}
}
