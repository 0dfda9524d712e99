package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// embeddedBroker starts a broker for one test.
func embeddedBroker(t testing.TB) *embedded.Broker {
	t.Helper()
	b, err := embedded.Start(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func broker(t testing.TB) []string {
	t.Helper()
	return embeddedBroker(t).Addrs()
}

// quick is a config for tests: it looks often and creates its topics.
func quick(addrs []string) TopicConfig {
	return TopicConfig{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(addrs...)}, Create: true, Empty: true, Heartbeat: 50 * time.Millisecond,
	}
}

func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(done)
	return ctx
}

func openTopic(t testing.TB, cfg TopicConfig) *Topic {
	t.Helper()
	store, err := OpenTopic(patient(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

var me = Author{Actor: "test", Reason: "because"}

func editing(edits ...routing.Edit) func(*routing.Table) (*routing.Table, error) {
	return func(present *routing.Table) (*routing.Table, error) { return present.Edit(edits...) }
}

func update(t testing.TB, store *Topic, edits ...routing.Edit) *routing.Table {
	t.Helper()
	table, err := store.Update(patient(t), me, editing(edits...))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func to(partition int32) routing.Placement {
	return routing.Placement{Partitions: []int32{partition}}
}

func orders() routing.Edit { return routing.SetTopic("orders", routing.TopicSpec{Partitions: 8}) }

// awaitTable waits until a source shows a revision.
func awaitTable(t testing.TB, src Source, revision uint64) *routing.Table {
	t.Helper()
	ctx := patient(t)
	for {
		changed := src.Changed()
		if table := src.Table(); table.Revision() >= revision {
			return table
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("revision %d, want %d", src.Table().Revision(), revision)
		}
	}
}

func partitionOf(t testing.TB, table *routing.Table, tenant string) int32 {
	t.Helper()
	topic, ok := table.Topic("orders")
	if !ok {
		t.Fatal("no topic orders")
	}
	return topic.Partition([]byte(tenant), nil)
}

func TestTopicShowsAChangeToEveryReader(t *testing.T) {
	cfg := quick(broker(t))
	writer := openTopic(t, cfg)
	if got := writer.Table(); got.Revision() != 0 || len(got.TopicNames()) != 0 {
		t.Fatalf("an empty topic shows revision %d", got.Revision())
	}
	update(t, writer, orders())
	reader := openTopic(t, cfg)
	if reader.Table().Revision() != 1 {
		t.Fatalf("a new reader has revision %d, want 1", reader.Table().Revision())
	}
	table := update(t, writer, routing.SetPlacement("orders", "acme", to(3)))
	if table.Revision() != 2 || writer.Table().Revision() != 2 {
		t.Fatalf("the writer has revision %d, then %d, want 2", table.Revision(), writer.Table().Revision())
	}
	if got := partitionOf(t, awaitTable(t, reader, 2), "acme"); got != 3 {
		t.Errorf("acme goes to %d, want 3", got)
	}
	if err := errors.Join(reader.Err(), writer.Err()); err != nil {
		t.Error(err)
	}
	if age := reader.Age(); age > 20*time.Second {
		t.Errorf("the reader's view is %v old", age)
	}
}

func TestTopicWithoutATable(t *testing.T) {
	cfg := quick(broker(t))
	openTopic(t, cfg)
	cfg.Empty = false
	if _, err := OpenTopic(patient(t), cfg); !errors.Is(err, routing.ErrNoTable) {
		t.Errorf("error is %v, want ErrNoTable", err)
	}
}

func TestTopicsThatAreNotFit(t *testing.T) {
	addrs := broker(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	create := func(name string, partitions int32, policy string) {
		configs := map[string]*string{"cleanup.policy": &policy}
		if _, failed := admin.CreateTopic(patient(t), partitions, 1, configs, name); failed != nil {
			t.Fatal(failed)
		}
	}
	create("deleting.routing", 1, "delete")
	create("both.routing", 1, "compact,delete")
	create("wide.routing", 2, "compact")
	create("history.routing", 1, "compact")
	create("history.sessions", 1, "compact")
	create("history.history", 1, "compact")
	for _, c := range []struct {
		prefix, text string
		want         error
	}{
		{"none.", "topic none.routing: topic does not exist: create it with 1 partition and cleanup.policy=compact", ErrTopicMissing},
		{"deleting.", `topic deleting.routing: topic has the wrong cleanup.policy: it is "delete" and must be "compact"`, ErrTopicPolicy},
		{"both.", `it is "compact,delete" and must be "compact"`, ErrTopicPolicy},
		{"wide.", "topic wide.routing: topic must have exactly one partition: it has 2", ErrTopicPartitions},
	} {
		cfg := quick(addrs)
		cfg.Prefix, cfg.Create = c.prefix, false
		_, err = OpenTopic(patient(t), cfg)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("error is %v, want %s", err, c.text)
		}
	}
	// A reader needs no history; a writer does.
	cfg := quick(addrs)
	cfg.Prefix, cfg.Create = "history.", false
	_, err = openTopic(t, cfg).Update(patient(t), me, editing(orders()))
	if want := `topic history.history: topic has the wrong cleanup.policy: it is "compact" and must be "delete"`; !errors.Is(err, ErrTopicPolicy) || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestTopicRefusesWhatMayNotFollow(t *testing.T) {
	addrs := broker(t)
	store := openTopic(t, quick(addrs))
	update(t, store, orders())
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(patient(t), 8, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	rehash := routing.SetTopic("orders", routing.TopicSpec{Partitions: 8, Hash: routing.Murmur2Kafka})
	update(t, store, rehash, routing.SetPlacement("orders", "acme", to(2))) // without records it may
	if err := client.ProduceSync(patient(t), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		edit routing.Edit
		want string
	}{
		{orders(), "topics.orders.hash: is fixed while the topic has records"},
		{routing.RemoveTopic("orders"), "topics.orders: cannot be removed while the topic has records"},
		{routing.Grow("orders", 9), "topic orders: has fewer partitions than the table names: it has 8, the table says 9"},
		{routing.SetPlacement("orders", "acme", to(8)), "partition 8 is outside the topic"},
	} {
		if _, err := store.Update(patient(t), me, editing(c.edit)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %s", err, c.want)
		}
	}
	if got := store.Table().Revision(); got != 2 {
		t.Errorf("revision is %d after refusals, want 2", got)
	}
	if _, err := store.Update(patient(t), me, func(present *routing.Table) (*routing.Table, error) { return present, nil }); err != nil || store.Table().Revision() != 2 {
		t.Errorf("a change of nothing: %v, revision %d", err, store.Table().Revision())
	}
	stuck := func(present *routing.Table) (*routing.Table, error) { return routing.NewTable(present.Spec()) }
	if _, err := store.Update(patient(t), me, stuck); !errors.Is(err, ErrRevision) {
		t.Errorf("error is %v, want ErrRevision", err)
	}
}
