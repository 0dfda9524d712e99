package consumer

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	// rereadPause is the wait after a failed re-read, and for tokens.
	rereadPause = 50 * time.Millisecond
	// planPause is the least time between two looks for nothing at a
	// partition.
	planPause = 5 * time.Millisecond
	// rereadChunk is how many records of a re-read are offered under one lock.
	rereadChunk = 256
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
	read    int64          // up to here the tail has read
	kept    *refetch.Chunk // read, and not offered to its end since a lane was full
	budget
	after time.Duration // not before, since the last one failed
	far   bool          // the cursor must wait: a lane is too far behind
	base  int64         // where the cursor began: nobody is late for what lies before it

	surrender *surrender // of late lanes; nil: none is under way
}

// framing is about what a record takes in a batch beside its fields.
const framing = 16

// job is one re-read.
type job struct {
	p     *partition
	from  int64
	scout bool
	kept  *refetch.Chunk // instead of reading
	late  *surrender     // it is for late lanes
}

// skipped notes that p has something to re-read.
func (e *engine) skipped(p *partition) {
	if _, ok := e.behind[p]; !ok {
		e.behind[p] = struct{}{}
	}
	e.stir()
}

// stir notes that a lane may need a re-read, as each record may that is skipped
// or done. Those who read again are told of the first one since they last
// looked at everything: each wake-up takes a processor from the workers.
func (e *engine) stir() {
	if !e.stirred {
		e.stirred = true
		e.signalHungry()
	}
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
	now, wait, passed := e.now(), never, false
	for p := range e.behind {
		if p.rereads.running || p.behindTable {
			continue
		}
		if p.rereads.after > now {
			wait, passed = min(wait, p.rereads.after-now), true
			continue
		}
		j, later := e.plan(p, now)
		if j != nil {
			p.rereads.running = true
			return j, 0
		}
		// A look at all lanes costs more than what a lane that has room for
		// half of its records loses by waiting a moment.
		p.rereads.after = now + planPause
		if later {
			wait = min(wait, rereadPause)
		}
	}
	e.stirred = passed // by then what has changed since is looked at too
	return nil, wait
}

// plan chooses p's next re-read. later says that there is one that waits, for
// tokens or for a late lane's handler.
func (e *engine) plan(p *partition, now time.Duration) (j *job, later bool) {
	e.passTime(p, now)
	j, later = e.planLate(p)
	if j != nil {
		return j, false
	}
	j, tokens := e.planLanes(p)
	return j, later || tokens
}

func (e *engine) planLanes(p *partition) (j *job, later bool) {
	name, named := p.progress.FirstName()
	e.overflows = e.sched.Overflows(p.lanes, e.overflows[:0])
	if !named && len(e.overflows) == 0 {
		if p.lanes.Late() == 0 {
			delete(e.behind, p)
		}
		e.setFar(p, false)
		e.dropKept(p)
		return nil, false
	}
	if !e.spaceForRereads() {
		return nil, true
	}
	low := lowest(e.overflows)
	if low != nil {
		e.setFar(p, e.cfg.TooFar == TooFarPause && p.progress.Next()-low.First > e.cfg.MaxDistance)
	}
	switch {
	case named && (low == nil || name <= low.First):
		return e.tailFrom(p, name)
	case low == nil:
		e.setFar(p, false)
		return nil, false
	case e.starved(low):
		return e.tailFrom(p, low.First)
	}
	best := e.mostStarved()
	if best == nil {
		return nil, false
	}
	if !e.affordable(p) {
		return nil, true
	}
	return &job{p: p, from: best.First, scout: true}, false
}

func (e *engine) tailFrom(p *partition, from int64) (*job, bool) {
	r, j := &p.rereads, &job{p: p, from: from}
	if c := r.kept; c != nil && from >= c.From && from < c.Next {
		j.kept = c
	}
	if j.kept == nil && from < r.read && !e.affordable(p) {
		return nil, true
	}
	return j, false
}

// lowest is the lane that waits for the lowest offset, of those that can use
// what comes.
func lowest(over []lane.Overflow) *lane.Overflow {
	var low *lane.Overflow
	for i := range over {
		if o := &over[i]; usable(o) && (low == nil || o.First < low.First) {
			low = o
		}
	}
	return low
}

// usable says that a lane can run, or will have nothing to run when its
// back-off ends.
func usable(o *lane.Overflow) bool { return o.Runnable && (!o.BackOff || o.Records == 0) }

// starved says that a lane has room for half of what it may hold.
func (e *engine) starved(o *lane.Overflow) bool {
	return 2*o.Records <= e.cfg.LaneRecords && 2*o.Bytes <= e.cfg.LaneBytes
}

// mostStarved is the runnable starved lane with the least in memory.
func (e *engine) mostStarved() *lane.Overflow {
	var best *lane.Overflow
	for i := range e.overflows {
		o := &e.overflows[i]
		if usable(o) && e.starved(o) && (best == nil || o.Records < best.Records || o.Records == best.Records && o.First < best.First) {
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
		e.lostBelow(j, out.Start)
	case err != nil:
		e.rereadFailed(ctx, j, err)
	case j.late != nil:
		e.giveUp(j.late, chunk)
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
	if j.late != nil {
		j.p.rereads.surrender = nil
	}
	j.p.rereads.after = e.now() + rereadPause
	e.signalHungry()
}

// lostBelow notes that retention deleted what lanes waited for.
func (e *engine) lostBelow(j *job, start int64) {
	p := j.p
	e.mu.Lock()
	defer e.mu.Unlock()
	p.rereads.running = false
	if j.late != nil {
		p.rereads.surrender = nil
	}
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
	e.mu.Lock()
	if j.kept == nil {
		e.meter(j, c)
	}
	e.mu.Unlock()
	o := offering{engine: e, job: j, chunk: c, route: (*e.routes.Load())[j.p.topic], next: j.from}
	for o.part() {
		continue
	}
	e.offered(j, c, o.next)
}

// offering is a chunk on its way into lanes.
type offering struct {
	*engine
	*job
	chunk   *refetch.Chunk
	route   *route
	scratch []byte
	next    int64 // offset up to which records were offered
}

// part offers the next few records under one lock. It says whether there is
// more to offer of the chunk.
func (o *offering) part() bool {
	records, to := nextPart(o.chunk, o.next)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.p.gone.Load() || !o.spaceForRereads() {
		return false
	}
	limit := o.p.progress.Next()
	to = min(to, limit)
	if o.chunk.AtEnd && o.chunk.End >= limit {
		to = limit // nothing is left of what the cursor passed here
	}
	from := o.next
	if !o.refill(records, to) {
		o.rewinds = append(o.rewinds, o.p)
		o.askAttention()
		return false
	}
	o.wakeOne()
	return o.next == to && to > from && to < min(o.chunk.Next, limit)
}

// refill offers records below an offset, and notes how far it came: a tail
// stops at a lane that is full. It is false when the checkpoint that the
// partition began with turns out to be of another log.
func (o *offering) refill(records []*kgo.Record, to int64) bool {
	in := &arrival{at: o.now(), copies: true}
	o.limitLanes()
	from, p := o.next, o.p
	pass := o.sched.BeginPass(p.lanes, from)
	var c classified
	for _, r := range records {
		if r.Offset >= to {
			break
		}
		o.scratch = o.route.classify(&c, r, p.rule, o.scratch[:0])
		if c.class > classNoTenant || c.class == classNoTenant && o.cfg.NoTenant == NoTenantSkip {
			continue
		}
		if p.progress.Recovering() && !o.judge(p, from, &c) {
			return false
		}
		if o.bring(&pass, &c, in) == lane.Full && !o.scout {
			to = r.Offset
			break
		}
	}
	o.sched.Passed(&pass, to)
	p.progress.Passed(from, to)
	o.next = to
	return true
}

// bring offers one record. It is copied only if its lane takes it.
func (o *offering) bring(pass *lane.Pass[entry], c *classified, in *arrival) lane.Verdict {
	p := o.p
	if c.class == classLane && (p.watched || c.epoch > p.known) {
		if !o.sched.Wanted(pass, &c.id, c.rec.Offset) {
			return lane.Unwanted
		}
		wait, f, stray := o.ruleOn(p, c)
		switch {
		case wait != nil:
			return o.sched.RefillGate(pass, &c.id, *wait)
		case f != nil:
			in = &arrival{at: in.at, copies: true, fault: f}
		case stray:
			o.metrics.stale.WithLabelValues(p.topic, staleHandled).Inc()
		}
	}
	it := c.costed(in, o.cfg.Cost)
	it.Rec.rec = o.copies.next(c.fields)
	verdict := o.sched.Refill(pass, c.id, it)
	if verdict == lane.Queued {
		o.copies.fill(c.rec)
		o.hold(o.p, int64(it.Bytes))
	}
	return verdict
}

// nextPart is the next few records of a chunk from an offset on, and the offset
// behind them.
func nextPart(c *refetch.Chunk, from int64) ([]*kgo.Record, int64) {
	i, _ := slices.BinarySearchFunc(c.Records, from, func(r *kgo.Record, at int64) int { return cmp.Compare(r.Offset, at) })
	if len(c.Records)-i <= rereadChunk {
		return c.Records[i:], c.Next
	}
	return c.Records[i : i+rereadChunk], c.Records[i+rereadChunk].Offset
}

// offered ends a job that came up to next.
func (e *engine) offered(j *job, c *refetch.Chunk, next int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := j.p
	p.rereads.running = false
	if p.gone.Load() {
		return
	}
	e.keep(p, j, c, next)
	if next <= j.from {
		p.rereads.after = e.now() + rereadPause
	}
	e.signalHungry()
}

// meter counts what was read, and spends tokens for what is read again beyond
// the tail's one time.
func (e *engine) meter(j *job, c *refetch.Chunk) {
	e.metrics.reread.Add(float64(c.Bytes))
	r := &j.p.rereads
	switch {
	case j.scout:
		e.spend(j.p, float64(c.Bytes))
	case j.from < r.read:
		again := float64(min(c.Next, r.read)-j.from) / float64(max(c.Next-j.from, 1))
		e.spend(j.p, again*float64(c.Bytes))
	}
	if !j.scout {
		r.read = max(r.read, c.Next)
	}
}

// keep holds on to a chunk whose rest a full lane has kept the tail from
// offering, so that it is not read once more.
func (e *engine) keep(p *partition, j *job, c *refetch.Chunk, next int64) {
	r := &p.rereads
	if j.scout {
		return
	}
	e.dropKept(p)
	if next < min(c.Next, p.progress.Next()) {
		r.kept = c
		e.hold(p, int64(c.Bytes))
	}
}

func (e *engine) dropKept(p *partition) {
	if r := &p.rereads; r.kept != nil {
		e.hold(p, -int64(r.kept.Bytes))
		r.kept = nil
	}
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
			e.pauseTenant(c.id.Tenant, inheritedPause())
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
	e.takeDropped(back)
	return back
}

// far lists the partitions whose cursor has to wait: for a lane, or for the
// table.
func (e *engine) far() map[topicPartition]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	far := make(map[topicPartition]bool)
	for p := range e.behind {
		if p.rereads.far {
			far[p.topicPartition] = true
		}
	}
	for tp, p := range e.parts {
		if p.behindTable {
			far[tp] = true
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
