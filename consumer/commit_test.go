package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/consumer"
)

func TestCommitFailureIsNeverFatal(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: 3})
	c.produce(sequence(0, 10, "a", "b")...)
	j := newJournal()
	l := newLedger()
	w := c.start(l.watch(c.config()), j.handle)
	l.waitCommitted(t, 0, 20)
	if fault.Hits() != 3 {
		t.Errorf("%d commits were refused, want 3", fault.Hits())
	}
	if err := w.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if len(j.all()) != 20 {
		t.Errorf("%d handlings, want 20", len(j.all()))
	}
}

func TestTransactionMarkersAtTheEndAreCommittedOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	tx, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("tx"), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatalf("making a transactional producer: %v", err)
	}
	defer tx.Close()
	for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatalf("beginning: %v", err)
		}
		if err := tx.ProduceSync(t.Context(), kgo.KeyStringRecord("a", "1")).FirstErr(); err != nil {
			t.Fatalf("producing: %v", err)
		}
		if err := tx.EndTransaction(t.Context(), commit); err != nil {
			t.Fatalf("ending: %v", err)
		}
	}
	j := newJournal()
	l := newLedger()
	cfg := l.watch(c.config())
	cfg.KafkaOpts = append(cfg.KafkaOpts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	w := c.start(cfg, j.handle)
	l.waitCommitted(t, 0, 4)
	if err := w.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if len(j.all()) != 1 {
		t.Errorf("%d handled, want the committed one", len(j.all()))
	}
}

func TestCommitBelowTheLogStartIsClampedAndCounted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.produce(sequence(0, 20, "a")...)
	j := newJournal()
	l := newLedger()
	w := c.start(l.watch(c.config()), func(ctx context.Context, r *consumer.Record) error {
		if string(r.Value) == "6" {
			return consumer.Permanent(errors.New("parks the lane"))
		}
		return j.handle(ctx, r)
	})
	l.waitCommitted(t, 0, 5)
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if err := c.DeleteRecords(topic, 0, 10); err != nil {
		t.Fatalf("deleting records: %v", err)
	}
	again := c.start(c.config(), j.handle)
	j.waitFor(t, 15)
	if err := again.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if last := j.all()[5]; last.offset != 10 {
		t.Errorf("went on at offset %d, want the log start 10", last.offset)
	}
	if got := c.committed(0); got != 20 {
		t.Errorf("committed %d, want 20", got)
	}
}

func TestTopicMadeAgainIsConsumedAnew(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.produce(sequence(0, 5, "a")...)
	j := newJournal()
	l := newLedger()
	w := c.start(l.watch(c.config()), j.handle)
	l.waitCommitted(t, 0, 5)
	if err := c.DeleteTopic(topic); err != nil {
		t.Fatalf("deleting the topic: %v", err)
	}
	if err := c.CreateTopic(topic, 1, nil); err != nil {
		t.Fatalf("making the topic again: %v", err)
	}
	fresh, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatalf("making a producer: %v", err)
	}
	defer fresh.Close()
	if err := fresh.ProduceSync(t.Context(), kgo.KeyStringRecord("a", "new")).FirstErr(); err != nil {
		t.Fatalf("producing: %v", err)
	}
	j.wait(t, "the new topic's record", func(all []handling) bool { return all[len(all)-1].value == "new" })
	if err := w.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if got := c.committed(0); got != 1 {
		t.Errorf("committed %d in the new topic, want 1", got)
	}
}

func TestLatestIsOneInstantForTheWholeGroup(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.produce(sequence(0, 10, "old")...)
	j := newJournal()
	l := newLedger()
	cfg := l.watch(c.config())
	cfg.Start = consumer.StartLatest
	w := c.start(cfg, j.handle)
	l.waitCommitted(t, 0, 10) // the start itself is committed
	c.produce(sequence(0, 3, "a")...)
	j.waitFor(t, 3)
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	// A partition that is added while nobody consumes is read from its start.
	admin := c.producer
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, 2
	req.Topics = append(req.Topics, rt)
	if _, err := req.RequestWith(t.Context(), admin); err != nil {
		t.Fatalf("adding a partition: %v", err)
	}
	admin.ForceMetadataRefresh()
	fresh, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatalf("making a producer: %v", err)
	}
	defer fresh.Close()
	if err := fresh.ProduceSync(t.Context(), record(1, "added", "1"), record(1, "added", "2")).FirstErr(); err != nil {
		t.Fatalf("producing: %v", err)
	}
	again := c.start(cfg, j.handle)
	j.waitFor(t, 5)
	if err := again.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	for _, h := range j.all() {
		if h.tenant == "old" {
			t.Fatalf("a record from before the group's start was handled: %+v", h)
		}
	}
	if c.committed(1) != 2 {
		t.Errorf("committed %d in the added partition, want 2", c.committed(1))
	}
}

func TestDeadLettersReachTheirTopic(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, kfake.SeedTopics(1, topic+consumer.DeadLetterSuffix))
	c.produce(sequence(0, 2, "bad", "good")...)
	j := newJournal()
	l := newLedger()
	cfg := l.watch(c.config())
	cfg.Retry = consumer.Retry{Min: time.Millisecond, Max: time.Millisecond, Attempts: 2, Exhausted: consumer.DeadLetter}
	w := c.start(cfg, func(ctx context.Context, r *consumer.Record) error {
		if string(r.Tenant) == "bad" {
			return errors.New("no")
		}
		return j.handle(ctx, r)
	})
	l.waitCommitted(t, 0, 4)
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if got := c.PartitionInfo(topic+consumer.DeadLetterSuffix, 0).HighWatermark; got != 2 {
		t.Errorf("%d dead letters, want 2", got)
	}
}

func TestDeadLettersReachATopicThatWasMadeAgain(t *testing.T) {
	t.Parallel()
	letters := topic + consumer.DeadLetterSuffix
	c := newCluster(t, 1, kfake.SeedTopics(1, letters))
	l := newLedger()
	cfg := l.watch(c.config())
	cfg.Retry = consumer.Retry{Min: time.Millisecond, Max: time.Millisecond, Attempts: 1, Exhausted: consumer.DeadLetter}
	w := c.start(cfg, func(context.Context, *consumer.Record) error { return errors.New("no") })
	c.produce(sequence(0, 1, "bad")...)
	l.waitCommitted(t, 0, 1)
	admin := kadm.NewClient(c.producer)
	if _, err := admin.DeleteTopic(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, letters); err != nil {
		t.Fatal(err)
	}
	c.produce(sequence(0, 1, "bad")...)
	l.waitCommitted(t, 0, 2)
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if got := c.PartitionInfo(letters, 0).HighWatermark; got != 1 {
		t.Errorf("%d dead letters in the new topic, want 1", got)
	}
}

func TestRevokedPartitionIsNotCommittedByALateWorker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	c.commitLog()
	c.produce(sequence(0, 20, "slow")...)
	c.produce(sequence(1, 20, "slow2")...)
	release := make(chan struct{})
	j := newJournal()
	l1, l2 := newLedger(), newLedger()
	cfg := l1.watch(c.config())
	cfg.DrainTimeout = 100 * time.Millisecond
	first := c.start(cfg, func(ctx context.Context, r *consumer.Record) error {
		if string(r.Value) == "5" {
			<-release // does not heed its context
		}
		return j.handle(ctx, r)
	})
	l1.waitCommitted(t, 0, 4)
	l1.waitCommitted(t, 1, 4)
	second := c.start(l2.watch(c.config()), j.handle)
	l2.waitAssigned(t, 1)
	moved := l2.assigned[0].Partition
	l2.waitCommitted(t, moved, 20)
	close(release)
	l1.waitCommitted(t, 1-moved, 20)
	if err := errors.Join(first.stop(), second.stop()); err != nil {
		t.Errorf("Run: %v", err)
	}
	if c.committed(0) != 20 || c.committed(1) != 20 {
		t.Errorf("committed %d and %d, want 20", c.committed(0), c.committed(1))
	}
}
