package rebalance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// memTable is a LiveTable in memory that fails as it is told.
type memTable struct {
	mu sync.Mutex
	// guards everything below
	table    *routing.Table
	changed  chan struct{}
	updates  int
	before   func(update int) error // fails an update before it takes effect
	after    func(update int) error // and after
	sessions []routing.Session
	drained  func(ctx context.Context, id string, progress func([]routing.Session)) ([]routing.Session, error)
}

func (m *memTable) Table() *routing.Table {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table
}

func (m *memTable) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *memTable) Update(ctx context.Context, _ store.Author, decide func(*routing.Table) (*routing.Table, error)) (*routing.Table, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.updates++
	if m.before != nil {
		if err := m.before(m.updates); err != nil {
			return nil, err
		}
	}
	next, err := decide(m.table)
	if err != nil {
		return nil, err
	}
	if next != m.table {
		m.table = next
		close(m.changed)
		m.changed = make(chan struct{})
	}
	if m.after != nil {
		if err := m.after(m.updates); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func (m *memTable) AwaitDrained(ctx context.Context, id string, progress func([]routing.Session)) ([]routing.Session, error) {
	if m.drained != nil {
		return m.drained(ctx, id, progress)
	}
	return nil, ctx.Err()
}

func (m *memTable) Sessions(context.Context) ([]routing.Session, error) { return m.sessions, nil }

// liveWorld is a broker with the topic "orders" of four partitions, and a table
// in memory that has acme on partition 0 and initech spread over 1 and 2.
type liveWorld struct {
	t       testing.TB
	cluster *kfake.Cluster
	table   *memTable
	c       *LiveCoordinator
}

const liveWorldTable = `
version: 1
revision: 1
topics:
  orders:
    partitions: 4
    slots: 16
    tenant_of: "prefix::"
    producers: wrapped
    epoch: 2
    placements:
      acme: {partitions: [0], epoch: 1}
      initech: {partitions: [1, 2], spread: key, epoch: 2}
      umbrella: {topic: other, epoch: 2}
  loose: {partitions: 4}
  packed: {partitions: 4, producers: wrapped}
`

func newLiveWorld(t testing.TB) *liveWorld {
	t.Helper()
	compact := "compact"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "orders", "loose"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	table, err := routing.Parse("table.yaml", []byte(liveWorldTable))
	if err != nil {
		t.Fatal(err)
	}
	w := &liveWorld{t: t, cluster: cluster, table: &memTable{table: table, changed: make(chan struct{})}}
	w.c, err = NewLiveCoordinator(LiveConfig{KafkaOpts: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}, Table: w.table, Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.c.Close)
	if _, err := w.c.admin.CreateTopic(t.Context(), 4, 1, map[string]*string{"cleanup.policy": &compact}, "packed"); err != nil {
		t.Fatal(err)
	}
	return w
}

// topic is that of the table as it is.
func (w *liveWorld) topic() *routing.Topic {
	w.t.Helper()
	topic, ok := w.table.Table().Topic("orders")
	if !ok {
		w.t.Fatal("no topic orders")
	}
	return topic
}

// asBefore wants the table to be what it was in all but its revision and
// counters, and the report to say so.
func (w *liveWorld) asBefore(report Report, err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) || report.State != StateAborted || len(report.Fences) > 0 || report.Revision != 0 {
		w.t.Errorf("%+v, %v", report, err)
	}
	if moves := w.topic().Moves(); len(moves) > 0 {
		w.t.Errorf("the table holds %v", moves)
	}
	if got := w.topic().Lookup([]byte("acme"), nil); got.Partition != 0 || got.Epoch != 1 {
		w.t.Errorf("acme goes to partition %d since epoch %d", got.Partition, got.Epoch)
	}
}

// fences reads the fences of a move out of the topic's log.
func (w *liveWorld) fences(id string) []routing.Fence {
	w.t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ConsumeTopics("orders"), kgo.FetchMaxWait(10*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	ends, err := w.c.admin.ListEndOffsets(w.t.Context(), "orders")
	if err != nil {
		w.t.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	var fences []routing.Fence
	for left > 0 {
		fetches := reader.PollFetches(patient(w.t))
		if err := fetches.Err(); err != nil {
			w.t.Fatal(err)
		}
		for r := range fetches.RecordsAll() {
			left--
			if len(r.Headers) != 1 || r.Headers[0].Key != routing.HeaderControl || len(r.Value) == 0 {
				continue
			}
			control, err := routing.ParseControl(r.Headers[0].Value)
			if err != nil || string(r.Key) != string(routing.ControlKey(control.Move)) {
				w.t.Fatalf("%q, %v", r.Key, err)
			}
			if control.Move == id && control.Kind == routing.ControlFence {
				fences = append(fences, routing.Fence{Partition: r.Partition, Offset: r.Offset})
			}
		}
	}
	slices.SortFunc(fences, func(a, b routing.Fence) int { return int(a.Partition - b.Partition) })
	return fences
}

// done wants a move to be in the table, with fences that lie in the log.
func (w *liveWorld) done(report Report, err error) *routing.Move {
	w.t.Helper()
	if err != nil || report.State != StateDone || report.Mode != ModeStrict || report.Pause <= 0 {
		w.t.Fatalf("%+v, %v", report, err)
	}
	m, ok := w.topic().Move(report.ID)
	if !ok || m.Open() || m.Epoch != report.Epoch {
		w.t.Fatalf("the table holds %v", w.topic().Moves())
	}
	if diff := cmp.Diff(m.Fences, w.fences(report.ID)); diff != "" {
		w.t.Errorf("fences in the table and in the log (-table +log):\n%s", diff)
	}
	if diff := cmp.Diff(m.Fences, report.Fences); diff != "" {
		w.t.Errorf("fences in the table and in the report (-table +report):\n%s", diff)
	}
	return m
}

func kadmOffsets(topic string, partition int32, at int64) kadm.Offsets {
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, partition, at, -1)
	return offsets
}

// far is a deadline that no test lives to see.
var far = time.Now().Add(time.Hour)

// acmeSlot is the slot of acme by xxhash64 among 16.
var acmeSlot = routing.XXHash64.Slot(routing.XXHash64.Sum([]byte("acme")), 16)

// grow raises the table's partitions of orders.
func (w *liveWorld) grow(partitions int32) {
	w.t.Helper()
	_, err := w.table.Update(w.t.Context(), store.Author{}, func(p *routing.Table) (*routing.Table, error) {
		return p.Edit(routing.Grow("orders", partitions))
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
