package integration

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// reader is a plain consumer of a group, which commits every 100 ms.
type reader struct {
	client *kgo.Client
}

func startReader(t *testing.T, b broker, group, topic string, next bool, opts ...kgo.Opt) *reader {
	t.Helper()
	opts = append(opts, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.AutoCommitInterval(100*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if next { // KIP-848: the server assigns
		opts = append(opts, kgo.WithContext(context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true))) //nolint:revive,staticcheck // the client asks for this key
	}
	r := &reader{client: b.client(t, opts...)}
	ctx, cancel := context.WithCancel(context.Background())
	var polling sync.WaitGroup
	polling.Go(func() {
		for ctx.Err() == nil {
			r.client.PollFetches(ctx)
		}
	})
	t.Cleanup(func() {
		cancel()
		polling.Wait()
	})
	return r
}

// committed is true once the group has committed as many records of the topic.
func committed(ctx context.Context, admin *kadm.Client, group, topic string, n int64) bool {
	commits, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return false
	}
	sum := int64(0)
	for _, c := range commits[topic] {
		sum += c.At
	}
	return sum >= n
}

// One partition of 32 is filled by one tenant while its group, of either
// protocol, does not read it: one page with its name, one end, whatever
// restarts of the watcher are in between.
func TestGroupsOfBothProtocolsPageOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		next bool
	}{{"classic", false}, {"KIP-848", true}} {
		t.Run(c.name, func(t *testing.T) {
			b := realBroker(t)
			ctx := deadline(t, 2*time.Minute)
			topic, group := b.topic(t, 32), unique(t, "group")
			client := b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic))
			admin := kadm.NewClient(client)
			produce := func(tenant string, partition int32, n int) {
				t.Helper()
				for range n {
					client.Produce(ctx, &kgo.Record{Partition: partition, Key: []byte(tenant)}, nil)
				}
				if err := client.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for p := range int32(32) {
				produce("ordinary", p, 50)
			}
			consumer := startReader(t, b, group, topic, c.next)
			await(ctx, t, "the group reads", func() bool { return committed(ctx, admin, group, topic, 32*50) })

			p := startPager(t)
			state := filepath.Join(t.TempDir(), "state")
			start := func() (stop func()) { return watchGroup(t, b, group, p.target, state, nil) }
			stop := start()
			consumer.client.PauseFetchPartitions(map[string][]int32{topic: {7}})
			produce("importer", 7, 6000)
			await(ctx, t, "a page", func() bool { return len(p.pages(lag.AlertHot, "firing")) > 0 })
			stop()
			stop = start()
			consumer.client.ResumeFetchPartitions(map[string][]int32{topic: {7}})
			await(ctx, t, "its end", func() bool { return len(p.pages(lag.AlertHot, "resolved")) > 0 })
			stop()
			fired, resolved := p.pages(lag.AlertHot, "firing"), p.pages(lag.AlertHot, "resolved")
			if len(fired) != 1 || len(resolved) != 1 {
				t.Fatalf("%d pages and %d ends: %+v", len(fired), len(resolved), fired)
			}
			a := fired[0]
			if a.Group != group || a.Topic != topic || !slices.Equal(a.Partitions, []int32{7}) || a.Tenant != "importer" || a.Share < 0.95 {
				t.Fatalf("%+v", a)
			}
		})
	}
}

// Two replicas watch, and elect by the cluster which one tells: one page, and one
// end, although the one that told is stopped in between.
func TestTwoReplicasPageOnce(t *testing.T) {
	b := realBroker(t)
	ctx := deadline(t, 2*time.Minute)
	topic, group := b.topic(t, 4), unique(t, "group")
	client := b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic))
	admin := kadm.NewClient(client)
	late := time.Now().Add(-10 * time.Minute)
	for range 5000 {
		client.Produce(ctx, &kgo.Record{Partition: 2, Key: []byte("importer"), Timestamp: late}, nil)
	}
	if err := client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	commit := func(of2 int64) {
		t.Helper()
		commits := kadm.Offsets{}
		for p := range int32(4) {
			commits.AddOffset(topic, p, map[bool]int64{true: of2}[p == 2], -1)
		}
		if err := admin.CommitAllOffsets(ctx, group, commits); err != nil {
			t.Fatal(err)
		}
	}
	commit(0)
	p := startPager(t)
	election := &lagwatch.Election{Topic: topic, Group: unique(t, "election")}
	stop := watchGroup(t, b, group, p.target, "", election)
	stopOther := watchGroup(t, b, group, p.target, "", election)
	defer stopOther()
	await(ctx, t, "a page", func() bool { return len(p.pages(lag.AlertHot, "firing")) > 0 })
	stop()
	commit(5000)
	await(ctx, t, "its end", func() bool { return len(p.pages(lag.AlertHot, "resolved")) > 0 })
	stopOther()
	if fired, resolved := p.pages(lag.AlertHot, "firing"), p.pages(lag.AlertHot, "resolved"); len(fired) != 1 || len(resolved) != 1 {
		t.Fatalf("%d pages and %d ends: %+v", len(fired), len(resolved), fired)
	}
}

// watchGroup runs a watcher until it is stopped.
func watchGroup(t *testing.T, b broker, group string, target notify.Target, state string, election *lagwatch.Election) (stop func()) {
	t.Helper()
	rule := lag.Defaults()
	rule.Interval, rule.For, rule.KeepFiring, rule.DrainOK = 200*time.Millisecond, time.Second, time.Second, 0
	rule.MinDelay, rule.CriticalRatio, rule.TxnHanging = 500*time.Millisecond, 0, time.Second
	w, err := lagwatch.New(lagwatch.Config{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(b.addrs...)}, Groups: []string{group}, Rule: &rule,
		Targets: []notify.Target{target}, StateFile: state, Election: election, Logger: testLogger(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { err = w.Run(ctx) })
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err != nil {
			t.Error(err)
		}
	})
}

// A transaction that nobody ends holds every reader of committed records back:
// it is named with its producer. One that has caught up is not stuck, although
// its commit stays below the markers.
func TestHangingTransactionIsNamed(t *testing.T) {
	b := realBroker(t)
	ctx := deadline(t, 2*time.Minute)
	topic, group := b.topic(t, 1), unique(t, "group")
	id := unique(t, "transaction")
	hanging := b.client(t, kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic))
	transact := func(end kgo.TransactionEndTry) {
		t.Helper()
		if err := hanging.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := hanging.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := hanging.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	transact(kgo.TryCommit) // offset 0, marker 1
	transact(kgo.TryAbort)  // offset 2, marker 3
	plain := b.client(t, kgo.DefaultProduceTopic(topic))
	admin := kadm.NewClient(plain)
	startReader(t, b, group, topic, false, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	await(ctx, t, "the group reads", func() bool { return committed(ctx, admin, group, topic, 1) })
	look, err := sample.NewReader(plain, sample.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := look.FirstVisible(ctx, topic, 0, 1); err != nil || v.Found || v.Offset != 4 || v.Stable != 4 {
		t.Fatalf("%+v, %v", v, err)
	}

	if err := hanging.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := hanging.ProduceSync(ctx, kgo.StringRecord("open")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	p := startPager(t)
	stop := watchGroup(t, b, group, p.target, "", nil)
	defer stop()
	await(ctx, t, "txn_hanging", func() bool {
		if err := plain.ProduceSync(ctx, kgo.StringRecord("behind it")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return len(p.pages(lag.AlertTxnHanging, "firing")) > 0
	})
	a := p.pages(lag.AlertTxnHanging, "firing")[0]
	if !strings.Contains(a.Summary, id) || !strings.Contains(a.Summary, "since offset 4") {
		t.Fatalf("%s", a.Summary)
	}
	if err := hanging.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "its end", func() bool { return len(p.pages(lag.AlertTxnHanging, "resolved")) > 0 })
	stop()
	if len(p.pages(lag.AlertHot, "firing"))+len(p.pages(lag.AlertStuck, "firing")) != 0 {
		t.Fatal("paged for what nobody could read")
	}
}
