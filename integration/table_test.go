package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// tableConfig is a table of the test's own, deleted at its end.
func (b broker) tableConfig(t *testing.T) store.TopicConfig {
	t.Helper()
	cfg := store.TopicConfig{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(b.addrs...)}, Prefix: unique(t, "table") + ".", Create: true, Empty: true,
		Heartbeat: 100 * time.Millisecond,
	}
	adm := kadm.NewClient(b.client(t))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := adm.DeleteTopics(ctx, cfg.RoutingTopic(), cfg.SessionsTopic(), cfg.HistoryTopic()); err != nil {
			t.Error(err)
		}
	})
	return cfg
}

func openTable(ctx context.Context, t *testing.T, cfg store.TopicConfig) *store.Topic {
	t.Helper()
	table, err := store.OpenTopic(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

func changeTable(ctx context.Context, t *testing.T, table *store.Topic, edits ...routing.Edit) *routing.Table {
	t.Helper()
	next, err := table.Update(ctx, store.Author{Actor: "test", Reason: t.Name()}, func(present *routing.Table) (*routing.Table, error) {
		return present.Edit(edits...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func pinned(tenant string, partition int32) routing.Edit {
	return routing.SetPlacement("orders", tenant, routing.Placement{Partitions: []int32{partition}})
}

func ordersOf8() routing.Edit {
	return routing.SetTopic("orders", routing.TopicSpec{Partitions: 8})
}

// awaitRevision returns a reader's first table of a revision or a later one.
func awaitRevision(ctx context.Context, t *testing.T, table *store.Topic, revision uint64) *routing.Table {
	t.Helper()
	for {
		changed := table.Changed()
		if now := table.Table(); now.Revision() >= revision {
			return now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waited in vain for revision %d, at %d: %v", revision, table.Table().Revision(), table.Err())
		}
	}
}

func canonical(t *testing.T, table *routing.Table) string {
	t.Helper()
	text, err := table.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTableOfManyWriters(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b broker) {
		ctx, cfg := deadline(t, 2*time.Minute), b.tableConfig(t)
		reader := openTable(ctx, t, cfg)
		changeTable(ctx, t, reader, ordersOf8())
		const writers, changes = 2, 10
		var all sync.WaitGroup
		for w := range writers {
			table := openTable(ctx, t, cfg)
			all.Go(func() {
				for i := range changes {
					tenant := fmt.Sprintf("tenant-%d-%d", w, i)
					for ctx.Err() == nil {
						_, err := table.Update(ctx, store.Author{}, func(present *routing.Table) (*routing.Table, error) {
							return present.Edit(pinned(tenant, int32(w)))
						})
						if err == nil {
							break
						}
						if !errors.Is(err, store.ErrFenced) {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		all.Wait()
		table := awaitRevision(ctx, t, reader, 1+writers*changes)
		topic, _ := table.Topic("orders")
		if n := len(topic.PlacedTenants()); n != writers*changes || table.Revision() != 1+writers*changes {
			t.Errorf("%d placements at revision %d after %d changes", n, table.Revision(), writers*changes)
		}
		history, err := reader.History(ctx)
		if err != nil || len(history) != 1+writers*changes {
			t.Errorf("%d changes in the history, %v", len(history), err)
		}
	})
}

func TestTableWriterKilledBetweenItsRecords(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b broker) {
		ctx, cfg := deadline(t, time.Minute), b.tableConfig(t)
		table := openTable(ctx, t, cfg)
		changeTable(ctx, t, table, ordersOf8(), pinned("acme", 1))
		dead := b.client(t, kgo.TransactionalID(cfg.Prefix+"routing"), kgo.TransactionTimeout(5*time.Second))
		if err := dead.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		half := &kgo.Record{Topic: cfg.RoutingTopic(), Key: []byte("placement/orders/acme"), Value: []byte(`{"v":1,"partitions":[7]}`)}
		if err := dead.ProduceSync(ctx, half).FirstErr(); err != nil {
			t.Fatal(err)
		}
		late := openTable(ctx, t, cfg) // behind the open transaction, until the broker ends it
		for _, reader := range []*store.Topic{table, late} {
			topic, _ := reader.Table().Topic("orders")
			if got := topic.Partition([]byte("acme"), nil); got != 1 || reader.Table().Revision() != 1 {
				t.Errorf("acme goes to %d by revision %d: half a transaction", got, reader.Table().Revision())
			}
		}
		changeTable(ctx, t, late, pinned("globex", 2))
		awaitRevision(ctx, t, table, 2)
	})
}

// TestTableUnderAnAggressiveCleaner lets the broker's cleaner take every
// superseded record as soon as it can, against the topic's own settings, while
// a writer works, a follower follows and readers load.
func TestTableUnderAnAggressiveCleaner(t *testing.T) {
	b := realBroker(t)
	ctx, cfg := deadline(t, 2*time.Minute), b.tableConfig(t)
	writer := openTable(ctx, t, cfg)
	aggressive := map[string]string{
		"min.compaction.lag.ms": "0", "max.compaction.lag.ms": "100", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0",
	}
	var configs []kadm.AlterConfig
	for name, value := range aggressive {
		configs = append(configs, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: new(value)})
	}
	if _, err := kadm.NewClient(b.client(t)).AlterTopicConfigs(ctx, configs, cfg.RoutingTopic()); err != nil {
		t.Fatal(err)
	}
	written := map[uint64]string{}
	commit := func(edits ...routing.Edit) {
		next := changeTable(ctx, t, writer, edits...)
		written[next.Revision()] = canonical(t, next)
	}
	commit(ordersOf8())
	follower := openTable(ctx, t, cfg)
	seen := map[uint64]string{}
	const enough = 60
	left, all := 0, 0
	for i := 0; i < enough || left >= all && ctx.Err() == nil; i++ {
		changed := follower.Changed()
		switch tenant := fmt.Sprint("tenant-", i%3); i % 6 {
		case 4:
			commit(pinned("brief", 1), pinned(tenant, int32(i%8)))
		case 5:
			commit(routing.ForgetTenant("orders", "brief"), routing.SetSlots("orders", map[int32]int32{int32(i % 4): int32(i % 8)}))
		default:
			commit(pinned(tenant, int32(i%8)))
		}
		select {
		case <-changed:
		case <-time.After(150 * time.Millisecond):
		}
		now := follower.Table()
		seen[now.Revision()] = canonical(t, now)
		if i%10 == 9 {
			if late := openTable(ctx, t, cfg).Table(); canonical(t, late) != written[late.Revision()] || late.Revision() != writer.Table().Revision() {
				t.Errorf("a reader that loads has revision %d, which is not what was written", late.Revision())
			}
			left, all = recordsOf(ctx, t, b.client(t), cfg.RoutingTopic(), len(written))
		}
	}
	for revision, text := range seen {
		if text != written[revision] {
			t.Errorf("the follower showed a revision %d that was never written", revision)
		}
	}
	last := awaitRevision(ctx, t, follower, writer.Table().Revision())
	if canonical(t, last) != written[last.Revision()] {
		t.Error("the follower ends with another table")
	}
	t.Logf("%d records left after %d changes, %d tables shown", left, len(written), len(seen))
}

// recordsOf counts the records of a topic that a reader gets, and those that so
// many transactions wrote: there is one offset for each, and one for each
// transaction's marker. They differ once the cleaner has taken any.
func recordsOf(ctx context.Context, t *testing.T, client *kgo.Client, topic string, transactions int) (left, written int) {
	t.Helper()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})
	for position := int64(0); position+1 < end.Offset && ctx.Err() == nil; { // the last is a marker
		for _, r := range client.PollFetches(ctx).Records() {
			position = r.Offset + 1
			left++
		}
	}
	return left, int(end.Offset) - transactions
}

func TestTableSessions(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b broker) {
		ctx, cfg := deadline(t, time.Minute), b.tableConfig(t)
		cfg.Lease, cfg.Renewal = 3*time.Second, time.Second
		writer, producer := openTable(ctx, t, cfg), openTable(ctx, t, cfg)
		changeTable(ctx, t, writer, ordersOf8())
		session, err := producer.Register(ctx, store.SessionConfig{Client: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Err(); err != nil {
			t.Errorf("a new session: %v", err)
		}
		changeTable(ctx, t, writer, pinned("acme", 1))
		if over, err := writer.AwaitSessions(ctx, 2); err != nil || len(over) != 0 {
			t.Errorf("over: %v, %v", over, err)
		}
		if producer.Table().Revision() < 2 {
			t.Error("a session showed a revision that it does not have")
		}
		if err := session.Close(ctx); err != nil {
			t.Error(err)
		}
		if left, err := writer.Sessions(ctx); err != nil || len(left) != 0 {
			t.Errorf("sessions left: %v, %v", left, err)
		}
	})
}

// TestTableOfManyPlacements loads 100,000 placements.
func TestTableOfManyPlacements(t *testing.T) {
	b := realBroker(t)
	ctx, cfg := deadline(t, time.Minute), b.tableConfig(t)
	writer := openTable(ctx, t, cfg)
	changeTable(ctx, t, writer, manyPlacements())
	began := time.Now()
	reader := openTable(ctx, t, cfg)
	loaded := time.Since(began)
	topic, _ := reader.Table().Topic("orders")
	if n := len(topic.PlacedTenants()); n != 100_000 {
		t.Errorf("%d placements", n)
	}
	began = time.Now()
	changeTable(ctx, t, writer, pinned("acme", 3))
	awaitRevision(ctx, t, reader, 2)
	t.Logf("100,000 placements loaded in %v, one change shown in %v", loaded, time.Since(began))
}

func manyPlacements() routing.Edit {
	placements := make(map[string]routing.Placement, 100_000)
	for i := range 100_000 {
		placements[fmt.Sprintf("@tenant-%06d/service", i)] = routing.Placement{Partitions: []int32{int32(i % 8)}}
	}
	return routing.SetTopic("orders", routing.TopicSpec{Partitions: 8, Placements: placements})
}

// TestTableChangeReachesARunningProducer changes a placement while a producer
// of many tenants runs, and says how long it took to be used.
func TestTableChangeReachesARunningProducer(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b broker) {
		ctx, cfg := deadline(t, time.Minute), b.tableConfig(t)
		topic := b.topic(t, 8)
		writer := openTable(ctx, t, cfg)
		changeTable(ctx, t, writer, routing.SetTopic(topic, routing.TopicSpec{Partitions: 8, Shared: []int32{0, 1, 2, 3, 4, 5, 6}}))
		table := openTable(ctx, t, cfg)
		client := b.client(t, partitioner.ClientOpts(table, partitioner.Config{})...)
		moved, failed := make(chan time.Time, 1), make(chan error, 1)
		running, stop := context.WithCancel(ctx)
		var producer sync.WaitGroup
		producer.Go(func() {
			for i := 0; running.Err() == nil; i++ {
				r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "tenant-%d", i%100), Value: make([]byte, 100)}
				client.Produce(ctx, r, func(r *kgo.Record, err error) {
					switch {
					case err != nil:
						send(failed, err)
					case r.Partition == 7:
						send(moved, time.Now())
					}
				})
			}
		})
		began := time.Now()
		changeTable(ctx, t, writer, routing.SetPlacement(topic, "tenant-17", routing.Placement{Partitions: []int32{7}}))
		select {
		case at := <-moved:
			t.Logf("a change was used by a producer at full speed %v after it was asked for", at.Sub(began))
		case err := <-failed:
			t.Error(err)
		case <-ctx.Done():
			t.Error("the producer never used the change")
		}
		stop()
		producer.Wait()
		if err := client.Flush(ctx); err != nil {
			t.Error(err)
		}
	})
}

// send keeps the first value.
func send[T any](to chan T, value T) {
	select {
	case to <- value:
	default:
	}
}
