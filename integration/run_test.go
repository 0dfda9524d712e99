package integration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/internal/testkit"
	"github.com/tenantlane/tenantlane/internal/wire"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance"
)

const (
	partitions = 8
	records    = 12_000 // of a run, before bursts
	whale      = 0      // index of the population's largest tenant, placed by itself
	// A dead member's partitions are free after its session; brokers allow no
	// shorter one by default.
	sessionTimeout = 6 * time.Second
)

// run is one topic with what produces to it and what works on it, and
// everything that they said happened.
type run struct {
	t       *testing.T
	broker  broker
	topic   string
	group   string
	tenants load.Population
	table   *store.File
	check   *check.Checker

	client   *kgo.Client
	producer *partitioner.Producer
	workers  []*worker
	handled  atomic.Int64 // handlings, repeats too
	strays   atomic.Int64 // records outside the partition that any table named
	report   check.Report // once settled

	mu sync.Mutex
	// guards placed
	placed []*routing.Table // tables that held during the run
}

func newRun(t *testing.T, b broker) *run {
	t.Helper()
	population, err := load.DefaultPopulation()
	if err != nil {
		t.Fatal(err)
	}
	r := &run{
		t: t, broker: b, topic: b.topic(t, partitions), group: unique(t, "group"),
		tenants: population, check: check.New(),
	}
	r.table = r.openTable(routing.TopicSpec{
		Partitions: partitions, Epoch: 1,
		Shared:     []int32{0, 1, 2, 3, 4, 5},
		Placements: map[string]routing.Placement{r.tenants.Tenants[whale].Tenant: {Partitions: []int32{6}, Epoch: 1}},
	})
	r.placed = []*routing.Table{r.table.Table()}
	r.client = b.client(t, partitioner.ClientOpts(r.table, partitioner.Config{})...)
	r.producer, err = partitioner.NewProducer(r.client, r.table, partitioner.ProducerConfig{Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := r.producer.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *run) openTable(spec routing.TopicSpec) *store.File {
	r.t.Helper()
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{r.topic: spec}})
	if err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.t.TempDir(), "routing.yaml")
	writeTable(r.t, file, table)
	opened, err := store.OpenFile(context.Background(), file, store.FileConfig{Interval: 20 * time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return opened
}

// source is one producing application: its sequences go on from send to send.
type source struct {
	run   *run
	load  load.Generator
	sends uint64
}

// source returns a new one. Its name must be new in this run.
func (r *run) source(name string) *source {
	return &source{run: r, load: load.Generator{
		Producer: r.producer,
		Recorder: &load.Recorder{Topic: r.topic, Producer: name, Table: r.table},
		Acknowledged: func(h check.Handling, _ time.Time) error {
			r.check.Produced(h.ID, h.Seq)
			return nil
		},
	}}
}

// produce sends count records from a new source, and fails the test if that
// fails.
func (r *run) produce(name string, count int64, bursts ...load.Burst) {
	r.t.Helper()
	if err := r.source(name).send(count, bursts...); err != nil {
		r.t.Fatal(err)
	}
}

// send sends count records of the population, and the bursts among them, and
// returns when the broker has acknowledged all.
func (s *source) send(count int64, bursts ...load.Burst) error {
	s.sends++
	mix, err := load.NewMix(s.run.tenants, count, bursts, s.sends)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.run.t.Context(), 2*time.Minute)
	defer cancel()
	result, err := s.load.Run(ctx, mix)
	if err = errors.Join(err, result.First); err != nil {
		return fmt.Errorf("%d records produced, %d failed: %w", result.Produced, result.Errors, err)
	}
	return nil
}

// worker is one process's consumer runtime.
type worker struct {
	name    string
	runtime *consumer.Runtime
	handled atomic.Int64
	wire    wire.Wire
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // once done
}

func (w *worker) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// behavior is what a scenario makes of the handler: it runs before the
// handling is noted, and its error is the handler's.
type behavior func(ctx context.Context, r *consumer.Record) error

// start adds a worker to the group.
func (r *run) start(behave behavior) *worker {
	r.t.Helper()
	w := &worker{name: fmt.Sprintf("worker-%d", len(r.workers)+1), done: make(chan struct{})}
	var err error
	w.runtime, err = consumer.New(consumer.Config{
		Group: r.group, Topics: []string{r.topic}, Table: r.table, Concurrency: 16,
		CommitInterval: 100 * time.Millisecond,
		Retry:          consumer.Retry{Min: time.Millisecond, Max: 10 * time.Millisecond},
		KafkaOpts: []kgo.Opt{
			kgo.SeedBrokers(r.broker.addrs...), kgo.ClientID(w.name), kgo.Dialer(w.wire.Dial),
			kgo.SessionTimeout(sessionTimeout), kgo.HeartbeatInterval(500 * time.Millisecond),
		},
		OnCommit: func(commits []consumer.Committed) {
			for _, c := range commits {
				r.check.Committed(w.name, check.Commit{Partition: c.Partition, Offset: c.Offset})
			}
		},
		Logger: testLogger(r.t),
	}, func(ctx context.Context, record *consumer.Record) error { return r.handle(ctx, w, record, behave) })
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	var owner sync.WaitGroup
	owner.Go(func() {
		defer close(w.done)
		w.err = w.runtime.Run(ctx)
	})
	r.workers = append(r.workers, w)
	r.t.Cleanup(func() {
		w.runtime.StopNow()
		cancel()
		owner.Wait()
	})
	return w
}

func (r *run) handle(ctx context.Context, w *worker, record *consumer.Record, behave behavior) error {
	if behave != nil {
		if err := behave(ctx, record); err != nil {
			return err
		}
	}
	value, err := load.Decode(record.Value)
	if err != nil {
		return err
	}
	if !r.placedAt(value.Tenant, record) {
		r.strays.Add(1)
	}
	r.check.Handled(check.Handling{
		Process: w.name, ID: value.ID, Seq: value.Seq, Partition: record.Partition, Offset: record.Offset,
		Attempt: record.Attempt, Assignment: record.Token.Epoch,
	})
	r.handled.Add(1)
	w.handled.Add(1)
	return nil
}

// placedAt reports whether a table of this run sends the tenant there. A table
// is switched before the first record goes by it.
func (r *run) placedAt(tenant string, record *consumer.Record) bool {
	now := r.table.Table()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.placed[len(r.placed)-1] != now {
		r.placed = append(r.placed, now)
	}
	for _, table := range r.placed {
		if topic, ok := table.Topic(r.topic); ok && topic.Lookup([]byte(tenant), record.Key).Partition == record.Partition {
			return true
		}
	}
	return false
}

// move moves a tenant to a partition, holding its producers back meanwhile.
func (r *run) move(tenant string, to int32) {
	r.t.Helper()
	coordinator, err := rebalance.NewCoordinator(rebalance.CoordinatorConfig{
		Client: r.client, Table: r.table, Producers: []rebalance.Pauser{r.producer}, Logger: testLogger(r.t),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	report, err := coordinator.MoveStopped(r.t.Context(), rebalance.StoppedMove{
		Topic: r.topic, Tenant: tenant, To: []int32{to}, DrainTimeout: 30 * time.Second,
	})
	if err != nil || report.State != rebalance.StateDone || !slices.Equal(report.Groups, []string{r.group}) {
		r.t.Fatalf("move of %q to partition %d: %+v, %v", tenant, to, report, err)
	}
	topic, _ := r.table.Table().Topic(r.topic)
	if at := topic.Lookup([]byte(tenant), nil).Partition; at != to {
		r.t.Errorf("tenant %q is at partition %d after its move to %d", tenant, at, to)
	}
}

// stop ends a worker as a deployment does, and returns when it has left.
func (r *run) stop(w *worker) {
	r.t.Helper()
	w.cancel()
	select {
	case <-w.done:
	case <-time.After(time.Minute):
		r.t.Fatalf("%s does not stop", w.name)
	}
	if w.err != nil {
		r.t.Errorf("%s ended with %v", w.name, w.err)
	}
}

// awaitShare waits until each of the workers has handled that many more
// records, so that what happens next happens to a worker at work.
func (r *run) awaitShare(more int64, workers ...*worker) {
	r.t.Helper()
	ctx := deadline(r.t, time.Minute)
	for _, w := range workers {
		goal := w.handled.Load() + more
		if !testkit.Poll(ctx, func() bool { return w.handled.Load() >= goal || w.ended() }) || w.ended() {
			r.t.Fatalf("%s has handled %d records, not %d: %s", w.name, w.handled.Load(), goal, r.situation())
		}
	}
}

// situation says who has what and how far the group is, for a test that waited
// in vain.
func (r *run) situation() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var text strings.Builder
	for _, w := range r.workers {
		fmt.Fprintf(&text, "\n  %s handled %d", w.name, w.handled.Load())
		if w.ended() {
			fmt.Fprintf(&text, " and ended: %v", w.err)
		}
	}
	adm := kadm.NewClient(r.client)
	groups, err := adm.DescribeGroups(ctx, r.group)
	fmt.Fprintf(&text, "\n  group is %s %v", groups[r.group].State, err)
	for _, m := range groups[r.group].Members {
		assigned, _ := m.Assigned.AsConsumer()
		fmt.Fprintf(&text, "\n  member %s has %v", m.ClientID, assigned)
	}
	fmt.Fprintf(&text, "\n%v", uncommitted(ctx, adm, r.group, r.topic))
	return text.String()
}

// settle waits until the group has committed all that was produced, stops the
// workers and judges. Without that wait, records on their way would count as
// lost; if the group never gets there, that is said by the guarantee "every
// record is committed".
func (r *run) settle() error {
	r.t.Helper()
	left := awaitCommits(deadline(r.t, 90*time.Second), r.client, r.group, r.topic)
	for _, w := range r.workers {
		r.stop(w)
	}
	r.report = r.check.Report()
	return left
}

// awaitCommits waits until the group has committed all of the topic. If ctx
// ends first it says what is left.
func awaitCommits(ctx context.Context, client *kgo.Client, group, topic string) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		left := uncommitted(ctx, kadm.NewClient(client), group, topic)
		if left == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return left
		}
	}
}

// uncommitted says in which partitions the group's commit is below the end.
func uncommitted(ctx context.Context, adm *kadm.Client, group, topic string) error {
	commits, err := adm.FetchOffsetsForTopics(ctx, group, topic)
	if err != nil {
		return err
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	var errs []error
	ends.Each(func(end kadm.ListedOffset) {
		commit, _ := commits.Lookup(end.Topic, end.Partition)
		if errors.Join(end.Err, commit.Err) != nil || max(commit.At, 0) < end.Offset {
			errs = append(errs, fmt.Errorf("partition %d: committed %d of %d (%w)", end.Partition, commit.At, end.Offset, errors.Join(end.Err, commit.Err, errBehind)))
		}
	})
	return errors.Join(errs...)
}

var errBehind = errors.New("behind")

func testLogger(t *testing.T) *zap.Logger {
	t.Helper()
	return zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
}
