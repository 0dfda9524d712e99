package partitioner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// moves is what a Producer knows of the moves that its table has open.
//
//	table: open ──▶ records of the unit queue ──▶ nothing in flight ──▶ no doubt ──▶ drained,
//	                     │                        (nor a transaction)   (barrier)    announced
//	table: ended ◀───────┴─ the queue leaves by the new table
//
// The records themselves close the gates, by the table that they are routed by;
// only the table opens them. All else here is to tell the coordinator when it
// may go on.
type moves struct {
	nudge  chan struct{} // lets watchMoves look
	opened signal        // fired when a gate may have opened
	late   atomic.Int64  // records that are answered and undecided

	mu sync.Mutex
	// guards open and, of each in it, drained
	open map[moveKey]*openMove
}

type moveKey struct{ topic, id string }

// openMove is a move that is open in the table.
type openMove struct {
	topic    string
	move     *routing.Move
	revision uint64 // of a table that has it
	since    time.Time
	log      *zap.Logger
	stop     context.CancelFunc
	drained  bool // nothing of its unit is in flight, nor will be until it ends
}

func newMoves() *moves {
	return &moves{nudge: make(chan struct{}, 1), open: map[moveKey]*openMove{}}
}

// wake lets watchMoves look at what has changed.
func (m *moves) wake() {
	select {
	case m.nudge <- struct{}{}:
	default:
	}
}

// drained lists the moves of whose units nothing is in flight.
func (m *moves) drained() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, o := range m.open {
		if o.drained {
			ids = append(ids, key.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// openByTopic counts the open moves of a topic.
func (m *moves) openByTopic(topic string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.open {
		if key.topic == topic {
			n++
		}
	}
	return n
}

// watchMoves follows the table's moves until the Producer ends.
func (p *Producer) watchMoves() {
	for {
		changed := p.src.Changed()
		table := p.src.Table()
		p.followMoves(table)
		p.openGates(table)
		var again <-chan time.Time
		if p.decideLate() > 0 {
			again = time.After(lookAgain)
		}
		select {
		case <-changed:
		case <-p.moves.nudge:
		case <-again:
		case <-p.ctx.Done():
			return
		}
	}
}

// followMoves begins to drain what has opened, and forgets what has ended.
func (p *Producer) followMoves(table *routing.Table) {
	p.moves.mu.Lock()
	defer p.moves.mu.Unlock()
	for _, name := range table.TopicNames() {
		topic, _ := table.Topic(name)
		if !topic.Moving() {
			continue
		}
		for _, m := range topic.Moves() {
			if _, known := p.moves.open[moveKey{name, m.ID}]; m.Open() && !known {
				p.moves.open[moveKey{name, m.ID}] = p.begun(name, m, table.Revision())
			}
		}
	}
	for key, o := range p.moves.open {
		if state := stateOf(table, key); state != routing.MovePrepared {
			o.stop()
			delete(p.moves.open, key)
			p.metrics.ended(key.topic, state)
			o.log.Info("move has ended", zap.Stringer("state", state), zap.Duration("open", time.Since(o.since)),
				zap.Bool("drained", o.drained))
		}
	}
}

// stateOf is how far a move is by a table. One that is not in it was aborted.
func stateOf(table *routing.Table, key moveKey) routing.MoveState {
	topic, ok := table.Topic(key.topic)
	if !ok {
		return routing.MoveAborted
	}
	m, ok := topic.Move(key.id)
	if !ok {
		return routing.MoveAborted
	}
	return m.State
}

func (p *Producer) begun(topic string, m *routing.Move, revision uint64) *openMove {
	ctx, stop := context.WithCancel(p.ctx)
	o := &openMove{
		topic: topic, move: m, revision: revision, since: time.Now(), stop: stop,
		log: p.cfg.Logger.With(zap.String("topic", topic), zap.Stringer("move", m), zap.Uint64("epoch", m.Epoch)),
	}
	p.lifecycle.start(func() {
		defer stop()
		p.drainMove(ctx, o)
	})
	return o
}

// openGates lets go whom the table does not hold back.
func (p *Producer) openGates(table *routing.Table) {
	for name, state := range p.topics.Range {
		topic, _ := table.Topic(name.(string))
		for i := range state.(*topicState).gates.shards {
			for _, g := range state.(*topicState).gates.shards[i].release(func(g *gate) bool { return covers(topic, g) }) {
				p.mayDrain(g, true)
			}
		}
	}
	p.moves.opened.fire()
}

// covers tells whether an open move holds the gate's tenant back in a topic,
// which may be nil.
func covers(topic *routing.Topic, g *gate) bool {
	if topic == nil || !topic.Moving() {
		return false
	}
	r := topic.Lookup([]byte(g.tenant), nil)
	return topic.OpenMove([]byte(g.tenant), r.Slot, r.Kind) != nil
}

// drainMove returns when a move is acknowledged, or has ended.
func (p *Producer) drainMove(ctx context.Context, o *openMove) {
	const first, last = 100 * time.Millisecond, 5 * time.Second
	inFlight, watches := p.unsettled(o)
	for pause := first; ; pause = min(2*pause, last) {
		err := p.settleMove(ctx, o, watches)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		o.log.Warn("move is not acknowledged yet", zap.Error(err), zap.Duration("retry", pause))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
	if !p.acknowledgeMove(ctx, o) {
		return
	}
	p.metrics.drained(o.topic, time.Since(o.since))
	o.log.Info("drained for a move", zap.Int64("in_flight", inFlight), zap.Duration("waited", time.Since(o.since)))
}

// acknowledgeMove is false when the move has ended before.
func (p *Producer) acknowledgeMove(ctx context.Context, o *openMove) bool {
	p.moves.mu.Lock()
	open := ctx.Err() == nil
	o.drained = open
	p.moves.mu.Unlock()
	if session := p.member.present(); open && session != nil {
		session.Announce()
	}
	return open
}

// settleMove returns when nothing of the unit can be written to its old home any
// more: no transaction of before is open, nothing is in flight, and what failed
// is known to be written or not.
func (p *Producer) settleMove(ctx context.Context, o *openMove, watches []watch) error {
	if err := p.awaitTransaction(ctx, o.revision); err != nil {
		return err
	}
	if err := awaitAll(ctx, watches); err != nil {
		return err
	}
	_, late := p.unsettled(o) // of a transaction that was open
	if err := awaitAll(ctx, late); err != nil {
		return err
	}
	return p.confirm(ctx, o.topic, o.move.From, routing.Control{Unit: routing.Unit{Tenant: o.move.Tenant}, Epoch: o.move.Epoch})
}

// unsettled counts what is in flight of a move's unit. Records are counted
// before they read the table again, and the table has had the move when this is
// called, so what is not counted now never leaves.
func (p *Producer) unsettled(o *openMove) (records int64, watches []watch) {
	state, ok := p.topics.Load(o.topic)
	if !ok {
		return 0, nil
	}
	gates := state.(*topicState).gates
	if tenant := o.move.Tenant; tenant != "" {
		return gates.shard([]byte(tenant)).unsettled(false, func(g *gate) bool { return g.tenant == tenant })
	}
	topic, ok := p.src.Table().Topic(o.topic)
	if !ok {
		return 0, nil
	}
	for i := range gates.shards {
		n, more := gates.shards[i].unsettled(true, func(g *gate) bool {
			return o.move.Covers(nil, topic.Lookup([]byte(g.tenant), nil).Slot, routing.KindSlot)
		})
		records, watches = records+n, append(watches, more...)
	}
	return records, watches
}

// awaitAll returns when all watches are done, or ctx ends.
func awaitAll(ctx context.Context, watches []watch) error {
	for i, w := range watches {
		if err := w.wait(ctx); err != nil {
			for _, other := range watches[i+1:] {
				other.drop()
			}
			return fmt.Errorf("records in flight: %w", err)
		}
	}
	return nil
}

// signal wakes whoever waits for its next firing.
type signal struct {
	mu sync.Mutex
	// guards next
	next chan struct{} // nil while nobody waits
}

func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
