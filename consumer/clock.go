package consumer

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

const (
	// strandTime is how long a handling may take before the other lanes that
	// its worker has taken are given to others.
	strandTime = 5 * time.Millisecond
	// stuckGrace is how long after its deadline a handler has until it counts
	// as stuck and its worker slot is given back.
	stuckGrace = time.Second
	// tickFloor is the least time between two looks of the clock.
	tickFloor = time.Millisecond
)

// clock does what has to happen at a time: it lets lanes and tenants run when
// their waits are over, ends handlings at their deadlines, and writes dead
// letters again. One goroutine and one timer serve all records.
func (e *engine) clock(ctx context.Context) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		timer.Reset(e.tick())
		select {
		case <-ctx.Done():
			return
		case <-e.poke:
		case <-timer.C:
		}
	}
}

// tick does what is due and returns how long it is until the next look.
func (e *engine) tick() time.Duration {
	e.mu.Lock()
	now := e.now()
	e.sched.Advance(now)
	e.armed = never
	if due, ok := e.sched.NextWake(); ok {
		e.armed = due
	}
	e.watch(now)
	letters := e.dueLetters(now)
	e.wakeOne()
	wait := never
	if e.armed != never {
		wait = max(e.armed-now, tickFloor)
	}
	e.mu.Unlock()
	for _, f := range letters {
		e.post(f.failure)
	}
	return wait
}

// rearmAt makes sure that the clock looks no later than due.
func (e *engine) rearmAt(due time.Duration) {
	if due >= e.armed {
		return
	}
	e.armed = due
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

// rearm sets the clock after a Take of n grants.
func (e *engine) rearm(now time.Duration, n int) {
	if due, ok := e.sched.NextWake(); ok {
		e.rearmAt(due)
	}
	if n > 1 {
		e.rearmAt(now + strandTime)
	}
	if n > 0 && e.cfg.HandlerTimeout > 0 {
		e.rearmAt(now + e.cfg.HandlerTimeout)
	}
}

// watch looks at the handlings under way.
func (e *engine) watch(now time.Duration) {
	for w := range e.workers {
		since := time.Duration(w.since.Load())
		if since == 0 || !w.running {
			continue
		}
		e.giveBack(w, since, now)
		if e.cfg.HandlerTimeout > 0 {
			e.watchDeadline(w, since, now)
		}
	}
}

// giveBack returns the lanes that w has taken and not begun, when the handler
// of an earlier one turns out to be slow, so that nobody is stranded.
func (e *engine) giveBack(w *worker, since, now time.Duration) {
	n := len(w.batch.Grants)
	if int(w.claimed.Load()) >= n {
		return
	}
	if now-since < strandTime {
		e.armed = min(e.armed, since+strandTime)
		return
	}
	for i := int(w.claimed.Swap(int32(n))); i < n; i++ {
		w.upTo = min(w.upTo, i)
		if !e.sched.Release(&w.batch.Grants[i], lane.Result{}, now) {
			e.forget(w.parts[i])
		}
	}
}

// watchDeadline ends a handling's context at its deadline, and gives the
// worker's slot to another one if the handler does not heed it. Its lane stays
// locked, so that order holds.
func (e *engine) watchDeadline(w *worker, since, now time.Duration) {
	deadline := since + e.cfg.HandlerTimeout
	switch {
	case now < deadline:
		e.armed = min(e.armed, deadline)
	case w.late != since:
		w.late = since
		p, ctx := w.part.Load(), w.ctx.Load()
		ctx.cancel(context.DeadlineExceeded)
		e.metrics.timeouts.WithLabelValues(p.topic).Inc()
		e.log.Warn("handler reached its deadline", zap.String("topic", p.topic), zap.Int32("partition", p.id),
			zap.Duration("timeout", e.cfg.HandlerTimeout))
		e.armed = min(e.armed, now+stuckGrace)
	case now < deadline+stuckGrace:
		e.armed = min(e.armed, deadline+stuckGrace)
	case !w.stuck && e.stuck < e.cfg.Concurrency:
		w.stuck = true
		e.stuck++
		p := w.part.Load()
		e.log.Error("handler ignores its deadline: its worker slot is given to another",
			zap.String("topic", p.topic), zap.Int32("partition", p.id), zap.Duration("age", now-since))
	}
}

// dueLetters takes out the dead letters to write again, and arms for the rest.
func (e *engine) dueLetters(now time.Duration) []failedLetter {
	var due []failedLetter
	keep := e.failed[:0]
	for _, f := range e.failed {
		if f.p.gone.Load() {
			continue // whoever has the partition now repeats the record
		}
		if f.due <= now {
			due = append(due, f)
			continue
		}
		keep = append(keep, f)
		e.armed = min(e.armed, f.due)
	}
	clear(e.failed[len(keep):])
	e.failed = keep
	return due
}
