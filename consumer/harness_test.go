package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/internal/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	topic = "orders"
	group = "billing"
	// patience bounds waits for what must happen; no test relies on its length.
	patience = 30 * time.Second
)

// cluster is an embedded broker with one topic.
type cluster struct {
	*kfake.Cluster
	t        *testing.T
	producer *kgo.Client
}

func newCluster(t *testing.T, partitions int32, opts ...kfake.Opt) *cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic), kfake.GroupMinSessionTimeout(time.Second),
	}, opts...)...)
	if err != nil {
		t.Fatalf("starting the embedded broker: %v", err)
	}
	t.Cleanup(c.Close)
	producer, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatalf("making a producer: %v", err)
	}
	t.Cleanup(producer.Close)
	return &cluster{Cluster: c, t: t, producer: producer}
}

// produce writes records and waits for their acknowledgements.
func (c *cluster) produce(records ...*kgo.Record) {
	c.t.Helper()
	if err := c.producer.ProduceSync(c.t.Context(), records...).FirstErr(); err != nil {
		c.t.Fatalf("producing: %v", err)
	}
}

// sequence makes n records of each tenant in one partition, interleaved, whose
// values count from 1 per tenant.
func sequence(partition int32, n int, tenants ...string) []*kgo.Record {
	var records []*kgo.Record
	for seq := 1; seq <= n; seq++ {
		for _, tenant := range tenants {
			records = append(records, record(partition, tenant, strconv.Itoa(seq)))
		}
	}
	return records
}

func record(partition int32, key, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(value)}
}

// config is the least a worker needs, with a fast group protocol.
func (c *cluster) config() consumer.Config {
	return consumer.Config{
		Group: group, Topics: []string{topic}, CommitInterval: 20 * time.Millisecond,
		KafkaOpts: c.kafkaOpts(),
	}
}

// mortal is config for a worker that is going to be killed, so that the group
// notices soon.
func (c *cluster) mortal() consumer.Config {
	cfg := c.config()
	cfg.KafkaOpts = append(cfg.KafkaOpts, kgo.SessionTimeout(2*time.Second))
	return cfg
}

func (c *cluster) kafkaOpts() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(c.ListenAddrs()...), kgo.HeartbeatInterval(50 * time.Millisecond),
		kgo.SessionTimeout(5 * time.Second), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}
}

// committed returns a partition's committed offset, or -1.
func (c *cluster) committed(partition int32) int64 {
	info := c.GroupInfo(group)
	if info == nil {
		return -1
	}
	commit, ok := info.Commits[topic][partition]
	if !ok {
		return -1
	}
	return commit.Offset
}

// waitFrontier waits until a partition's commit says that all below a frontier
// is done but for so many lanes.
func (c *cluster) waitFrontier(t *testing.T, partition int32, frontier int64, lanes int) {
	t.Helper()
	c.eventually(t, fmt.Sprintf("a commit with frontier %d and %d lanes", frontier, lanes), func() bool {
		info := c.GroupInfo(group)
		if info == nil {
			return false
		}
		said, why := offset.Decode(info.Commits[topic][partition].Metadata)
		return why == offset.Valid && said.Frontier >= frontier && len(said.Lanes) == lanes
	})
}

// eventually looks for ok again at each heartbeat of the group.
func (c *cluster) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	beats := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Observe: true, Count: -1})
	defer beats.Remove()
	for n := 1; !ok(); n++ {
		if err := beats.Wait(ctx, n); err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// ledger notes what a worker was given and what it committed.
type ledger struct {
	mu sync.Mutex
	// guards the fields below
	assigned []consumer.Assigned
	commits  []consumer.Committed
	changed  chan struct{}
}

func newLedger() *ledger { return &ledger{changed: make(chan struct{})} }

// watch hooks the ledger into a configuration.
func (l *ledger) watch(cfg consumer.Config) consumer.Config {
	cfg.OnAssign = func(assigned []consumer.Assigned) {
		l.note(func() { l.assigned = append(l.assigned, assigned...) })
	}
	cfg.OnCommit = func(done []consumer.Committed) {
		l.note(func() { l.commits = append(l.commits, done...) })
	}
	return cfg
}

func (l *ledger) note(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *ledger) wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		good, changed := ok(), l.changed
		l.mu.Unlock()
		if good {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// waitAssigned waits until the worker was given n partitions in all.
func (l *ledger) waitAssigned(t *testing.T, n int) {
	t.Helper()
	l.wait(t, fmt.Sprintf("%d assignments", n), func() bool { return len(l.assigned) >= n })
}

// waitCommitted waits until the worker has committed an offset or a later one.
func (l *ledger) waitCommitted(t *testing.T, partition int32, at int64) {
	t.Helper()
	l.wait(t, fmt.Sprintf("a commit of partition %d at %d", partition, at), func() bool {
		for _, c := range l.commits {
			if c.Partition == partition && c.Offset >= at {
				return true
			}
		}
		return false
	})
}

// worker is a Runtime that runs until the test ends, or is stopped or killed.
type worker struct {
	*consumer.Runtime
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
	wire   *wire.Wire
}

func (c *cluster) start(cfg consumer.Config, h consumer.Handler) *worker {
	c.t.Helper()
	w := &worker{t: c.t, done: make(chan error, 1), wire: &wire.Wire{}}
	cfg.KafkaOpts = append(cfg.KafkaOpts, kgo.Dialer(w.wire.Dial))
	rt, err := consumer.New(cfg, h)
	if err != nil {
		c.t.Fatalf("New: %v", err)
	}
	w.Runtime = rt
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go func() { w.done <- rt.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		rt.StopNow()
		<-w.done //nolint:errcheck // stopped by the test
		close(w.done)
	})
	return w
}

// stop drains the worker and returns Run's error.
func (w *worker) stop() error {
	w.t.Helper()
	w.cancel()
	return w.wait()
}

func (w *worker) wait() error {
	w.t.Helper()
	select {
	case err := <-w.done:
		w.done <- err
		return err
	case <-time.After(patience):
		w.t.Fatal("Run did not return")
		return nil
	}
}

// kill cuts the worker off the network and stops it: what it did not commit is
// not committed, and it does not leave the group.
func (w *worker) kill() {
	w.t.Helper()
	w.wire.Cut()
	w.StopNow()
	_ = w.wait()
}

// journal notes what handlers handled.
type journal struct {
	mu sync.Mutex
	// guards the fields below
	entries []handling
	changed chan struct{}
}

type handling struct {
	tenant, value string
	partition     int32
	offset        int64
	attempt       int
}

func newJournal() *journal { return &journal{changed: make(chan struct{})} }

func (j *journal) handle(_ context.Context, r *consumer.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, handling{string(r.Tenant), string(r.Value), r.Partition, r.Offset, r.Attempt})
	close(j.changed)
	j.changed = make(chan struct{})
	return nil
}

func (j *journal) all() []handling {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]handling(nil), j.entries...)
}

// wait waits until ok is true of what was handled.
func (j *journal) wait(t *testing.T, what string, ok func([]handling) bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		j.mu.Lock()
		good, changed, n := ok(j.entries), j.changed, len(j.entries)
		j.mu.Unlock()
		if good {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("timed out waiting for %s; %d handled", what, n)
		}
	}
}

// waitFor waits until n different records were handled.
func (j *journal) waitFor(t *testing.T, n int) {
	t.Helper()
	j.wait(t, fmt.Sprintf("%d records", n), func(all []handling) bool { return distinct(all) >= n })
}

func distinct(all []handling) int {
	seen := make(map[[2]int64]bool)
	for _, h := range all {
		seen[[2]int64{int64(h.partition), h.offset}] = true
	}
	return len(seen)
}

// assertOrder fails unless each record was first handled after those before it
// in its partition and tenant, and none is missing up to n per tenant.
func assertOrder(t *testing.T, all []handling) {
	t.Helper()
	type key struct {
		tenant    string
		partition int32
	}
	last := make(map[key]int)
	for _, h := range all {
		seq, err := strconv.Atoi(h.value)
		if err != nil {
			continue
		}
		k := key{h.tenant, h.partition}
		if seq <= last[k] {
			continue // a repeat
		}
		if seq != last[k]+1 {
			t.Fatalf("tenant %s partition %d: %d handled after %d", h.tenant, h.partition, seq, last[k])
		}
		last[k] = seq
	}
}
