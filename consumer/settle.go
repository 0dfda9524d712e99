package consumer

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

var errGoexit = errors.New("handler ended its goroutine")

// take settles what w has done and gives it more, waiting for it if need be.
// It is false when w is to end.
func (e *engine) take(w *worker) bool {
	var todo []func()
	e.mu.Lock()
	w.at = e.now()
	if w.running {
		todo = e.settle(w)
	}
	for {
		if e.stopping || w.stuck {
			e.endWorker(w)
			e.wakeOne()
			e.mu.Unlock()
			run(todo)
			return false
		}
		spent := e.takeSpent()
		if e.grant(w) {
			e.mu.Unlock()
			e.slabs.put(spent)
			if len(todo) > 0 {
				run(todo)
				w.at = e.now()
			}
			return true
		}
		w.rest()
		e.idle = append(e.idle, w)
		e.mu.Unlock()
		e.slabs.put(spent)
		run(todo)
		todo = nil
		<-w.wake
		e.mu.Lock()
		w.at = e.now()
	}
}

// run does what must not be done under the lock.
func run(todo []func()) {
	for _, f := range todo {
		f()
	}
}

// grant takes runnable lanes for w, and passes the word on if there are more.
func (e *engine) grant(w *worker) bool {
	if e.ctx.Err() != nil {
		return false // a handler would be canceled at once, and come back as fast
	}
	now := w.at
	n := e.sched.Take(now, takeMost, &w.batch)
	e.rearm(now, n)
	if n == 0 {
		return false
	}
	w.parts = w.parts[:0]
	for i := range w.batch.Grants {
		w.parts = append(w.parts, e.byLanes[w.batch.Grants[i].Partition()])
	}
	w.results = append(w.results[:0], make([]result, n)...)
	w.claimed.Store(0)
	w.running, w.upTo, w.settled, w.ran = true, n, 0, 0
	w.part.Store(w.parts[0])
	w.early = append(w.early[:0], make([]int, n)...)
	w.begin(now, &result{}) // the clock may look before the first handling begins
	if e.sched.Runnable() > 0 {
		e.wakeOne()
	}
	return true
}

// settle notes what became of w's grants.
func (e *engine) settle(w *worker) (todo []func()) {
	w.running = false
	todo = e.settleUpTo(w, min(w.ran, w.upTo), w.at)
	e.signalRoom()
	if e.draining > 0 {
		e.signalChanged()
	}
	if len(e.behind) > 0 {
		e.stir()
	}
	return todo
}

// settleUpTo settles the grants below n that are not settled yet.
func (e *engine) settleUpTo(w *worker, n int, now time.Duration) (todo []func()) {
	for ; w.settled < n; w.settled++ {
		i := w.settled
		g, p, r := &w.batch.Grants[i], w.parts[i], &w.results[i]
		items := g.Items
		res, after := e.judgeGrant(g, p, r)
		e.observe(g, r)
		var ref lane.Ref[entry]
		if len(p.leaves) > 0 {
			ref = g.Ref(0)
		}
		if !e.sched.Release(g, res, now) {
			e.forget(p)
			continue
		}
		e.finished(p, items, w.early[i], r.done)
		if len(p.leaves) > 0 && r.done > 0 {
			e.leftBehind(p, ref, items[0].Offset)
		}
		if after != nil {
			todo = append(todo, after)
		}
	}
	e.rearm(now, 0) // this worker may not take anything next
	return todo
}

// finished notes that items[from:to] are done.
func (e *engine) finished(p *partition, items []lane.Item[entry], from, to int) {
	p.handled += uint64(to - from)
	var freed int64
	for i := from; i < to; i++ {
		in := items[i].Rec.in
		freed += in.freed(&items[i])
		if in.left == 0 {
			e.giveUpSlabs(in)
		}
	}
	e.hold(p, -freed)
}

// harvest settles what workers have done of what they still hold, so that a
// commit is no older than its snapshot, also behind a handler that hangs.
func (e *engine) harvest() (todo []func()) {
	now := e.now()
	for w := range e.workers {
		if !w.running {
			continue
		}
		done := w.done.Load() // the results of the grants before it were written earlier
		i, n := int(done>>32), int(done&(1<<32-1))
		todo = append(todo, e.settleUpTo(w, min(i, w.upTo), now)...)
		g := &w.batch.Grants[i]
		if k := e.sched.Report(g, n); k > 0 {
			e.finished(w.parts[i], g.Items, w.early[i], w.early[i]+k)
			w.early[i] += k
		}
	}
	e.wakeOne() // lanes that were not left empty
	e.signalRoom()
	return todo
}

// forget drops a closed partition once nothing of it is in hand.
func (e *engine) forget(p *partition) {
	if p.lanes.InHand() == 0 {
		delete(e.byLanes, p.lanes)
	}
}

// observe feeds the histograms and the mean.
func (e *engine) observe(g *lane.Grant[entry], r *result) {
	n := r.done
	if r.outcome.verdict != verdictDone {
		n++
	}
	if n == 0 {
		return
	}
	tier := g.Tier()
	t := e.tiers[tier]
	if t == nil {
		t = &tierTimes{}
		e.tiers[tier] = t
	}
	each := r.busy.Seconds() / float64(n)
	t.handler.observe(each, uint64(n))
	t.queue.observe(r.queued.Seconds(), 1)
	e.mean += (each - e.mean) * min(float64(n)/64, 0.5)
	e.slow.Store(e.mean > slow)
	e.cheap.Store(e.mean < cheap)
}

// slow is the mean handler time, in seconds, above which records are copied
// when they are admitted: it is a hundred times what a copy of 1 KiB takes.
const slow = 50e-6

// judgeGrant says how the lane goes on, and what is to be done about it after
// the lock is released.
func (e *engine) judgeGrant(g *lane.Grant[entry], p *partition, r *result) (lane.Result, func()) {
	res := lane.Result{Done: r.done, Busy: r.busy}
	if r.outcome.verdict == verdictDone || r.outcome.verdict == verdictAborted || p.gone.Load() {
		return res, nil
	}
	it := &g.Items[r.done]
	it.Rec.in.kept = true
	f := failure{p: p, in: it.Rec, bytes: it.Bytes, attempts: r.attempts, err: r.outcome.err}
	switch r.outcome.verdict {
	case verdictRetryAfter:
		delay := r.outcome.after // r is the next grant's once the lock is released
		res.Outcome, res.Delay, res.Uncounted = lane.Retry, delay, true
		return res, func() { e.logRetry(&f, delay) }
	case verdictQuarantine:
		res.Outcome = lane.Hold
		f.lane, f.stale = g.Ref(r.done), it.Rec.in.fault.stale
		e.wantQuarantine(p.topic)
		return res, func() { e.post(&f) }
	case verdictForeign:
		res.Outcome = lane.Park
		return res, func() { e.logForeign(&f) }
	case verdictRetry:
		if e.cfg.Retry.Attempts == 0 || r.attempts < e.cfg.Retry.Attempts {
			delay := e.cfg.Retry.backoff(r.attempts)
			res.Outcome, res.Delay = lane.Retry, delay
			return res, func() { e.logRetry(&f, delay) }
		}
	}
	if r.outcome.verdict == verdictDeadLetter || e.cfg.Retry.Exhausted == DeadLetter {
		res.Outcome = lane.Hold
		f.lane = g.Ref(r.done)
		return res, func() { e.post(&f) }
	}
	res.Outcome = lane.Park
	return res, func() { e.logPark(&f) }
}

// failure is a record that was not handled.
type failure struct {
	p        *partition
	in       entry
	bytes    int32
	attempts int
	err      error
	lane     lane.Ref[entry] // held for its dead letter
	stale    *Staleness      // its letter goes to the quarantine topic
	tries    int             // failed writes of its letter
	late     *surrender      // instead of one record
}

// post writes a dead letter; its lane is held until it is acknowledged, and
// goes on then. A write that failed is repeated by the clock.
func (e *engine) post(f *failure) {
	if f.late != nil {
		e.writeLate(f.late)
		return
	}
	r, to := f.in.rec, e.letterTopic(f)
	if f.stale != nil {
		e.letters(Quarantined(r, to, e.cfg.Group, *f.stale), func(err error) { e.posted(f, err) })
		return
	}
	letter := deadLetter(r, to, e.cfg.Group, f.attempts, f.err)
	e.letters(letter, func(err error) { e.posted(f, err) })
}

// letterTopic takes the record's letter.
func (e *engine) letterTopic(f *failure) string {
	topic := f.in.rec.Topic
	if f.stale != nil {
		return topic + QuarantineSuffix
	}
	return e.cfg.DeadLetterTopic(topic)
}

func (e *engine) posted(f *failure, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		f.tries++
		due := e.now() + e.cfg.Retry.backoff(f.tries)
		e.metrics.deadErrs.WithLabelValues(f.p.topic).Inc()
		e.log.Error("writing a dead letter", f.fields(zap.String("to", e.letterTopic(f)), zap.NamedError("cause", f.err), zap.Error(err))...)
		e.failed = append(e.failed, failedLetter{f, due})
		e.rearmAt(due)
		return
	}
	if !e.sched.Unhold(f.lane, 1) {
		return // the partition was taken away: whoever has it now repeats it
	}
	f.p.handled++
	e.hold(f.p, -f.in.in.freed(&lane.Item[entry]{Rec: f.in, Bytes: f.bytes}))
	if f.stale != nil {
		e.quarantined(f)
	} else {
		e.metrics.deadLetters.WithLabelValues(f.p.topic).Inc()
		e.sampled.Warn("record dead-lettered", f.fields(zap.Int("attempts", f.attempts), zap.Error(f.err))...)
	}
	if len(f.p.leaves) > 0 {
		e.moves.kick()
	}
	e.wakeOne()
	e.signalRoom()
	e.signalChanged()
	e.stir() // the lane may have nothing left in memory
}

// failedLetter is a dead letter to write again.
type failedLetter struct {
	*failure
	due time.Duration
}

func (f *failure) fields(more ...zap.Field) []zap.Field {
	r := f.in.rec
	return append(more, zap.String("topic", r.Topic), zap.Int32("partition", r.Partition), zap.Int64("offset", r.Offset),
		zap.ByteString("tenant", tenantOf(f.p, r)))
}
