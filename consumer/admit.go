package consumer

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/offset"
)

const (
	// admitChunk is how many records are admitted under one lock.
	admitChunk = 256
	// copyChunk is how many are while they are copied: workers whose handlers
	// are slow come back one by one, and each waits for the lock.
	copyChunk = 32
)

// Errors that stop a partition: nothing more of it is admitted or committed
// until it is assigned anew.
var (
	// ErrUnknownControl is a tl-control record of a kind that this version
	// does not know: what it means for the records behind it is unknown too.
	ErrUnknownControl = errors.New("control record of an unknown kind")
	// ErrNoTenant is a record without a tenant under NoTenantError.
	ErrNoTenant = errors.New("record without a tenant")
)

var errPartitionGone = errors.New("partition is not owned any more")

// admission is the poll loop's own memory for admitting.
type admission struct {
	stage   stage
	claims  claims
	scratch []byte
	touched byte // so that touch is not optimized away
}

// opened is the assignment of a partition that is open, or nil.
func (e *engine) opened(tp topicPartition) *partition {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.parts[tp]
}

// admit puts records of one fetched partition into their lanes. It never waits
// for a worker. Records of an assignment that is not open any more are dropped.
func (e *engine) admit(a *admission, topic string, of *partition, fp *kgo.FetchPartition) {
	var parts []part
	if e.slabs != nil {
		parts = a.claims.follow(e.slabs, fp.Records)
	}
	p := e.admissible(topic, of, fp)
	if p == nil {
		return
	}
	in := &arrival{at: e.now(), copies: e.slow.Load(), left: len(fp.Records), parts: parts}
	rt, chunk := (*e.routes.Load())[topic], admitChunk
	if in.copies {
		chunk = copyChunk
	}
	for records := fp.Records; len(records) > 0; {
		n := min(len(records), chunk)
		if !e.push(a, rt, p, in, records[:n]) {
			return
		}
		records = records[n:]
		if in.copies {
			runtime.Gosched() // workers that came back wait for this goroutine's processor
		}
	}
	e.admitted(in)
}

// admitted notes that no record of an arrival is left to be admitted.
func (e *engine) admitted(in *arrival) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if in.copies || in.left == 0 {
		e.giveUpSlabs(in)
	}
}

// admissible is the open partition that the fetch is for, after it has handled
// a log that went back.
func (e *engine) admissible(topic string, p *partition, fp *kgo.FetchPartition) *partition {
	e.mu.Lock()
	defer e.mu.Unlock()
	for p != nil && p.anew != nil {
		p = p.anew
	}
	if p == nil || p.gone.Load() || p.stopped != nil {
		e.metrics.notOwned.WithLabelValues(topic).Add(float64(len(fp.Records)))
		return nil
	}
	if p.waitsForTable(fp) {
		return nil
	}
	p.end = fp.HighWatermark
	if len(fp.Records) == 0 {
		return nil
	}
	first := fp.Records[0].Offset
	if p.progress == nil {
		p.progress = offset.NewTracker(first)
	}
	if first < p.progress.Next() {
		p = e.resetLocked(p, first)
	}
	e.countOvertaken(p, min(first, fp.LogStartOffset))
	return p
}

// countOvertaken counts the offsets that retention deleted before the cursor
// came there. Those of them that compaction had taken cannot be told apart.
func (e *engine) countOvertaken(p *partition, start int64) {
	lost := start - p.progress.Next()
	if lost <= 0 {
		return
	}
	e.metrics.lost.WithLabelValues(p.topic, p.label()).Add(float64(lost))
	e.log.Error("records were deleted by retention before they were read",
		zap.String("topic", p.topic), zap.Int32("partition", p.id), zap.Int64("offset", start), zap.Int64("records", lost))
}

// resetLocked begins a partition anew at a lower offset: the log is not the
// one that was read. What is buffered, and what is in hand, is dropped.
func (e *engine) resetLocked(p *partition, at int64) *partition {
	e.log.Warn("partition begins anew",
		zap.String("topic", p.topic), zap.Int32("partition", p.id),
		zap.Int64("offset", at), zap.Int64("expected", p.progress.Next()))
	e.metrics.resets.WithLabelValues(p.topic, p.label()).Inc()
	end := p.end
	old := p
	p = e.openLocked(p.topicPartition, begin{
		offset: at, epoch: -1, committed: unknownOffset, instant: p.instant, identity: p.identity,
	}, p.token.Generation)
	e.carryMoves(p, old)
	p.end, old.anew = end, p
	return p
}

// touch reads what admission will read of each record. The records were decoded
// on another processor: a loop that does nothing else waits for many of them at
// once, and not, with the lock held, for one after the other.
func (a *admission) touch(records []*kgo.Record) {
	var sum byte
	for _, r := range records {
		sum ^= byte(r.Offset) ^ byte(r.ProducerEpoch) // a record spans three cache lines
		if key := r.Key; len(key) > 0 {
			sum ^= key[0]
		}
	}
	a.touched = sum
}

// push admits some records under one lock; false when the partition was closed
// or stopped in between.
func (e *engine) push(a *admission, rt *route, p *partition, in *arrival, records []*kgo.Record) bool {
	a.touch(records)
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.gone.Load() {
		return false
	}
	e.limitLanes()
	fields, open := 0, true
	scratch := a.scratch
	var c classified
	for _, r := range records {
		scratch = rt.classify(&c, r, p.rule, scratch[:0])
		fields += c.fields
		if open = e.pushOne(p, in, &c); !open {
			break
		}
	}
	a.scratch = scratch
	if !in.copies {
		e.hold(p, in.charge(fields, len(records), open))
	}
	e.size = int64(fields/len(records) + recordOverhead)
	e.wakeOne()
	if open {
		last := records[len(records)-1]
		p.progress.Admitted(last.Offset+1, last.LeaderEpoch)
		e.passFirst(p, fields+framing*len(records))
	}
	return open
}

// laneWait is how long what a lane has may be expected to take before it
// overflows at its bound: a burst that is handled in a moment is not read twice.
const laneWait = 50 * time.Millisecond

// limitLanes lets a lane have half of the worker while half is free, and no
// more than its own bound otherwise. While the worker is full in spite of that,
// as when a handler hangs whose tenant's used to be fast, nothing is excused.
func (e *engine) limitLanes() {
	switch {
	case e.now() < e.strict:
		e.sched.LimitLanes(e.cfg.LaneRecords, e.cfg.LaneBytes, 0)
	case e.sched.Records() <= e.cfg.MaxRecords/2 && e.held <= e.cfg.MaxBytes/2:
		e.sched.LimitLanes(max(e.cfg.MaxRecords/2, e.cfg.LaneRecords), max(e.cfg.MaxBytes/2, e.cfg.LaneBytes), laneWait)
	default:
		e.sched.LimitLanes(e.cfg.LaneRecords, e.cfg.LaneBytes, laneWait)
	}
}

// pushOne admits a record, steps over it, or stops the partition at it.
func (e *engine) pushOne(p *partition, in *arrival, c *classified) bool {
	if c.class != classLane && !e.pushOther(p, c) {
		in.pass()
		return p.stopped == nil
	}
	if p.progress.Recovering() {
		if from, ok := p.progress.Claim(offset.Name(c.id.Key)); ok {
			e.sched.Skip(p.lanes, c.id, from, c.rec.Offset)
			in.pass()
			return true
		}
	}
	stray := false
	if c.class == classLane && (p.watched || c.epoch > p.known) {
		var wait *lane.Gate
		var f *fault
		switch wait, f, stray = e.ruleOn(p, c); {
		case wait != nil:
			e.sched.Gate(p.lanes, &c.id, *wait)
			in.pass()
			return true
		case f != nil:
			in.pass()
			in = &arrival{at: in.at, copies: true, fault: f}
		}
	}
	it := c.costed(in, e.cfg.Cost)
	if in.copies {
		// Where handlers are slow a record waits, and a copy of it, which
		// pins no fetch, costs little beside its handling. Most of a backlog
		// is skipped and needs none.
		it.Rec.rec = e.copies.next(c.fields)
	}
	if e.sched.PushTo(p.lanes, &c.id, &it) != lane.Queued {
		e.skipped(p)
		if in.fault == nil {
			in.pass()
		}
		return true
	}
	if stray {
		e.metrics.stale.WithLabelValues(p.topic, staleHandled).Inc()
	}
	if in.copies {
		e.copies.fill(c.rec)
		e.hold(p, int64(it.Bytes))
	}
	return true
}

// pushOther deals with a record that has no tenant's lane. It says whether it
// goes into one nevertheless.
func (e *engine) pushOther(p *partition, c *classified) bool {
	switch c.class {
	case classUnknown:
		e.stopAt(p, c.rec, ErrUnknownControl)
		return false
	case classControl:
		e.meetControl(p, c.rec)
		fallthrough
	case classMarker:
		e.metrics.control.WithLabelValues(p.topic).Inc()
		return false
	}
	e.metrics.noTenant.WithLabelValues(p.topic).Inc()
	switch e.cfg.NoTenant {
	case NoTenantError:
		e.stopAt(p, c.rec, ErrNoTenant)
		return false
	case NoTenantSkip:
		return false
	}
	return true
}

// hold charges p with bytes that it keeps in memory; a negative number frees.
func (e *engine) hold(p *partition, bytes int64) {
	p.held += bytes
	e.held += bytes
}

// stopAt stops a partition before a record that must not be passed.
func (e *engine) stopAt(p *partition, r *kgo.Record, why error) {
	p.progress.Admitted(r.Offset, r.LeaderEpoch)
	p.stopped = fmt.Errorf("topic %s partition %d offset %d: %w", p.topic, p.id, r.Offset, why)
	e.metrics.stops.WithLabelValues(p.topic, p.label()).Inc()
	e.log.Error("partition stopped", zap.String("topic", p.topic), zap.Int32("partition", p.id),
		zap.Int64("offset", r.Offset), zap.Error(why))
	e.wakeOne()
}
