package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/consumer/refetch"
)

const (
	// rereadBytes is about how much one re-read asks for.
	rereadBytes = 256 << 10
	// rereadRate is what a partition may always read again, in bytes a second.
	rereadRate = 1 << 20
	// rereadSaved is the most that it may save up.
	rereadSaved = 16 << 20
	// rereadPause is the wait after a failed re-read, and for tokens.
	rereadPause = 50 * time.Millisecond
	// rereaders is how many re-reads run at once.
	rereaders = 4
)

// reader reads a partition's log again; refetch.Reader is one.
type reader interface {
	Read(ctx context.Context, topic string, partition int32, from int64, maxBytes int32) (refetch.Chunk, error)
}

// rereads is what a partition knows of its re-reads. The engine's lock guards
// it.
//
//	tail:  from the lowest offset that a runnable lane, or a name of the last
//	       commit, waits for; it waits for a lane that is full
//	scout: while it waits, from what a starved lane waits for, until that lane
//	       is full; it, and a tail that goes back, spend tokens
type rereads struct {
	running bool
	tail    int64          // up to here the tail has read
	kept    *refetch.Chunk // read, and not offered to its end since a lane was full
	tokens  float64        // bytes
	at      time.Duration  // when tokens held
	after   time.Duration  // not before, since the last one failed
	far     bool           // the cursor must wait: a lane is too far behind
}

// allow adds tokens for records that were read for the first time.
func (r *rereads) allow(chunk []classified, ratio float64) {
	if ratio <= 0 {
		return
	}
	for i := range chunk {
		r.tokens += ratio * float64(chunk[i].bytes)
	}
	r.tokens = min(r.tokens, rereadSaved)
}

func (r *rereads) refill(now time.Duration) {
	r.tokens = min(r.tokens+rereadRate*(now-r.at).Seconds(), rereadSaved)
	r.at = now
}

// job is one re-read.
type job struct {
	p     *partition
	from  int64
	scout bool
	kept  *refetch.Chunk // instead of reading
}

// skipped notes that p has something to re-read.
func (e *engine) skipped(p *partition) {
	if _, ok := e.behind[p]; !ok {
		e.behind[p] = struct{}{}
	}
	e.signalHungry()
}

func (e *engine) signalHungry() {
	select {
	case e.hungry <- struct{}{}:
	default:
	}
}

// reread brings back what the main cursor skipped, until ctx ends.
func (e *engine) reread(ctx context.Context, r reader) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for ctx.Err() == nil {
		j, wait := e.nextJob()
		if j != nil {
			e.signalHungry() // there may be more, for another goroutine
			e.doJob(ctx, r, j)
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-e.hungry:
		case <-timer.C:
		}
	}
}

// nextJob chooses what to re-read, or says how long nothing is due for sure.
func (e *engine) nextJob() (*job, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, wait := e.now(), never
	for p := range e.behind {
		if p.rereads.running {
			continue
		}
		if p.rereads.after > now {
			wait = min(wait, p.rereads.after-now)
			continue
		}
		j, later := e.plan(p, now)
		if j != nil {
			p.rereads.running = true
			return j, 0
		}
		if later {
			wait = min(wait, rereadPause)
		}
	}
	return nil, wait
}

// plan chooses p's next re-read. later says that there is one that waits for
// tokens.
func (e *engine) plan(p *partition, now time.Duration) (j *job, later bool) {
	r := &p.rereads
	r.refill(now)
	name, named := p.progress.FirstName()
	e.overflows = e.sched.Overflows(p.lanes, e.overflows[:0])
	if !named && len(e.overflows) == 0 {
		delete(e.behind, p)
		e.setFar(p, false)
		return nil, false
	}
	low := lowest(e.overflows)
	if low != nil {
		e.setFar(p, p.progress.Next()-low.First > e.cfg.MaxDistance)
	}
	switch {
	case named && (low == nil || name <= low.First):
		return r.tailFrom(p, name)
	case low == nil:
		e.setFar(p, false)
		return nil, false
	case e.starved(low):
		return r.tailFrom(p, low.First)
	}
	best := e.mostStarved()
	if best == nil {
		return nil, false
	}
	if r.tokens <= 0 {
		return nil, true
	}
	return &job{p: p, from: best.First, scout: true}, false
}

func (r *rereads) tailFrom(p *partition, from int64) (*job, bool) {
	if from < r.tail && r.tokens <= 0 {
		return nil, true
	}
	j := &job{p: p, from: from}
	if c := r.kept; c != nil && from >= c.From && from < c.Next {
		j.kept = c
	}
	return j, false
}

// lowest is the runnable lane that waits for the lowest offset.
func lowest(over []lane.Overflow) *lane.Overflow {
	var low *lane.Overflow
	for i := range over {
		if o := &over[i]; o.Runnable && (low == nil || o.First < low.First) {
			low = o
		}
	}
	return low
}

// starved says that a lane has room for half of what it may hold.
func (e *engine) starved(o *lane.Overflow) bool {
	return 2*o.Records <= e.cfg.LaneRecords && 2*o.Bytes <= e.cfg.LaneBytes
}

// mostStarved is the runnable starved lane with the least in memory.
func (e *engine) mostStarved() *lane.Overflow {
	var best *lane.Overflow
	for i := range e.overflows {
		o := &e.overflows[i]
		if o.Runnable && e.starved(o) && (best == nil || o.Records < best.Records || o.Records == best.Records && o.First < best.First) {
			best = o
		}
	}
	return best
}

func (e *engine) doJob(ctx context.Context, r reader, j *job) {
	chunk, err := j.kept, error(nil)
	if chunk == nil {
		var c refetch.Chunk
		c, err = r.Read(ctx, j.p.topic, j.p.id, j.from, rereadBytes)
		chunk = &c
	}
	switch out, gone := errors.AsType[*refetch.ErrOutOfRange](err); {
	case gone && out.Start > j.from:
		e.lostBelow(j.p, out.Start)
	case err != nil:
		e.rereadFailed(ctx, j, err)
	default:
		e.offer(j, chunk)
	}
}

func (e *engine) rereadFailed(ctx context.Context, j *job, err error) {
	if ctx.Err() == nil {
		e.sampled.Warn("re-reading", zap.String("topic", j.p.topic), zap.Int32("partition", j.p.id),
			zap.Int64("offset", j.from), zap.Error(err))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	j.p.rereads.running = false
	j.p.rereads.after = e.now() + rereadPause
	e.signalHungry()
}

// lostBelow notes that retention deleted what lanes waited for.
func (e *engine) lostBelow(p *partition, start int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.rereads.running = false
	if p.gone.Load() {
		return
	}
	e.countLost(p, e.sched.Lost(p.lanes, start)+p.progress.Lost(start), start)
	e.signalHungry()
}

// countLost counts lanes that lost records to retention: each at least one.
func (e *engine) countLost(p *partition, lanes int, start int64) {
	if lanes == 0 {
		return
	}
	e.metrics.lost.WithLabelValues(p.topic, p.label()).Add(float64(lanes))
	e.log.Error("records that lanes waited for were deleted by retention",
		zap.String("topic", p.topic), zap.Int32("partition", p.id), zap.Int64("offset", start), zap.Int("lanes", lanes))
}

// offer gives the records of a chunk to the lanes that wait for them.
func (e *engine) offer(j *job, c *refetch.Chunk) {
	p := j.p
	var a admission
	records := c.Records
	for len(records) > 0 && records[0].Offset < j.from {
		records = records[1:]
	}
	a.classify((*e.routes.Load())[p.topic], p, records, false)

	e.mu.Lock()
	defer e.mu.Unlock()
	p.rereads.running = false
	if p.gone.Load() {
		return
	}
	limit := p.progress.Next()
	next := min(c.Next, limit)
	if c.AtEnd && c.End >= limit {
		next = limit // nothing is left of what the cursor passed here
	}
	if j.kept == nil {
		e.meter(j, c, next)
	}
	next, ok := e.refill(j, a.chunk, next)
	if !ok {
		e.rewinds = append(e.rewinds, p)
		e.askAttention()
		return
	}
	e.keep(p, j, c, next)
	if !j.scout {
		p.rereads.tail = max(p.rereads.tail, next)
	}
	if next <= j.from {
		p.rereads.after = e.now() + rereadPause
	}
	e.wakeOne()
	e.signalHungry()
}

// meter counts what was read, and spends tokens for what is read again.
func (e *engine) meter(j *job, c *refetch.Chunk, next int64) {
	e.metrics.reread.Add(float64(c.Bytes))
	r := &j.p.rereads
	switch {
	case j.scout:
		r.tokens -= float64(c.Bytes)
	case j.from < r.tail:
		again := float64(min(next, r.tail)-j.from) / float64(max(next-j.from, 1))
		r.tokens -= again * float64(c.Bytes)
	}
}

// keep holds on to a chunk whose rest a full lane has kept from being offered.
func (e *engine) keep(p *partition, j *job, c *refetch.Chunk, next int64) {
	r := &p.rereads
	if r.kept != nil && r.kept != c {
		e.hold(p, -int64(r.kept.Bytes))
		r.kept = nil
	}
	wanted := !j.scout && next < min(c.Next, p.progress.Next())
	switch {
	case wanted && r.kept == nil:
		r.kept = c
		e.hold(p, int64(c.Bytes))
	case !wanted && r.kept != nil:
		r.kept = nil
		e.hold(p, -int64(c.Bytes))
	}
}

// refill offers records up to next and returns up to where it came: a tail
// stops at a lane that is full. It is false when the checkpoint that the
// partition began with turns out to be of another log.
func (e *engine) refill(j *job, chunk []classified, next int64) (int64, bool) {
	p := j.p
	in := &arrival{at: e.now(), copies: true}
	pass := e.sched.BeginPass(p.lanes, j.from)
	for i := range chunk {
		c := &chunk[i]
		if c.rec.Offset >= next {
			break
		}
		if c.class > classNoTenant || c.class == classNoTenant && e.cfg.NoTenant == NoTenantSkip {
			continue
		}
		if p.progress.Recovering() && !e.judge(p, j.from, c) {
			return 0, false
		}
		copied := new(kgo.Record)
		it := item(c, in)
		it.Rec.rec = copied
		verdict := e.sched.Refill(&pass, c.id, it)
		if verdict == lane.Queued {
			*copied = *copyRecord(c.rec)
			e.hold(p, c.bytes)
		}
		if verdict == lane.Full && !j.scout {
			next = c.rec.Offset
			break
		}
	}
	e.sched.Passed(&pass, next)
	p.progress.Passed(j.from, next)
	return next, true
}

// judge resolves names of the commit that the partition began with. It is false
// when another lane's record lies where one was named.
func (e *engine) judge(p *partition, at int64, c *classified) bool {
	named, match := p.progress.Judge(at, c.rec.Offset, offset.Name(c.id.Key))
	switch match {
	case offset.Exact:
		e.sched.Skip(p.lanes, c.id, c.rec.Offset, p.progress.InheritedFrontier()-1)
		if named.Parked {
			e.sched.ParkLane(p.lanes, c.id.Key)
		}
		if named.Paused {
			e.sched.PauseTenant(c.id.Tenant)
		}
	case offset.Possible:
		e.sched.Skip(p.lanes, c.id, c.rec.Offset, p.progress.InheritedFrontier()-1)
	case offset.Wrong:
		return false
	}
	return true
}

// askAttention has the poll loop look at rewinds and far partitions.
func (e *engine) askAttention() {
	select {
	case e.attention <- struct{}{}:
	default:
	}
}

// takeRewinds takes the partitions that have to go back to their watermark,
// begins them anew there, and says where that is.
func (e *engine) takeRewinds() map[topicPartition]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	back := make(map[topicPartition]int64)
	for _, p := range e.rewinds {
		if p.gone.Load() {
			continue
		}
		c, ok := p.commit(e.sched, 1)
		if !ok {
			continue
		}
		e.metrics.ignored.WithLabelValues(offset.Mismatch.String()).Inc()
		back[p.topicPartition] = c.Offset
		e.resetLocked(p, c.Offset)
	}
	e.rewinds = nil
	return back
}

// far lists the partitions whose cursor has to wait for a lane.
func (e *engine) far() map[topicPartition]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	far := make(map[topicPartition]bool)
	for p := range e.behind {
		if p.rereads.far {
			far[p.topicPartition] = true
		}
	}
	return far
}

// setFar notes whether the main cursor of p has to wait.
func (e *engine) setFar(p *partition, far bool) {
	if p.rereads.far != far {
		p.rereads.far = far
		e.askAttention()
	}
}
