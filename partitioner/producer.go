package partitioner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// Producer produces records to where a routing table places their tenants. It
// wraps a kgo.Client: it stamps each record with how it was routed, bounds what
// each tenant and each partition has in flight, and can hold one tenant back
// while its placement changes.
//
// Records of one tenant that one goroutine produces are written in that order,
// also across Pause, a change of the table and Resume.
//
// All methods are safe for concurrent use. Records that the client gets in
// another way, by client.Produce, are not stamped, counted or held back.
type Producer struct {
	client *kgo.Client
	own    *Partitioner
	src    store.Source
	cfg    ProducerConfig
	topic  string // of records without one
	// deliveryTimeout is the client's, 0 for none: nobody waits longer for the
	// decision about a late record.
	deliveryTimeout time.Duration
	metrics         *producerMetrics

	promise func(*kgo.Record, error) // answered, made once

	session [16]byte
	member  *membership
	seq     atomic.Uint64
	spread  spreader
	topics  sync.Map // by name: *topicState
	dests   sync.Map // by name: *dest

	budget                            budget
	waiting                           budget // of all queues
	tenantMax, partitionMax, queueMax limit

	moves *moves
	txn   transaction

	closing   chan struct{} // closed when no new record is taken
	ctx       context.Context
	cancel    context.CancelFunc // ends what waits for room and for metadata
	lifecycle lifecycle
	answers   *answerQueue
	pending   pending

	serial sync.Mutex
	// guards nothing here: it is held while a promise is called, because users
	// of kgo rely on one at a time
}

// NewProducer wraps a client that was made with [ClientOpts]. It refuses
// clients with which it could not keep its promises, naming the option. The
// client stays the caller's: close the Producer first, then the client.
//
// A source that keeps account of its producers (a store.Topic) gets this one
// registered. Records of topics with producers: wrapped wait until it is, and
// fail with store.ErrStaleTable while the registration's lease is not assured;
// all others go on by the last table, whatever becomes of its source.
//
// Topics that have fewer partitions than the table names are logged at start
// and whenever the table changes; see [CheckTopics].
func NewProducer(client *kgo.Client, src store.Source, cfg ProducerConfig) (*Producer, error) {
	own, err := checkClient(client)
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	cfg = cfg.withDefaults(client)
	if err = cfg.validate(client); err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	p := &Producer{
		client: client, own: own, src: src, cfg: cfg,
		closing: make(chan struct{}), answers: newAnswerQueue(), member: newMembership(src), moves: newMoves(),
		tenantMax:    limit{int64(cfg.MaxTenantRecords), cfg.MaxTenantBytes},
		partitionMax: limit{int64(cfg.MaxPartitionRecords), cfg.MaxPartitionBytes},
		queueMax:     limit{int64(cfg.MaxQueuedRecords), cfg.MaxQueuedBytes},
	}
	p.budget.full, p.budget.max = ErrTenantBackpressure, limit{int64(cfg.MaxRecords), cfg.MaxBytes}
	p.waiting.max = limit{int64(cfg.MaxWaitingRecords), cfg.MaxWaitingBytes}
	p.promise = p.answered
	p.topic, _ = client.OptValue(kgo.DefaultProduceTopic).(string)
	p.txn.possible = transactional(client)
	p.deliveryTimeout, _ = client.OptValue(kgo.RecordDeliveryTimeout).(time.Duration)
	if _, err = rand.Read(p.session[:]); err != nil {
		return nil, fmt.Errorf("producer: session id: %w", err)
	}
	if p.metrics, err = newProducerMetrics(p, cfg.Registerer); err != nil {
		return nil, fmt.Errorf("producer: metrics: %w", err)
	}
	own.producer.Store(true)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.answers.start(p.finish)
	p.lifecycle.start(p.watchTable)
	p.lifecycle.start(p.watchMoves)
	if p.member.with != nil {
		p.lifecycle.start(p.join)
	}
	return p, nil
}

// topicState is what a Producer keeps of a topic that records are produced to.
type topicState struct {
	name  string
	gates *gates
	own   *dest
	view  atomic.Pointer[topicView]
}

// topicView is a topic by one table.
type topicView struct {
	table  *routing.Table
	topic  *routing.Topic // nil when the table does not have it
	rule   routing.TenantRule
	shared []int32
}

func (p *Producer) topicOf(name string) *topicState {
	if t, ok := p.topics.Load(name); ok {
		return t.(*topicState)
	}
	t, _ := p.topics.LoadOrStore(name, &topicState{name: name, gates: newGates(&p.waiting), own: p.destOf(name)})
	return t.(*topicState)
}

func (p *Producer) destOf(name string) *dest {
	if d, ok := p.dests.Load(name); ok {
		return d.(*dest)
	}
	d, _ := p.dests.LoadOrStore(name, newDest(name))
	return d.(*dest)
}

// by gives the topic by a table. Views are kept, since tables change rarely.
func (t *topicState) by(table *routing.Table) *topicView {
	v := t.view.Load()
	if v != nil && v.table == table {
		return v
	}
	v = &topicView{table: table}
	if v.topic, _ = table.Topic(t.name); v.topic != nil {
		v.rule, v.shared = v.topic.TenantRule(), v.topic.Shared()
	}
	t.view.Store(v)
	return v
}

// Session is the id that this Producer's records carry in their tl-route
// header.
func (p *Producer) Session() [16]byte { return p.session }

// Revision is that of the table by which records are routed now.
func (p *Producer) Revision() uint64 { return p.src.Table().Revision() }

// WaitRevision returns when records are routed by a table of that revision or
// a later one, or ctx ends.
func (p *Producer) WaitRevision(ctx context.Context, revision uint64) error {
	for {
		changed := p.src.Changed()
		if p.Revision() >= revision {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("producer: waiting for table revision %d, at %d: %w", revision, p.Revision(), ctx.Err())
		}
	}
}

// Pause holds a tenant of a topic back: its new records wait in a bounded
// queue, then fail with ErrTenantMoving. What is in flight already goes on; see
// InFlight and Settle. Pausing twice is the same as once. A live move of the
// tenant holds it back too, by itself: then its records wait until both let go.
func (p *Producer) Pause(topic string, tenant []byte) {
	p.shard(topic, tenant).close(tenant)
	p.cfg.Logger.Info("tenant held back", zap.String("topic", topic), zap.ByteString("tenant", tenant))
}

// Resume lets a tenant's records leave again: first those that waited, in their
// order and by the table of now, then new ones. It does not wait for that.
func (p *Producer) Resume(topic string, tenant []byte) {
	s := p.shard(topic, tenant)
	p.reopen(topic, s, tenant, s.closing(tenant))
}

// ResumeAt is Resume once records are routed by a table of that revision or a
// later one. It returns at once; another Pause in between makes it void.
func (p *Producer) ResumeAt(topic string, tenant []byte, revision uint64) {
	s, tenant := p.shard(topic, tenant), slices.Clone(tenant)
	closing := s.closing(tenant)
	if p.Revision() >= revision {
		p.reopen(topic, s, tenant, closing)
		return
	}
	p.lifecycle.start(func() {
		if p.WaitRevision(p.ctx, revision) == nil {
			p.reopen(topic, s, tenant, closing)
		}
	})
}

func (p *Producer) reopen(topic string, s *shard, tenant []byte, closing uint64) {
	g, drain := s.reopen(tenant, closing)
	p.mayDrain(g, drain)
	p.moves.opened.fire()
	p.cfg.Logger.Info("tenant let go", zap.String("topic", topic), zap.ByteString("tenant", tenant))
}

// InFlight is how many of the tenant's records kgo has and has not answered.
// Records that wait because of Pause, or for room, are not among them.
func (p *Producer) InFlight(topic string, tenant []byte) int {
	return p.shard(topic, tenant).inFlight(tenant)
}

// Settle returns when every record of the tenant that was sent is known to be
// written or not, or ctx ends: nothing is in flight, and where a record failed
// last, a control record behind it keeps it from being written late. Pause
// first, or more may follow.
func (p *Producer) Settle(ctx context.Context, topic string, tenant []byte) error {
	s := p.shard(topic, tenant)
	_, watches := s.unsettled(false, func(g *gate) bool { return g.tenant == string(tenant) })
	if err := awaitAll(ctx, watches); err != nil {
		return fmt.Errorf("producer: %d records of tenant %q in topic %s still in flight: %w",
			p.InFlight(topic, tenant), tenant, topic, err)
	}
	route, name, ok := p.src.Table().Route(topic, tenant, nil)
	if !ok {
		return nil
	}
	return p.confirm(ctx, name, route.Partitions, routing.Control{Unit: routing.Unit{Tenant: string(tenant)}, Epoch: route.Epoch})
}

func (p *Producer) shard(topic string, tenant []byte) *shard {
	return p.topicOf(topic).gates.shard(tenant)
}

// Flush returns when every record that was handed in has had its promise
// called, those held back by Pause or a move included, or ctx ends. Like kgo's it ends
// lingering and may be called at any time.
func (p *Producer) Flush(ctx context.Context) error {
	err := p.client.Flush(ctx)
	if err == nil {
		err = p.pending.wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("producer: flush with %d records unanswered: %w", p.pending.count.Load(), err)
	}
	return nil
}

// Close takes no more records, waits for those that it has, and ends. When ctx
// ends first, records that kgo does not have yet fail with ErrClosed, and those
// that it has are left to it: closing the client ends them. Close does not
// close the client.
func (p *Producer) Close(ctx context.Context) error {
	if !p.lifecycle.close(p.closing) {
		return nil
	}
	err := p.Flush(ctx)
	p.cancel()
	p.lifecycle.stop()
	p.failQueued()
	p.answers.close()
	p.metrics.unregister()
	return errors.Join(err, p.leaveSession(ctx, err == nil))
}
