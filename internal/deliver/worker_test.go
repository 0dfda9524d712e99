package deliver_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/deliver"
	"github.com/tenantlane/tenantlane/internal/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topic = "orders"

func broker(t *testing.T, partitions int32) []kgo.Opt {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	if err != nil {
		t.Fatalf("starting the embedded broker: %v", err)
	}
	t.Cleanup(c.Close)
	return []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.FetchMaxWait(50 * time.Millisecond)}
}

// produce writes n checkable records of each of so many tenants.
func produce(t *testing.T, opts []kgo.Opt, c *check.Checker, tenants, n int) {
	t.Helper()
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatalf("making a producer: %v", err)
	}
	defer client.Close()
	for seq := 1; seq <= n; seq++ {
		for i := range tenants {
			id := check.ID{Producer: "p", Tenant: fmt.Sprintf("tenant-%d", i)}
			v := load.Value{ID: id, Seq: uint64(seq), Time: time.Now()}
			r := &kgo.Record{Topic: topic, Key: []byte(id.Tenant), Value: v.Append(nil, 0)}
			client.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("producing: %v", err)
				}
			})
			c.Produced(id, uint64(seq))
		}
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatalf("flushing: %v", err)
	}
}

// buffer is a log file.
type buffer struct {
	mu     sync.Mutex
	writes int
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes++
	return b.Buffer.Write(p)
}

func TestWorkerLogsEachHandlingAndCommitUntilIdle(t *testing.T) {
	opts := broker(t, 3)
	c := check.New()
	produce(t, opts, c, 7, 60)
	var log buffer
	var last deliver.Stats
	w, err := deliver.New(deliver.Config{
		Consumer:  consumer.Config{Group: "g", Topics: []string{topic}, KafkaOpts: opts, CommitInterval: 50 * time.Millisecond},
		Target:    deliver.Discard(0),
		Log:       &log,
		UntilIdle: 300 * time.Millisecond,
		OnStats:   func(s deliver.Stats) { last = s },
	})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := w.Run(context.Background()); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if err := check.Feed(c, check.NewReader("log", bytes.NewReader(log.Bytes()))); err != nil {
		t.Fatalf("reading the log: %v", err)
	}
	r := c.Report()
	if !r.OK() || r.Handled != 420 || r.Duplicates != 0 {
		t.Errorf("report: %+v, problem %q", r, r.Problem())
	}
	if last.Handled != 420 {
		t.Errorf("stats say %d handled, want 420", last.Handled)
	}
	if lines := bytes.Count(log.Bytes(), []byte("\n")); lines != log.writes {
		t.Errorf("%d lines in %d writes: each belongs in one", lines, log.writes)
	}
	if !bytes.Contains(log.Bytes(), []byte(`{"commit":[`)) {
		t.Error("the log has no commit")
	}
}
