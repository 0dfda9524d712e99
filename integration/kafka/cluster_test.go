package kafka_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/integration/kafka"
)

// start starts a real broker, or skips where there is none to be had.
func start(t *testing.T, cfg kafka.Config) *kafka.Cluster {
	t.Helper()
	if err := kafka.Available(); err != nil {
		if os.Getenv("TENANTLANE_REQUIRE_KAFKA") == "1" {
			t.Fatalf("TENANTLANE_REQUIRE_KAFKA=1, but %v", err)
		}
		t.Skipf("no real broker: %v", err)
	}
	cfg.Logf = t.Logf
	cluster, err := kafka.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	return cluster
}

func connect(t *testing.T, cluster *kafka.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.Addrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// One test for the whole life, since each start costs seconds: a broker is
// killed, comes back with its data on its port, is hung, and is stopped.
func TestOneBroker(t *testing.T) {
	dir := t.TempDir()
	cluster := start(t, kafka.Config{Dir: dir, HeapMB: 256, Properties: map[string]string{
		"num.partitions":            "7",
		"broker.session.timeout.ms": "2000", // how long a restarted node waits for its former self to be forgotten
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := connect(t, cluster, kgo.ConsumeTopics("kept"))
	created, err := kadm.NewClient(client).CreateTopic(ctx, -1, -1, nil, "kept")
	if err != nil || created.NumPartitions != 7 {
		t.Fatalf("CreateTopic: %v, %d partitions, want the property's 7", err, created.NumPartitions)
	}
	if err := client.ProduceSync(ctx, kgo.StringRecord("before")).FirstErr(); err == nil {
		t.Error("a record without a topic was accepted")
	}
	produce := func(ctx context.Context, value string) error {
		return client.ProduceSync(ctx, &kgo.Record{Topic: "kept", Value: []byte(value)}).FirstErr()
	}
	if err := produce(ctx, "before"); err != nil {
		t.Fatal(err)
	}
	addrs := cluster.Addrs()
	if err := cluster.Kill(1); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Kill(1); err == nil {
		t.Error("a dead node was killed")
	}
	if err := cluster.Restart(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if got := cluster.Addrs(); got[0] != addrs[0] {
		t.Errorf("the node came back on %v, was on %v", got, addrs)
	}
	if fetches := client.PollFetches(ctx); fetches.NumRecords() != 1 {
		t.Errorf("%d records after the restart, want 1", fetches.NumRecords())
	}

	if err := cluster.Pause(1); err != nil {
		t.Fatal(err)
	}
	short, cancelShort := context.WithTimeout(ctx, 300*time.Millisecond)
	if err := client.Ping(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hung broker answered: %v", err)
	}
	cancelShort()
	if err := cluster.Resume(1); err != nil {
		t.Fatal(err)
	}
	if err := produce(ctx, "after"); err != nil {
		t.Errorf("produce after the broker went on: %v", err)
	}
	if err := cluster.WaitInSync(ctx); err != nil {
		t.Error(err)
	}
	if _, err := kafka.Start(ctx, kafka.Config{Dir: dir}); err == nil {
		t.Error("two clusters on one directory")
	}
	if err := cluster.Stop(); err != nil {
		t.Error(err)
	}
}

func TestBrokerThatCannotStartShowsItsLog(t *testing.T) {
	if err := kafka.Available(); err != nil {
		start(t, kafka.Config{}) // skips or fails
	}
	logs := t.TempDir()
	_, err := kafka.Start(t.Context(), kafka.Config{
		FailedLogs: logs, Properties: map[string]string{"authorizer.class.name": "no.such.Class"},
	})
	if err == nil || !strings.Contains(err.Error(), "no.such.Class") || !strings.Contains(err.Error(), "ended by itself") {
		t.Fatalf("Start = %v, want the end of the broker's log", err)
	}
	kept, _ := filepath.Glob(filepath.Join(logs, "*", "node-1.log"))
	if len(kept) != 1 {
		t.Errorf("kept logs: %v, want one", kept)
	}
	for _, node := range []string{"authorizer", logs} {
		if !strings.Contains(err.Error(), node) {
			t.Errorf("the error does not say %s: %v", node, err)
		}
	}
}
