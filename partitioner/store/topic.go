package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Topic is a [Source] that follows a compacted Kafka topic and can change the
// table in it. Create one with [OpenTopic].
//
// What the records mean is decided in [routing.Replay]; here they are fetched,
// counted against the topic's end, and published.
type Topic struct {
	*view
	cfg     TopicConfig
	client  *kgo.Client // for requests, sessions and leases; the reader and the writer have their own
	admin   *kadm.Client
	metrics *viewMetrics
	life    context.Context // of what runs in the background
	stop    context.CancelFunc
	running sync.WaitGroup
	writer  writer
	fresh   atomic.Pointer[time.Time] // asOf, for sessions to read without mu
	leases  leases
	logs    atomic.Uint64 // how often the log was begun, for sessions to find out that it may be another one

	forbidden sync.Once // says that this client may not abort moves

	mu sync.Mutex
	// guards everything below
	replay    *routing.Replay
	position  int64              // next offset to apply
	moved     chan struct{}      // closed and replaced when anything here changes
	probe     probe              // the latest look at the end that the position has not reached
	asOf      time.Time          // the latest look at the end that it has
	bad       error              // why the view is not the topic's table; nil if it is
	loading   bool               // reading from the start, up to where a probe found the end
	openSince time.Time          // since when everything is read and yet not settled; zero if it is
	foreign   bool               // what is not settled belongs to no transaction
	interrupt context.CancelFunc // makes the reader start again
	kick      chan struct{}      // makes the next heartbeat come at once; not guarded
	prepared  map[string]uint64  // open moves, and how many records were read when they were first seen
	versions  map[uint64]uint64  // ids of the versions read lately, by revision
	same      *routing.Table     // of what was read, says what the published one says; nil if that is itself
}

// probe is a look at the topic's end: whoever has read up to end knows all that
// was committed before at.
type probe struct {
	at  time.Time
	end int64
}

// OpenTopic reads the table from its topic, to the end, and follows it until
// Close is called or ctx ends. It fails, rather than route by something that
// may not be the table, when the topic is missing, has not exactly one
// partition, is not compacted (as far as the cluster lets this client see
// that), holds no table ([routing.ErrNoTable]) or one that this program does
// not understand ([routing.ErrNewer]).
func OpenTopic(ctx context.Context, cfg TopicConfig) (*Topic, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("routing table: %w", err)
	}
	empty, err := routing.NewTable(routing.Spec{})
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(cfg.opts(
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),        // a control path: what is sent is waited for
		kgo.DisableIdempotentWrite(), // registrations and leases may come twice, but must give up in time
	)...)
	if err != nil {
		return nil, fmt.Errorf("routing table: Kafka client: %w", err)
	}
	t := &Topic{
		view: newView(empty), cfg: cfg, client: client, admin: kadm.NewClient(client), life: ctx, stop: func() {}, writer: newWriter(), leases: newLeases(),
		replay: routing.NewReplay(), moved: make(chan struct{}), loading: true, interrupt: func() {}, kick: make(chan struct{}, 1), versions: map[uint64]uint64{},
	}
	if t.metrics, err = newViewMetrics(t, cfg.Registerer); err != nil {
		client.Close()
		return nil, fmt.Errorf("routing table: metrics: %w", err)
	}
	if err := t.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("routing table: %w", err), t.Close())
	}
	return t, nil
}

func (t *Topic) open(ctx context.Context) error {
	life, stop := context.WithCancel(ctx)
	t.life, t.stop = life, stop
	loading, done := context.WithTimeout(ctx, t.cfg.LoadTimeout)
	defer done()
	if err := t.prepareTopics(loading); err != nil {
		return err
	}
	began := time.Now()
	t.running.Go(func() { t.follow(life) })
	t.running.Go(func() { t.heartbeats(life) })
	if !t.cfg.LeaveExpired {
		t.running.Go(func() { t.abortExpired(life) })
	}
	if err := t.awaitFirst(loading); err != nil {
		return err
	}
	t.cfg.Logger.Info("routing table loaded", zap.String("topic", t.cfg.RoutingTopic()),
		zap.Uint64("revision", t.Table().Revision()), zap.Duration("took", time.Since(began)))
	return nil
}

// awaitFirst waits for the first load, or for what makes it impossible.
func (t *Topic) awaitFirst(ctx context.Context) error {
	return t.await(ctx, "the first load", func() (bool, error) {
		switch {
		case t.bad != nil && !errors.Is(t.bad, errPassing) && !errors.Is(t.bad, routing.ErrTorn) && !errors.Is(t.bad, ErrForeign):
			return false, t.bad
		case t.loading:
			return false, nil
		}
		return !t.asOf.IsZero(), nil
	})
}

// Close stops following the topic and closes the store's clients. The last
// table stays readable. Close sessions first.
func (t *Topic) Close() error {
	t.leases.end()
	t.stop()
	t.running.Wait()
	t.writer.close()
	t.client.Close()
	t.metrics.unregister()
	return nil
}

// Age is the time since which the table may have changed without this view
// having seen it: how long ago the topic's end was last looked up that has been
// read since. It is the larger of what the two clocks say.
func (t *Topic) Age() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return passed(t.asOf)
}

// passed is the time since at, by the larger of the wall and the monotonic
// clock: Linux's monotonic clock stops while the machine is suspended.
func passed(at time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(at), now.Round(0).Sub(at.Round(0)))
}

// Err returns why the table is not the topic's present one, or nil if it is as
// far as Age tells.
func (t *Topic) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bad
}

// Sync reads to where the topic ends now, and returns with the table of then
// or a later one published.
func (t *Topic) Sync(ctx context.Context) error {
	end, err := t.end(ctx)
	if err != nil {
		return err
	}
	return t.awaitPosition(ctx, end)
}

// awaitPosition waits until everything before end is published.
func (t *Topic) awaitPosition(ctx context.Context, end int64) error {
	return t.await(ctx, fmt.Sprintf("reading topic %s up to offset %d", t.cfg.RoutingTopic(), end), func() (bool, error) {
		return !t.loading && t.position >= end && t.usable(), nil
	})
}

// usable tells whether the published table is that of what was read; mu is
// held.
func (t *Topic) usable() bool {
	if t.foreign {
		return errors.Is(t.bad, ErrForeign)
	}
	return t.replay.Settled() && t.bad == nil
}

// await waits for a state of what mu guards; done is called with mu held.
func (t *Topic) await(ctx context.Context, what string, done func() (bool, error)) error {
	for {
		t.mu.Lock()
		moved, bad, position := t.moved, t.bad, t.position
		ok, err := done()
		t.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			err := fmt.Errorf("%s, now at offset %d: %w", what, position, ctx.Err())
			if bad != nil {
				err = fmt.Errorf("%w (%w)", err, bad)
			}
			return err
		}
	}
}

// changed wakes whoever awaits; mu is held.
func (t *Topic) changed() {
	close(t.moved)
	t.moved = make(chan struct{})
}
