package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kzap"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/consumer/refetch"
	"github.com/tenantlane/tenantlane/rebalance"
)

const (
	// startTimeout bounds the look at brokers and topics when Run begins.
	startTimeout = 15 * time.Second
	// commitTimeout bounds one commit, a last one with its repetitions, and leaving the group.
	commitTimeout = 5 * time.Second
	// hurriedTimeout bounds them after StopNow.
	hurriedTimeout = time.Second
	// handlerGrace is how long handlers have to return once their contexts
	// have ended.
	handlerGrace = time.Second
)

var (
	// ErrTopicMissing is wrapped by Run's error when a topic does not exist.
	ErrTopicMissing = errors.New("topic does not exist")
	// ErrAlreadyRun is Run's error when it is called a second time.
	ErrAlreadyRun = errors.New("a Runtime runs once")
)

// Runtime consumes topics as a member of a group and handles each tenant's
// records in order. Make it with New, then call Run.
type Runtime struct {
	cfg     Config
	engine  *engine
	metrics *metrics
	log     *zap.Logger

	connected chan struct{} // closed once client and begins are set
	client    *kgo.Client
	begins    *beginnings

	barrier barrier
	polled  atomic.Int64  // when the poll loop last came round, Unix nanoseconds
	paused  atomic.Int32  // partitions that the poll loop has paused
	kick    chan struct{} // a token makes the committer commit at once
	remade  chan string   // a topic of letters that was deleted and made again
	turn    chan struct{} // held by who commits: one commit at a time
	hurry   context.Context
	stopNow context.CancelFunc
	once    atomic.Bool
	joined  atomic.Bool // the group has answered what is this worker's
	ending  atomic.Bool // it drains, and does not poll any more
	stopped atomic.Bool // the workers have ended: nothing more to drain
	final   atomic.Bool // the last commit is made, or was given up

	registered []prometheus.Collector

	mu sync.Mutex
	// guards metadata
	metadata map[topicPartition]string // of the commits last fetched
}

// New checks the configuration and makes a Runtime. Nothing is connected yet.
// The error names the field that is wrong.
func New(cfg Config, h Handler) (*Runtime, error) {
	if h == nil {
		return nil, errors.New("consumer.New: the handler is nil")
	}
	return newRuntime(cfg, h, nil)
}

// NewBatch is New for a handler that takes several records of a lane at once.
func NewBatch(cfg Config, h BatchHandler) (*Runtime, error) {
	if h == nil {
		return nil, errors.New("consumer.NewBatch: the handler is nil")
	}
	return newRuntime(cfg, nil, h)
}

func newRuntime(cfg Config, h Handler, batch BatchHandler) (*Runtime, error) {
	cfg = cfg.withDefaults()
	cfg.batched = batch != nil
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	rt := &Runtime{
		cfg: cfg, metrics: newMetrics(), log: cfg.Logger.With(zap.String("group", cfg.Group)),
		connected: make(chan struct{}), kick: make(chan struct{}, 1), remade: make(chan string, 1), turn: make(chan struct{}, 1),
		metadata: map[topicPartition]string{},
	}
	rt.cfg.Logger = rt.log
	rt.hurry, rt.stopNow = context.WithCancel(context.Background())
	rt.polled.Store(time.Now().UnixNano())
	var err error
	if rt.engine, err = newEngine(&rt.cfg, h, rt.metrics, rt.produce); err != nil {
		return nil, err
	}
	rt.engine.batch = batch
	rt.engine.moves.kick = rt.kickCommit
	if err := kgo.ValidateOpts(rt.clientOpts()...); err != nil {
		return nil, fmt.Errorf("consumer.Config: KafkaOpts: %w", err)
	}
	if err := kgo.ValidateOpts(rt.rereadOpts()...); err != nil {
		return nil, fmt.Errorf("consumer.Config: KafkaOpts must not hold options of a group: %w", err)
	}
	return rt, rt.register()
}

// clientOpts are defaults that KafkaOpts may change, KafkaOpts, and what the
// runtime depends on.
func (rt *Runtime) clientOpts() []kgo.Opt {
	return slices.Concat([]kgo.Opt{
		// An idle partition's long poll delays what becomes fetchable behind
		// it: 3.5 s were measured at the client's default of 5 s.
		kgo.FetchMaxWait(250 * time.Millisecond),
		// New partitions are seen at the next refresh, which the client's
		// default puts off by 5 minutes.
		kgo.MetadataMaxAge(30 * time.Second),
		// A lane waits for its letter, so the client's default linger of 10 ms
		// kept a lane of dead letters to 88 a second.
		kgo.ProducerLinger(0),
		kgo.WithLogger(kzap.New(rt.log.Named("kgo"), kzap.Level(kgo.LogLevelWarn))),
	}, rt.cfg.KafkaOpts, []kgo.Opt{
		kgo.ConsumerGroup(rt.cfg.Group),
		kgo.ConsumeTopics(rt.cfg.Topics...),
		kgo.RebalanceTimeout(rt.cfg.RebalanceTimeout),
		kgo.DisableAutoCommit(),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(likeOrigin)),
		// Without them a transaction's markers at the end of a partition
		// leave a lag that never goes.
		kgo.KeepControlRecords(),
		kgo.OnPartitionsAssigned(rt.onAssigned),
		kgo.OnPartitionsRevoked(rt.onRevoked),
		kgo.OnPartitionsLost(rt.onLost),
		kgo.OnOffsetsFetched(rt.onOffsetsFetched),
		kgo.AdjustFetchOffsetsFn(rt.adjustOffsets),
	}, rt.memberOpts())
}

// reusing lets the client use records' memory again, unless handlers may keep
// them, or hooks of KafkaOpts see them too: these may keep what is in their
// contexts.
func (rt *Runtime) reusing(opts []kgo.Opt) ([]kgo.Opt, error) {
	if rt.cfg.KeepRecords {
		return opts, nil
	}
	probe, err := kgo.NewClient(rt.rereadOpts()...)
	if err != nil {
		return nil, err
	}
	defer probe.Close()
	hooks, _ := probe.OptValue(kgo.WithHooks).([]kgo.Hook)
	pools, _ := probe.OptValue(kgo.WithPools).([]kgo.Pool)
	if len(pools) > 0 || slices.ContainsFunc(hooks, seesRecords) {
		return opts, nil
	}
	rt.engine.slabs = &slabs{}
	return append(opts, kgo.WithPools(rt.engine.slabs)), nil
}

func seesRecords(h kgo.Hook) bool {
	switch h.(type) {
	case kgo.HookFetchRecordBuffered, kgo.HookFetchRecordUnbuffered:
		return true
	}
	return false
}

// memberOpts say what kind of member the worker is.
func (rt *Runtime) memberOpts() []kgo.Opt {
	opts := []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
	switch {
	case rt.cfg.ServerAssignor:
		// The client asks brokers to assign only with one of their own.
		opts = []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}
	case rt.cfg.SpreadWhales:
		opts = []kgo.Opt{kgo.Balancers(rebalance.NewBalancer(rebalance.BalancerConfig{Table: rt.cfg.Table}))}
	}
	if rt.cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(rt.cfg.InstanceID))
	}
	return opts
}

// rereadOpts are those of the client that reads again.
func (rt *Runtime) rereadOpts() []kgo.Opt {
	return slices.Concat([]kgo.Opt{
		kgo.WithLogger(kzap.New(rt.log.Named("reread"), kzap.Level(kgo.LogLevelWarn))),
	}, rt.cfg.KafkaOpts)
}

// readCommitted says whether KafkaOpts ask for that isolation level.
func (rt *Runtime) readCommitted() bool {
	level, ok := rt.client.OptValue(kgo.FetchIsolationLevel).(int8)
	return ok && level == 1
}

// wakePoll ends a poll under way when the loop has something else to do. It also
// makes the client forget topics of letters that were deleted and made again,
// which the client does not get over by itself: a promise may not wait for that.
func (rt *Runtime) wakePoll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-rt.engine.attention:
			rt.barrier.interrupt()
		case letters := <-rt.remade:
			rt.client.PurgeTopicsFromProducing(letters)
		}
	}
}

// ignoredMetadata notes that a commit's metadata does not count.
func (rt *Runtime) ignoredMetadata(tp topicPartition, why offset.Reason) {
	if why == offset.Empty {
		return
	}
	rt.metrics.ignored.WithLabelValues(why.String()).Inc()
	rt.log.Info("the metadata of a commit is ignored", zap.String("topic", tp.topic), zap.Int32("partition", tp.id),
		zap.Stringer("reason", why))
}

// Run consumes until ctx ends. Then it drains: what is in the worker is
// handled, within Config.DrainTimeout, progress is committed, and the group is
// left. StopNow cuts that short. It returns nil after a stop that was asked
// for, ErrStuckHandler if handlers did not return, and an error when brokers
// or topics cannot be reached at the start. A Runtime runs once.
func (rt *Runtime) Run(ctx context.Context) error {
	if rt.once.Swap(true) {
		return ErrAlreadyRun
	}
	defer rt.stopNow()
	defer rt.unregister()
	opts, err := rt.reusing(rt.clientOpts())
	if err != nil {
		return fmt.Errorf("making the Kafka client: %w", err)
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("making the Kafka client: %w", err)
	}
	rt.client = client
	rt.begins = newBeginnings(kadm.NewClient(client), &rt.cfg, rt.ignoredMetadata)
	close(rt.connected)
	again, err := refetch.New(rt.readCommitted(), rt.rereadOpts()...)
	if err == nil {
		defer again.Close()
		err = rt.check(ctx)
	}
	if err != nil {
		rt.stopped.Store(true)
		rt.final.Store(true)
		rt.leave()
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() { rt.engine.clock(background) })
	group.Go(func() { rt.commitLoop(background) })
	group.Go(func() { rt.followTable(background) })
	group.Go(func() { rt.followMoves(background) })
	group.Go(func() { rt.followEnd(background) })
	for range rereaders {
		group.Go(func() { rt.engine.reread(background, again) })
	}
	group.Go(func() { rt.wakePoll(background) })
	handlers, endHandlers := context.WithCancel(rt.hurry)
	rt.engine.start(handlers)
	rt.poll(ctx)
	rt.ending.Store(true)
	drainEnd := time.Now().Add(rt.cfg.DrainTimeout)
	err = rt.drainAll(endHandlers)
	cancel()
	group.Wait()
	rt.finalCommit(drainEnd)
	rt.leave()
	return err
}

// StopNow makes Run return soon: handlers' contexts end at once, and what they
// leave undone is handled again by whoever consumes next. Safe at any time,
// from any goroutine.
func (rt *Runtime) StopNow() { rt.stopNow() }

// check makes sure that brokers answer and topics exist.
func (rt *Runtime) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(rt.hurry, cancel)
	defer stop()
	topics, err := rt.begins.admin.ListTopics(ctx, rt.cfg.Topics...)
	if err != nil {
		return fmt.Errorf("asking brokers for topics %v: %w", rt.cfg.Topics, err)
	}
	for _, name := range rt.cfg.Topics {
		if !topics.Has(name) {
			return fmt.Errorf("topic %s: %w", name, ErrTopicMissing)
		}
	}
	return nil
}

// drainAll finishes what is in the worker, and ends the workers.
func (rt *Runtime) drainAll(endHandlers context.CancelFunc) error {
	ctx, cancel := rt.drainContext()
	defer cancel()
	rt.engine.drain(ctx, rt.engine.owned(nil))
	if n := rt.engine.left(); n > 0 {
		rt.log.Warn("stopping with records unfinished: they will be handled again", zap.Int("records", n))
	}
	err := rt.engine.stop(endHandlers, handlerGrace)
	rt.stopped.Store(true)
	return err
}

// drainContext ends at the drain deadline, or when the stop is hurried.
func (rt *Runtime) drainContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(rt.hurry, max(rt.cfg.DrainTimeout, 0))
}

// finalCommit may take what is left of the drain's time, and commitTimeout in
// any case: it waits for a join under way, in which other members hand over.
func (rt *Runtime) finalCommit(drainEnd time.Time) {
	parts := rt.engine.owned(nil)
	if rt.hurry.Err() == nil {
		if least := time.Now().Add(commitTimeout); drainEnd.Before(least) {
			drainEnd = least
		}
		ctx, cancel := context.WithDeadline(rt.hurry, drainEnd)
		rt.commitUntilAcknowledged(ctx, parts)
		cancel()
	}
	if rt.hurry.Err() != nil {
		ctx, cancel := rt.lastContext()
		rt.commitUntilAcknowledged(ctx, parts)
		cancel()
	}
	rt.final.Store(true)
}

// lastContext bounds the last requests.
func (rt *Runtime) lastContext() (context.Context, context.CancelFunc) {
	if rt.hurry.Err() != nil {
		return context.WithTimeout(context.Background(), hurriedTimeout)
	}
	return context.WithTimeout(context.Background(), commitTimeout)
}

// leave leaves the group and closes the client, also when no broker answers.
func (rt *Runtime) leave() {
	ctx, cancel := rt.lastContext()
	defer cancel()
	if err := rt.client.LeaveGroupContext(ctx); err != nil {
		rt.log.Warn("leaving the group", zap.Error(err))
	}
	rt.client.Close()
	rt.engine.close(rt.engine.owned(nil))
}

// produce is the engine's letterbox. The write outlives a stop's contexts: it
// ends when the client is closed.
func (rt *Runtime) produce(letter *kgo.Record, done func(error)) {
	rt.client.Produce(context.Background(), letter, func(_ *kgo.Record, err error) {
		if errors.Is(err, kerr.UnknownTopicID) {
			select {
			case rt.remade <- letter.Topic:
			default: // the next letter to fail says so again
			}
		}
		done(err)
	})
}

// followTable applies the table's changes to tenants that have work.
func (rt *Runtime) followTable(ctx context.Context) {
	if rt.cfg.Table == nil {
		return
	}
	for {
		changed := rt.cfg.Table.Changed()
		rt.engine.applyTable()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
