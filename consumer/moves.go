package consumer

import (
	"fmt"
	"math"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/move"
)

// Why a lane waits for a move, as lane.Gate.Why.
const (
	// whyFence: its unit is behind a fence whose move has not ended, or the
	// worker got the partition while a move out of it was open.
	whyFence uint8 = iota
	// whyEarlier: the group's commits do not show it done in an earlier home.
	whyEarlier
	// whyTable: its record was routed by a newer table than the worker has.
	whyTable
	whys
)

// whyWord is a reason as a metric's label and an operator's word.
func whyWord(why uint8) string {
	return [...]string{"fence", "earlier_home", "table"}[why]
}

// moves is what the engine knows of moves, beside its partitions. The engine's
// lock guards it.
//
//	record ─▶ rule ──┬─▶ lane
//	                 ├─▶ gate: fence ──────── the move has ended in the table ──┐
//	                 ├─▶ gate: earlier home ─ the group's commits show it done ─┤
//	                 ├─▶ gate: table ──────── the table was read to its end ────┤
//	                 └─▶ lane, to quarantine              re-read, judged again ◀┘
type moves struct {
	canSync  bool // the table's source can be read to its end
	topics   map[string]*movesOfTopic
	commits  map[topicPartition]move.GroupCommit // of earlier homes, as last fetched
	asked    map[topicPartition]struct{}         // earlier homes that lanes wait for
	homes    []move.Home                         // memory of ruleOn
	wantSync bool                                // the table has to be read to its end
	again    bool                                // lanes that wait are to be judged again
	waited   [whys]durations                     // how long lanes waited, of those that do not any more
	missing  []string                            // topics whose quarantine topic is to be made
	sync     chan struct{}                       // a token when wantSync or missing was set
	wake     chan struct{}                       // a token when again was set or asked grew
	kick     func()                              // commits at once
}

func newMoves(canSync bool) moves {
	return moves{
		canSync: canSync, topics: map[string]*movesOfTopic{}, commits: map[topicPartition]move.GroupCommit{},
		asked: map[topicPartition]struct{}{}, sync: make(chan struct{}, 1), wake: make(chan struct{}, 1), kick: func() {},
	}
}

// movesOfTopic sorts a topic's moves by what admission asks, so that a record
// whose unit has never moved costs a look or two.
type movesOfTopic struct {
	table     *routing.Topic
	left      map[int32]*units // switched moves, by the partition they left: R1
	uncleared *units           // switched moves that commits do not show to be past: R2
	cleared   map[string]bool  // the others, by id
}

// units are tenants and slots with the highest epoch that a move gave them.
type units struct {
	tenants map[string]uint64
	slots   map[int32]uint64
}

func (u *units) add(m *routing.Move, from int32) {
	if m.Tenant != "" {
		if u.tenants == nil {
			u.tenants = map[string]uint64{}
		}
		u.tenants[m.Tenant] = max(u.tenants[m.Tenant], m.Epoch)
		return
	}
	if u.slots == nil {
		u.slots = map[int32]uint64{}
	}
	for _, s := range m.Slots {
		if from < 0 || s.From == from {
			u.slots[s.Slot] = max(u.slots[s.Slot], m.Epoch)
		}
	}
}

// epochOf is the highest epoch that a move gave a tenant or its slot; 0: none.
func (u *units) epochOf(tenant []byte, slot int32) uint64 {
	if u == nil {
		return 0
	}
	return max(u.tenants[string(tenant)], u.slots[slot])
}

// take takes over a table. What is cleared stays so.
func (mt *movesOfTopic) take(t *routing.Topic) {
	mt.table, mt.left = t, map[int32]*units{}
	if t == nil || !t.Moved() {
		mt.uncleared, mt.cleared = nil, nil
		return
	}
	before := mt.cleared
	mt.cleared = map[string]bool{}
	for _, m := range t.Moves() {
		for _, f := range m.Fences {
			u := mt.left[f.Partition]
			if u == nil {
				u = &units{}
				mt.left[f.Partition] = u
			}
			u.add(m, f.Partition)
		}
		if before[m.ID] {
			mt.cleared[m.ID] = true
		}
	}
}

// clear notes the moves whose old homes' commits are all above the fences: no
// lane waits for them any more.
func (mt *movesOfTopic) clear(watermark func(partition int32) int64) {
	mt.uncleared = nil
	if mt.table == nil || !mt.table.Moved() {
		return
	}
	for _, m := range mt.table.Moves() {
		if m.Open() || mt.cleared[m.ID] {
			continue
		}
		past := true
		for _, f := range m.Fences {
			past = past && watermark(f.Partition) > f.Offset
		}
		if past {
			mt.cleared[m.ID] = true
			continue
		}
		if mt.uncleared == nil {
			mt.uncleared = &units{}
		}
		mt.uncleared.add(m, -1)
	}
}

// concerns says that a record is to be judged in full, that is, that a move of
// its unit may be about it.
func (mt *movesOfTopic) concerns(p *partition, tenant []byte, slot int32, epoch uint64) bool {
	return p.moves.Holding() || mt.table.Moving() || epoch > p.known ||
		mt.left[p.id].epochOf(tenant, slot) > epoch || epoch > 0 && mt.uncleared.epochOf(tenant, slot) > 0
}

// judged is a record as moves see it.
type judged struct {
	tenant    []byte
	key       []byte // of its lane
	offset    int64
	epoch     uint64
	kind      routing.Kind
	stamped   bool
	unordered bool // its lane has no order to keep
}

// mark packs what judge needs of a record beside its lane and offset.
func (j *judged) mark() uint64 {
	m := min(j.epoch, math.MaxUint64>>4)<<4 | uint64(j.kind)
	if j.stamped {
		m |= 4
	}
	if j.unordered {
		m |= 8
	}
	return m
}

// judgedOf is the record that a lane waits with.
func judgedOf(g *lane.Gated) judged {
	return judged{
		tenant: g.Tenant, key: g.Key, offset: g.Offset, epoch: g.Mark >> 4,
		kind: routing.Kind(g.Mark & 3), stamped: g.Mark&4 != 0, unordered: g.Mark&8 != 0,
	}
}

// ruling is what becomes of a record.
type ruling struct {
	waits bool
	why   uint8  // if it waits
	fault *fault // it goes into its lane, and not to a handler
	stray bool   // it is behind a fence, and is handled nevertheless
}

// rule says what is to become of a record of p by the rules of moves. What it
// waits for is asked for.
func (e *engine) rule(p *partition, j *judged) ruling {
	mt := p.ofTopic
	if mt == nil || mt.table == nil {
		return ruling{}
	}
	route := mt.table.Lookup(j.tenant, nil)
	if !mt.concerns(p, j.tenant, route.Slot, j.epoch) {
		return ruling{}
	}
	r := move.Placed{
		Tenant: j.tenant, Slot: route.Slot, Kind: j.kind, Epoch: j.epoch, Partition: p.id, Offset: j.offset,
	}
	if !j.stamped {
		r.Kind = route.Kind
	}
	read := j.offset < p.readToEnd || !e.moves.canSync
	verdict, homes := p.moves.Judge(mt.table, r, read, e.moves.homes[:0])
	e.moves.homes = homes
	switch verdict {
	case move.Refresh:
		e.askSync()
		return ruling{waits: true, why: whyTable}
	case move.Hold:
		return ruling{waits: true, why: whyFence}
	case move.Quarantine:
		why, _ := mt.staleness(r, j.stamped)
		return ruling{fault: &fault{stale: &why}}
	case move.Run:
	}
	return e.ruleRun(p, j, r, homes)
}

// ruleRun is rule for a record that no fence is in the way of.
func (e *engine) ruleRun(p *partition, j *judged, r move.Placed, homes []move.Home) ruling {
	t := p.ofTopic.table
	if e.moves.canSync && t.Wrapped() && e.cfg.ForeignStamps == ForeignPark && move.Behind(t, r) {
		return ruling{fault: &fault{err: fmt.Errorf("%w: epoch %d, the table is at %d", ErrForeignStamp, j.epoch, t.Epoch())}}
	}
	if len(homes) > 0 && !j.unordered && e.undone(p.topic, homes, offset.Name(j.key)) {
		return ruling{waits: true, why: whyEarlier}
	}
	_, stray := p.ofTopic.staleness(r, j.stamped)
	return ruling{stray: stray}
}

// staleness is why a record is stale; false: it is not behind a fence that ended
// its unit.
func (mt *movesOfTopic) staleness(r move.Placed, stamped bool) (Staleness, bool) {
	for _, m := range mt.table.AppendMoves(nil, r.Tenant, r.Slot) {
		x, left := m.FenceIn(r.Partition)
		if !left || r.Offset <= x || r.Epoch >= m.Epoch || !m.Covers(r.Tenant, r.Slot, r.Kind) {
			continue
		}
		why := Staleness{Reason: StaleEpoch, Move: m.ID, Fence: x, Epoch: m.Epoch}
		if !stamped {
			why.Reason = StaleUnstamped
		}
		return why, true
	}
	return Staleness{}, false
}

// judgedRecord is a record that was classified.
func judgedRecord(c *classified) judged {
	return judged{
		tenant: c.id.Tenant, key: c.id.Key, offset: c.rec.Offset, epoch: c.epoch, kind: c.kind,
		stamped: c.stamped, unordered: c.id.Unordered,
	}
}

// ruleOn is rule for a record on its way into a lane. Unless it runs, wait is
// its lane's gate, or fault why no handler gets it.
func (e *engine) ruleOn(p *partition, c *classified) (wait *lane.Gate, f *fault, stray bool) {
	j := judgedRecord(c)
	r := e.rule(p, &j)
	if r.waits {
		return &lane.Gate{Offset: j.offset, Why: r.why, Mark: j.mark(), Since: e.now()}, nil, false
	}
	return nil, r.fault, r.stray
}

// watchMoves says again which records of p have to be looked at for moves.
func (p *partition) watchMoves(canSync bool) {
	mt := p.ofTopic
	p.known, p.watched = math.MaxUint64, false
	if mt == nil || mt.table == nil {
		return
	}
	if canSync {
		p.known = mt.table.Epoch()
	}
	p.watched = p.moves.Holding() || mt.table.Moving() || mt.uncleared != nil || mt.left[p.id] != nil
}

// applyMoves takes the moves of the newest table over.
func (e *engine) applyMoves(routes map[string]*route) {
	for name, rt := range routes {
		mt := e.moves.topics[name]
		if mt == nil {
			mt = &movesOfTopic{}
			e.moves.topics[name] = mt
		}
		if mt.table == rt.topic {
			continue
		}
		mt.take(rt.topic)
		mt.clear(e.watermarkOf(name))
	}
	for _, p := range e.parts {
		e.movesChanged(p, 0)
	}
}

// watermarkOf gives the watermarks of the group's commits in a topic, as far as
// they were fetched.
func (e *engine) watermarkOf(topic string) func(int32) int64 {
	return func(id int32) int64 {
		if c, ok := e.moves.commits[topicPartition{topic, id}]; ok {
			return c.Watermark
		}
		return unknownOffset
	}
}

// movesChanged judges p's fences, and what waits in p, by the table that the
// engine has now. ask is what Partition.Unexplained said before the table was
// read to its end; 0: it was not.
func (e *engine) movesChanged(p *partition, ask uint64) {
	if mt := p.ofTopic; mt != nil && mt.table != nil {
		p.moves.Synced(mt.table, ask)
		e.endFences(p, ask)
		e.noteLeaves(p)
	}
	p.watchMoves(e.moves.canSync)
	e.judgeAgain()
}

// judgeAgain has the lanes that wait judged again.
func (e *engine) judgeAgain() {
	e.moves.again = true
	e.signalMoves()
}

// judgeSoon is judgeAgain without the lock.
func (e *engine) judgeSoon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.judgeAgain()
}

func (e *engine) signalMoves() { signal(e.moves.wake) }

// askSync has the table read to its end.
func (e *engine) askSync() {
	if !e.moves.wantSync {
		e.moves.wantSync = true
		signal(e.moves.sync)
	}
}

// signal puts a token into a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// gateChunk is how many lanes that wait are judged under one lock.
const gateChunk = 1024

// reopen judges the lanes that wait again, if something that they may wait for
// has changed, and lets those go on that have nothing to wait for. Until it has
// come round, lanes that began to wait are not forgotten: they are judged by
// what they were judged by, or later.
func (e *engine) reopen() {
	e.mu.Lock()
	again := e.moves.again
	e.moves.again = false
	if again {
		clear(e.moves.asked) // whoever still waits asks again
	}
	e.mu.Unlock()
	if !again {
		return
	}
	for _, p := range e.owned(nil) {
		for next := math.MaxInt; next > 0; {
			next = e.reopenSome(p, next)
		}
	}
}

// reopenSome judges some of the lanes of p that wait, and returns where to go
// on.
func (e *engine) reopenSome(p *partition, from int) (next int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.gone.Load() {
		return 0
	}
	now, opened := e.now(), 0
	next = e.sched.Reopen(p.lanes, from, gateChunk, func(g lane.Gated) (uint8, bool) {
		j := judgedOf(&g)
		if r := e.rule(p, &j); r.waits {
			return r.why, true
		}
		e.moves.waited[g.Why].observe((now - g.Since).Seconds(), 1)
		opened++
		return 0, false
	})
	if opened > 0 {
		e.skipped(p)
	}
	return next
}

// waitingLanes is how many lanes wait, by reason.
func (e *engine) waitingLanes() (n [lane.Whys]int) {
	for _, p := range e.parts {
		for why, lanes := range p.lanes.Waiting() {
			n[why] += lanes
		}
	}
	return n
}

// logLeft tells that a unit has left a partition.
func (p *partition) logLeft(log *zap.Logger, c *routing.Control, at int64, state move.FenceState) {
	log.Info("fence passed", zap.String("topic", p.topic), zap.Int32("partition", p.id), zap.Int64("offset", at),
		zap.String("move", c.Move), zap.Uint64("epoch", c.Epoch), zap.Stringer("state", state))
}
