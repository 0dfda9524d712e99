package consumer

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

const (
	// laneTime is how long a worker stays with one lane.
	laneTime = time.Millisecond
	// batchTime is how long a batch may be expected to take: in practice
	// BatchSize alone bounds it.
	batchTime = time.Minute
	// cheapRun is how many records are handled between two looks at the
	// clock while a look would cost about as much as a handling. A handler
	// that hangs hides at most so many done records from a commit.
	cheapRun = 16
	// cheap is the mean handler time, in seconds, below which that is so.
	cheap = 2e-6
	// takeMost is the most lanes that a worker takes at a time.
	takeMost = 64
)

// worker is one of the goroutines that run handlers. What it takes is its own
// until it settles, but for grants that it has not claimed yet: when a handler
// turns out to be slow, the clock gives those back.
type worker struct {
	e      *engine
	wake   chan struct{} // a token when there may be work, or the end
	leases *leases       // of the running handling

	batch   lane.Batch[entry]
	parts   []*partition  // of batch.Grants
	results []result      // of batch.Grants; those below ran are filled in
	ran     int           // grants run
	at      time.Duration // when it last looked at the engine's clock: between two handlings it looks once
	record  Record
	records []Record  // of a batch
	rs      []*Record // into records

	claimed atomic.Int32                   // grants begun, or given back
	done    atomic.Uint64                  // grant and count of its records that are done, for harvest
	since   atomic.Int64                   // when the running handling began, on the engine's clock; 0: none runs
	ctx     atomic.Pointer[handlerContext] // of the running handling
	part    atomic.Pointer[partition]      // of the running handling

	// guarded by engine.mu:
	running bool          // between taking and settling
	upTo    int           // grants from here on were given back
	settled int           // grants below were settled while a later one ran
	early   []int         // of each grant: records settled before it was released
	late    time.Duration // since, of the handling whose deadline has passed
	stuck   bool          // its slot was given back; it ends when it settles
}

// result is what became of a grant.
type result struct {
	index    int // of the grant
	done     int
	skipped  int
	attempts int     // handlings of the record after the done ones
	outcome  outcome // of it; verdictDone: it was not handled, or aborted
	busy     time.Duration
	queued   time.Duration // how long the first record waited
}

// run works until the engine stops or the worker's slot was given away.
func (w *worker) run() {
	ended := false
	defer func() {
		if !ended { // runtime.Goexit in a handler
			w.leases.end()
			w.e.bury(w)
		}
	}()
	for w.e.take(w) {
		for {
			i := int(w.claimed.Add(1)) - 1
			if i >= len(w.batch.Grants) {
				break
			}
			w.results[i].index = i
			w.runGrant(&w.batch.Grants[i], w.parts[i], &w.results[i])
			w.ran = i + 1
		}
		w.since.Store(0)
	}
	ended = true
}

// rest forgets the records that w handled last: one that an idle worker keeps
// pins the whole response that it was fetched with, tens of megabytes.
func (w *worker) rest() {
	w.record = Record{}
	clear(w.records)
}

// runGrant handles records of one lane, one after the other, until one is not
// done or the lane has had its time.
func (w *worker) runGrant(g *lane.Grant[entry], p *partition, r *result) {
	begin := w.at
	r.queued = begin - g.Items[0].Rec.in.at
	if r.index > 0 {
		w.part.Store(p)
		w.begin(begin, r)
	} // else grant did, with the lock held
	if w.e.batch != nil {
		w.handleBatch(g, p, r)
	} else {
		w.handle(g, p, r, begin)
	}
	w.at = w.e.now()
	r.busy = w.at - begin
}

// begin notes that a handling begins, and what of the grant is done before it.
// It renews a context that has ended.
func (w *worker) begin(now time.Duration, r *result) {
	w.done.Store(uint64(r.index)<<32 | uint64(r.done))
	ctx := w.ctx.Load()
	if ctx == nil || ctx.Context.Err() != nil {
		ctx = newHandlerContext(w.e.ctx)
		w.ctx.Store(ctx)
	}
	if w.e.cfg.HandlerTimeout > 0 {
		ctx.until.Store(w.e.began.Add(now + w.e.cfg.HandlerTimeout).UnixNano())
	}
	w.since.Store(int64(now))
}

func (w *worker) handle(g *lane.Grant[entry], p *partition, r *result, begin time.Duration) {
	defer w.recover(r)
	r.attempts = g.Attempt
	look := 1
	if w.e.cheap.Load() {
		look = cheapRun
	}
	tenant := tenantName(g)
	for r.done < len(g.Items) && !p.gone.Load() {
		r.attempts++
		out := w.handleOne(g.Items[r.done].Rec, tenant, p, r.attempts)
		if out.verdict != verdictDone && out.verdict != verdictSkip {
			r.outcome = out
			return
		}
		if out.verdict == verdictSkip {
			r.skipped++
		}
		r.done++
		r.attempts = 0
		if r.done%look == 0 && r.done < len(g.Items) {
			now := w.e.now()
			if now-begin >= laneTime {
				return
			}
			w.begin(now, r)
		}
	}
}

// errNoProgress is a BatchHandler's answer that would be repeated for ever.
var errNoProgress = errors.New("batch handler finished nothing and returned no error")

// handleBatch hands all records of a grant over at once.
func (w *worker) handleBatch(g *lane.Grant[entry], p *partition, r *result) {
	defer w.recover(r)
	tenant := tenantName(g)
	if tenant == nil && w.e.cfg.NoTenant == NoTenantDeadLetter {
		r.outcome = outcome{verdict: verdictDeadLetter, err: ErrNoTenant}
		return
	}
	items := g.Items[:faultAt(g.Items, 0)]
	if len(items) == 0 {
		r.attempts, r.outcome = g.Attempt+1, g.Items[0].Rec.in.fault.outcome()
		return
	}
	w.records, w.rs = w.records[:0], w.rs[:0]
	for i := range items {
		w.records = append(w.records, Record{Record: g.Items[i].Rec.rec, Tenant: tenant, Attempt: 1, Token: p.token, leases: w.leases})
	}
	w.records[0].Attempt += g.Attempt
	for i := range w.records {
		w.rs = append(w.rs, &w.records[i])
	}
	r.attempts = g.Attempt + 1 // until the first is done
	ctx := w.ctx.Load()
	done, err := w.e.batch(ctx, w.rs)
	w.leases.end()
	r.done = min(max(done, 0), len(items))
	if r.done > 0 {
		r.attempts = 1
	}
	if err == nil && r.done == 0 {
		err = errNoProgress
	}
	if err == nil || r.done == len(items) {
		return
	}
	r.outcome = w.judge(ctx, p, &w.records[r.done], err)
	if r.outcome.verdict == verdictSkip {
		r.done, r.skipped, r.outcome = r.done+1, 1, outcome{}
	}
}

// tenantName is a grant's tenant, nil for records without one.
func tenantName(g *lane.Grant[entry]) []byte {
	if tenant := g.Tenant(); len(tenant) > 0 {
		return tenant
	}
	return nil
}

func (w *worker) handleOne(in entry, tenant []byte, p *partition, attempt int) outcome {
	if in.in.fault != nil {
		return in.in.fault.outcome()
	}
	if tenant == nil && w.e.cfg.NoTenant == NoTenantDeadLetter {
		return outcome{verdict: verdictDeadLetter, err: ErrNoTenant}
	}
	w.record.Record = in.rec // the handler may have changed any of these
	w.record.Tenant = tenant
	w.record.Attempt = attempt
	w.record.Token = p.token
	w.record.leases = w.leases
	ctx := w.ctx.Load()
	err := w.e.handler(ctx, &w.record)
	w.leases.end()
	if err == nil {
		return outcome{}
	}
	return w.judge(ctx, p, &w.record, err)
}

// judge sorts an error that a handler returned.
func (w *worker) judge(ctx *handlerContext, p *partition, r *Record, err error) outcome {
	if ctx.Context.Err() != nil && !errors.Is(context.Cause(ctx.Context), context.DeadlineExceeded) {
		return outcome{verdict: verdictAborted, err: err} // the stop is no fault of the record
	}
	out := judge(err)
	if out.verdict == verdictSkip {
		w.e.logSkip(p, r, err)
	}
	return out
}

// recover turns a panic into the error of the record that was being handled.
func (w *worker) recover(r *result) {
	if v := recover(); v != nil {
		w.leases.end()
		r.outcome = outcome{verdict: verdictRetry, err: &PanicError{Value: v, Stack: debug.Stack()}}
	}
}

// backoff is the wait before the attempt after the given number of failed ones:
// drawn evenly from the upper half of min(Max, Min·2^(failed−1)).
func (r *Retry) backoff(failed int) time.Duration {
	d := r.Max
	if shift := failed - 1; shift < 62 && r.Min <= r.Max>>shift {
		d = r.Min << shift
	}
	return d - time.Duration(rand.Int64N(int64(d/2)+1))
}
