package consumer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// engine is the part of a Runtime that knows no Kafka client: partitions are
// opened, records admitted, handled by workers and settled, and watermarks
// read. The Runtime around it polls, commits and answers the group.
//
//	open ─▶ admit ─▶ lanes ─▶ worker ─▶ settle ─▶ watermark ─▶ commit
//	                   ▲                  │
//	                   └── back-off ◀─────┼─▶ dead-letter topic
//	                                      └─▶ parked
//
// One lock guards all of it. Workers take many cheap records, or one slow one,
// per visit, so that it is not contended.
type engine struct {
	cfg     *Config
	handler Handler
	batch   BatchHandler // instead of handler
	letters letterbox
	log     *zap.Logger
	sampled *zap.Logger // for what may happen with each record
	metrics *metrics
	began   time.Time

	resources resources // nil: none
	slabs     *slabs    // nil: records' memory is not used again

	routes atomic.Pointer[map[string]*route] // by topic, of the newest table
	slow   atomic.Bool                       // handlers are slow: records are copied at admission
	cheap  atomic.Bool                       // handlers are cheap: the clock is looked at less often

	group     sync.WaitGroup // of workers
	room      chan struct{}  // a token when there may be room again
	poke      chan struct{}  // a token when the clock has to look again
	hungry    chan struct{}  // a token when a re-read may be due
	attention chan struct{}  // a token when the poll loop has to look at rewinds and far partitions

	mu sync.Mutex
	// guards everything below
	sched     *lane.Scheduler[entry]
	parts     map[topicPartition]*partition
	byLanes   map[*lane.Partition[entry]]*partition
	epoch     uint64                  // of the last assignment
	behind    map[*partition]struct{} // with skipped records or names to resolve
	rewinds   []*partition            // whose checkpoint turned out to be of another log
	held      int64                   // bytes, over all partitions
	spent     []*slab                 // whose records are all done
	size      int64                   // bytes of a record, by the last ones that were admitted
	full      time.Duration           // since when the worker is full; 0: it is not
	strict    time.Duration           // until then no lane may exceed its bound
	waiting   bool                    // the poll loop waits for room
	workers   map[*worker]struct{}
	idle      []*worker // the last one went idle last: its cache is the warmest
	stuck     int       // workers whose slot was given back
	stopping  bool
	quiet     chan struct{} // closed when stopping and the last worker has ended
	armed     time.Duration // when the clock looks next
	mean      float64       // seconds per record, moving average
	changed   chan struct{} // closed and made anew when draining may have advanced
	tiers     map[string]*tierTimes
	failed    []failedLetter  // dead letters to write again
	overflows []lane.Overflow // memory of plan
	pot       float64         // bytes that any partition may read again
	stirred   bool            // a lane may need a re-read, and those who read again were told
	copies    copier
	draining  int                  // drains under way
	ctx       context.Context      // of all handlings; nil before start
	pauses    map[string]pauseNote // by tenant
	limits    map[string]Limits    // operators', by tenant
	moves     moves
}

// tierTimes are the histograms of one tier.
type tierTimes struct{ handler, queue durations }

// letterbox writes a dead letter and calls done once, from any goroutine, when
// it is acknowledged or has failed.
type letterbox func(letter *kgo.Record, done func(error))

func newEngine(cfg *Config, h Handler, m *metrics, letters letterbox) (*engine, error) {
	sched, err := lane.New[entry](lane.Config{
		Name: offset.Name, TenantConcurrency: cfg.tenantConcurrency(),
		LaneRecords: cfg.LaneRecords, LaneBytes: cfg.LaneBytes, Quantum: cfg.BatchSize, LaneTime: cfg.laneTime(),
	})
	if err != nil {
		return nil, fmt.Errorf("making the scheduler: %w", err)
	}
	e := &engine{
		cfg: cfg, handler: h, letters: letters, log: cfg.Logger, sampled: sampled(cfg.Logger), metrics: m, began: time.Now().Add(-1), // 0 is "never" in worker.since

		room: make(chan struct{}, 1), hungry: make(chan struct{}, 1),
		attention: make(chan struct{}, 1), poke: make(chan struct{}, 1),
		sched: sched, parts: map[topicPartition]*partition{}, byLanes: map[*lane.Partition[entry]]*partition{},
		behind:  map[*partition]struct{}{},
		workers: map[*worker]struct{}{}, quiet: make(chan struct{}), armed: never,
		changed: make(chan struct{}), tiers: map[string]*tierTimes{}, mean: firstGuess, moves: newMoves(cfg.syncer() != nil),
	}
	e.resources = newResources(cfg.Resources, e.now)
	e.applyTable()
	e.setTenant(nil)
	return e, nil
}

// firstGuess is the mean handler time, in seconds, before any was measured.
const firstGuess = 1e-3

// never is a time on the engine's clock that does not come.
const never = time.Duration(1<<63 - 1)

// now is the engine's clock.
func (e *engine) now() time.Duration { return time.Since(e.began) }

// open begins an assignment of a partition at an offset, or unknownOffset for
// that of the first record. An assignment that is still open ends.
func (e *engine) open(tp topicPartition, at begin, generation int32) *partition {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.openLocked(tp, at, generation)
}

func (e *engine) openLocked(tp topicPartition, at begin, generation int32) *partition {
	if old := e.parts[tp]; old != nil {
		e.closeLocked(old)
	}
	e.epoch++
	p := &partition{
		topicPartition: tp, rule: e.ruleOf(tp.topic), instant: at.instant, end: unknownOffset, committed: at.committed,
		token: Token{Generation: generation, Partition: tp.id, Epoch: e.epoch},
		lanes: e.sched.Assign(tp.topic, tp.id, int64(e.epoch)), identity: at.identity, limit: e.limit(at.instant),
	}
	p.rereads.at = e.now()
	e.follow(p, at)
	e.parts[tp], e.byLanes[p.lanes] = p, p
	p.ofTopic, p.dropped, p.behindTable = e.moves.topics[tp.topic], unknownOffset, at.behindTable
	if p.behindTable {
		e.askSync()
	} else {
		e.beginMoves(p)
	}
	return p
}

// follow begins p's progress where the commit says.
func (e *engine) follow(p *partition, at begin) {
	switch {
	case at.checkpoint != nil:
		var lost int
		p.progress, lost = offset.Resume(*at.checkpoint, at.start)
		e.countLost(p, lost, at.start)
		if p.progress.Recovering() {
			e.skipped(p)
		}
	case at.offset != unknownOffset:
		p.progress = offset.NewTracker(at.offset)
	}
	if p.progress != nil {
		p.rereads.base = p.progress.Next()
	}
}

// limit is how much a commit may say of a partition, beside the group's start
// instant.
func (e *engine) limit(instant time.Time) offset.Limit {
	chars := e.cfg.MetadataChars
	if !instant.IsZero() {
		chars -= len(formatInstant(instant)) + 1
	}
	return offset.Limit{Chars: max(chars, 0)}
}

// close ends assignments without waiting for what is in hand, which then
// counts for nothing; its handlers' contexts end.
func (e *engine) close(parts []*partition) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range parts {
		if e.parts[p.topicPartition] == p {
			e.handOverPauses(p)
			e.closeLocked(p)
		}
	}
}

func (e *engine) closeLocked(p *partition) {
	p.gone.Store(true)
	e.sched.Revoke(p.lanes)
	e.held -= p.held
	p.held = 0
	delete(e.behind, p)
	delete(e.parts, p.topicPartition)
	for w := range e.workers {
		w.cancel(p, errPartitionGone)
	}
	if p.lanes.InHand() == 0 {
		delete(e.byLanes, p.lanes)
	}
	e.signalRoom()
	e.signalChanged()
}

// owned returns the open partitions among tps, or all with nil.
func (e *engine) owned(tps map[string][]int32) []*partition {
	e.mu.Lock()
	defer e.mu.Unlock()
	var parts []*partition
	if tps == nil {
		for _, p := range e.parts {
			parts = append(parts, p)
		}
		return parts
	}
	for topic, ids := range tps {
		for _, id := range ids {
			if p := e.parts[topicPartition{topic, id}]; p != nil {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// free says how many records may be admitted; 0 when a bound is reached, and
// then room gets a token once an eighth of it is free again.
func (e *engine) free() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	if n := e.space(); n > 0 {
		e.full = 0
		return n
	}
	if e.full == 0 {
		e.full = now
	}
	if now-e.full >= fullPatience {
		e.full, e.strict = now, now+strictTime
		e.relieve()
	}
	n := e.space()
	e.waiting = n == 0
	return n
}

const (
	// fullPatience is how long the worker may be full before waiting lanes
	// are taken out of memory and no lane may exceed its bound, for a time.
	fullPatience = 100 * time.Millisecond
	strictTime   = time.Second
)

// bounds are how many records and bytes the worker may hold, as far as the main
// cursor is concerned: an eighth is kept for what has to be read again, so that
// the lanes that wait for it get their share.
func (e *engine) bounds() (records int, bytes int64) {
	records, bytes = e.cfg.MaxRecords, e.cfg.MaxBytes
	if len(e.behind) > 0 {
		records, bytes = records-records/8, bytes-bytes/8
	}
	return records, bytes
}

// space is how many records the main cursor may admit now, if they are as large
// as the last ones: one response of a broker may decompress to far more bytes
// than there is room for, and what a poll leaves waits in the client. A 64th of
// the bytes is asked for at least, so that polls at the bound are not of one
// record each.
func (e *engine) space() int {
	records, bytes := e.bounds()
	if e.held >= bytes {
		return 0
	}
	n := max(records-e.sched.Records(), 0)
	if e.size == 0 {
		return n
	}
	room := max(bytes-e.held, bytes/64)/e.size + 1
	return int(min(int64(n), room))
}

// spaceForRereads says that there is room for what has to be read again.
func (e *engine) spaceForRereads() bool {
	return e.sched.Records() < e.cfg.MaxRecords && e.held < e.cfg.MaxBytes
}

// relieve drops from memory what waiting lanes hold, but for one record each,
// and what others hold beyond their bound: lanes that back off, are parked, or
// hang in a handler must not fill the worker. It is read again when it can run.
func (e *engine) relieve() {
	for _, p := range e.parts {
		n := e.sched.Spill(p.lanes, 1, e.cfg.LaneRecords, func(it *lane.Item[entry]) { e.hold(p, -it.Rec.in.freed(it)) })
		if n > 0 {
			e.skipped(p)
		}
	}
}

// signalRoom wakes the poll loop if it waits and there is room.
func (e *engine) signalRoom() {
	records, bytes := e.bounds()
	if !e.waiting || e.sched.Records() > records-max(records/8, 1) || e.held > bytes-bytes/8 {
		return
	}
	e.waiting = false
	select {
	case e.room <- struct{}{}:
	default:
	}
}

// signalChanged tells those who drain that they may be done.
func (e *engine) signalChanged() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// ruleOf says where a topic's records have their tenant.
func (e *engine) ruleOf(topic string) routing.TenantRule {
	if rt := (*e.routes.Load())[topic]; rt.topic != nil {
		return rt.topic.TenantRule()
	}
	return routing.TenantRule{From: routing.FromKey}
}

// applyTable takes tiers and placements over from the newest table, also for
// tenants that have work.
func (e *engine) applyTable() {
	routes := make(map[string]*route, len(e.cfg.Topics))
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range e.cfg.Topics {
		routes[name] = e.routeOf(name)
	}
	before := e.routes.Swap(&routes)
	for name, rt := range routes {
		e.applySpread(rt)
		if before != nil {
			e.applySpread((*before)[name])
		}
	}
	for _, p := range e.parts {
		e.sched.Retier(p.lanes, routes[p.topic].tierOf, e.now())
	}
	e.applyMoves(routes)
	e.wakeOne()
}

// applySpread says again what the tenants that are, or were, spread by key may
// run at once.
func (e *engine) applySpread(rt *route) {
	for tenant := range rt.spread {
		e.setTenant([]byte(tenant))
	}
}

func (e *engine) routeOf(name string) *route {
	rt := &route{order: e.cfg.Order, orderKey: e.cfg.OrderKey}
	if e.cfg.Table == nil {
		return rt
	}
	topic, ok := e.cfg.Table.Table().Topic(name)
	if !ok {
		return rt
	}
	rt.topic = topic
	rt.tiers = make(map[string]lane.TierID)
	for _, tier := range topic.TierNames() {
		t, _ := topic.TierNamed(tier)
		rt.tiers[tier] = e.sched.SetTier(tier, laneTier(t), e.now())
	}
	for _, tenant := range topic.PlacedTenants() {
		if pl, _ := topic.Placement(tenant); pl.Spread == routing.SpreadKey {
			if rt.spread == nil {
				rt.spread = make(map[string]bool)
			}
			rt.spread[tenant] = true
		}
	}
	return rt
}

func laneTier(t routing.Tier) lane.Tier {
	return lane.Tier{
		Weight: float64(t.Weight), Reserved: t.Reserved,
		Tenant: lane.Tenant{Concurrency: t.MaxConcurrency, Rate: t.Rate, Burst: float64(t.Burst)},
	}
}

// pendingCommits are the partitions whose progress is not committed.
func (e *engine) pendingCommits(parts []*partition) map[topicPartition]pendingCommit {
	e.mu.Lock()
	todo := e.harvest()
	pending := make(map[topicPartition]pendingCommit)
	for _, p := range parts {
		if p.gone.Load() {
			continue
		}
		if c, ok := p.commit(e.sched, len(parts)); ok && (c.Offset != p.committed || c.Metadata != p.metadata) {
			pending[p.topicPartition] = pendingCommit{p: p, Commit: c}
		}
	}
	e.mu.Unlock()
	run(todo)
	return pending
}

// acknowledged notes that a commit was answered.
func (e *engine) acknowledged(c pendingCommit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.p.committed, c.p.metadata = c.Offset, c.Metadata
	c.p.past(c.Offset)
	if _, asked := e.moves.asked[c.p.topicPartition]; asked {
		e.signalMoves()
	}
}

// tooLong notes that a broker refused a commit for the length of its metadata.
func (e *engine) tooLong(c pendingCommit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.p.limit = c.p.limit.Halved(c.Metadata)
}

// left is how many records are in the worker.
func (e *engine) left() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sched.Records()
}

// reset begins an open partition anew at a position below the next to admit.
func (e *engine) reset(tp topicPartition, at int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.parts[tp]; p != nil && p.progress != nil && at < p.progress.Next() {
		e.resetLocked(p, at)
	}
}
