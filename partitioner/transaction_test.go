package partitioner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func transacting(t *testing.T) (*Producer, *registry, *kfake.Cluster) {
	t.Helper()
	c := cluster(t, 2)
	src := registering(tableOf(t, wrapped(2, map[string]int32{"acme": 0, "other": 0})))
	return producing(t, c, src, ProducerConfig{}, kgo.TransactionalID("billing")), src, c
}

func committed(t *testing.T, c *kfake.Cluster, n int) (list []string) {
	t.Helper()
	client := clientOf(t, c, kgo.ConsumeTopics("orders"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer client.Close()
	for ctx := patient(t); len(list) < n; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %d of %d: %v", len(list), n, err)
		}
		list = append(list, values(fetches.Records())...)
	}
	return list
}

func TestATransactionKeepsItsTableAndItsMoveWaits(t *testing.T) {
	p, src, c := transacting(t)
	if err := p.ProduceSync(patient(t), record("acme", 0)).FirstErr(); !errors.Is(err, ErrNoTransaction) {
		t.Errorf("outside of a transaction: %v", err)
	}
	if err := p.BeginTransaction(patient(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	src.prepare(t, "m1", "acme", 1)
	r, err := p.ProduceSync(patient(t), record("acme", 2)).First()
	if err != nil || r.Partition != 0 {
		t.Fatalf("partition %d, %v", r.Partition, err)
	}
	if src.acknowledged("m1") {
		t.Error("acknowledged while a transaction is open")
	}
	if ok, err := p.EndTransaction(patient(t), kgo.TryCommit); !ok || err != nil {
		t.Fatal(ok, err)
	}
	src.awaitDrained(t, "m1")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.BeginTransaction(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a transaction began while its tenant moves: %v", err)
	}
	var begin sync.WaitGroup
	begin.Go(func() {
		if err := p.BeginTransaction(patient(t)); err != nil {
			t.Error(err)
		}
	})
	src.finish(t, c, "m1", 0)
	begin.Wait()
	if r, err := p.ProduceSync(patient(t), record("acme", 3)).First(); err != nil || r.Partition != 1 {
		t.Errorf("partition %d, %v", r.Partition, err)
	}
	if ok, err := p.EndTransaction(patient(t), kgo.TryCommit); !ok || err != nil {
		t.Error(ok, err)
	}
	if got := committed(t, c, 3); len(got) != 3 || slices.Contains(got, "0") {
		t.Errorf("committed %v", got)
	}
}

func TestATransactionDoesNotWaitForAHeldTenant(t *testing.T) {
	p, src, _ := transacting(t)
	src.prepare(t, "m1", "acme", 1) // of a tenant that the Producer does not know yet
	if err := p.BeginTransaction(patient(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr(); !errors.Is(err, ErrTenantMoving) {
		t.Errorf("error is %v", err)
	}
	if err := p.ProduceSync(patient(t), record("other", 1)).FirstErr(); err != nil {
		t.Error(err)
	}
	if ok, err := p.EndTransaction(patient(t), kgo.TryAbort); ok || err != nil {
		t.Error(ok, err)
	}
	src.edit(t, routing.AbortMove("orders", "m1"))
	if err := p.BeginTransaction(patient(t)); err != nil {
		t.Fatal(err)
	}
	if ok, err := p.EndTransaction(patient(t), kgo.TryCommit); !ok || err != nil {
		t.Error(ok, err)
	}
}

func TestATransactionWithALateRecordIsAborted(t *testing.T) {
	p, src, c := transacting(t)
	if err := p.BeginTransaction(patient(t)); err != nil {
		t.Fatal(err)
	}
	slow := withoutLeader(c, 0)
	defer slow.Remove()
	var o outcome
	p.Produce(context.Background(), record("acme", "late"), o.promise())
	eventually(t, "in flight", func() bool { return p.InFlight("orders", []byte("acme")) == 1 })
	src.lapse()
	slow.Remove()
	if err := o.wait(t)[0]; !errors.Is(err, store.ErrStaleTable) {
		t.Errorf("error is %v", err)
	}
	src.renew()
	if ok, err := p.EndTransaction(patient(t), kgo.TryCommit); ok || !errors.Is(err, store.ErrStaleTable) {
		t.Errorf("committed %v, %v", ok, err)
	}
	if err := p.BeginTransaction(patient(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.ProduceSync(patient(t), record("acme", "next")).FirstErr(); err != nil {
		t.Error(err)
	}
	if ok, err := p.EndTransaction(patient(t), kgo.TryCommit); !ok || err != nil {
		t.Error(ok, err)
	}
	if got := committed(t, c, 1); !slices.Equal(got, []string{"next"}) {
		t.Errorf("committed %v", got)
	}
}

func TestTransactionsOfAGroupSession(t *testing.T) {
	c := cluster(t, 2)
	src := registering(tableOf(t, wrapped(2, map[string]int32{"acme": 0})))
	opts := append(ClientOpts(src, Config{}), kgo.SeedBrokers(c.ListenAddrs()...),
		kgo.TransactionalID("group"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"))
	group, err := kgo.NewGroupTransactSession(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	if _, err = NewProducer(clientOf(t, c, ClientOpts(src, Config{})...), src, ProducerConfig{Transactions: group}); err == nil {
		t.Error("a session of another client was taken")
	}
	p, err := NewProducer(group.Client(), src, ProducerConfig{Transactions: group})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close(patient(t)) }()
	if err := p.BeginTransaction(patient(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.BeginTransaction(patient(t)); err == nil {
		t.Error("two transactions at a time")
	}
	if err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr(); err != nil {
		t.Error(err)
	}
	if ok, err := p.EndTransaction(patient(t), kgo.TryCommit); !ok || err != nil {
		t.Error(ok, err)
	}
	if _, err := p.EndTransaction(patient(t), kgo.TryCommit); err == nil {
		t.Error("ended what was not begun")
	}
}

func TestOnlyTransactionalClientsHaveTransactions(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{})
	if err := p.BeginTransaction(patient(t)); err == nil {
		t.Error("a transaction began")
	}
}
