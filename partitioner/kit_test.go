package partitioner

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// patience is when a test that hangs gives up. Nothing is measured by it.
const patience = 20 * time.Second

func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// swap is a Source whose table tests replace.
type swap struct {
	mu sync.Mutex
	// guards both
	now     *routing.Table
	changed chan struct{}
}

func swapping(t *routing.Table) *swap { return &swap{now: t, changed: make(chan struct{})} }

func (s *swap) Table() *routing.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *swap) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *swap) set(t *routing.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = t
	close(s.changed)
	s.changed = make(chan struct{})
}

// place gives a tenant of the topic orders a new partition.
func (s *swap) place(t testing.TB, tenant string, partition int32) {
	t.Helper()
	next, err := s.Table().Edit(routing.SetPlacement("orders", tenant, routing.Placement{Partitions: []int32{partition}}))
	if err != nil {
		t.Fatal(err)
	}
	s.set(next)
}

// cluster starts a broker with the topic orders.
func cluster(t testing.TB, partitions int32, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	opts = append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(partitions, "orders")}, opts...)
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func clientOf(t testing.TB, c *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.MetadataMinAge(20 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// producing makes a Producer that is closed at the end; what is in flight then
// is given up.
func producing(t testing.TB, c *kfake.Cluster, src store.Source, cfg ProducerConfig, opts ...kgo.Opt) *Producer {
	t.Helper()
	opts = append(ClientOpts(src, Config{}), opts...)
	p, err := NewProducer(clientOf(t, c, opts...), src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(ctx)
	})
	return p
}

func record(tenant string, value any) *kgo.Record {
	return &kgo.Record{Topic: "orders", Key: []byte(tenant), Value: fmt.Append(nil, value)}
}

// outcome collects promises.
type outcome struct {
	wg sync.WaitGroup

	mu sync.Mutex
	// guards errs and records
	errs    []error
	records []*kgo.Record
}

// promise must be used for one record.
func (o *outcome) promise() func(*kgo.Record, error) {
	o.wg.Add(1)
	return func(r *kgo.Record, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.errs = append(o.errs, err)
		o.records = append(o.records, r)
		o.wg.Done()
	}
}

// wait gives the errors, in the order of the promises.
func (o *outcome) wait(t testing.TB) []error {
	t.Helper()
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { o.wg.Wait(); close(done) })
	select {
	case <-done:
	case <-patient(t).Done():
		t.Fatal("promises are missing")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.errs
}

// ok wants every record to have been written.
func (o *outcome) ok(t testing.TB) {
	t.Helper()
	for _, err := range o.wait(t) {
		if err != nil {
			t.Error(err)
		}
	}
}

// read consumes n records of a topic.
func read(t testing.TB, c *kfake.Cluster, topic string, n int) []*kgo.Record {
	t.Helper()
	client := clientOf(t, c, kgo.ConsumeTopics(topic), kgo.FetchMaxWait(50*time.Millisecond))
	defer client.Close()
	ctx := patient(t)
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %d of %d records of %s: %v", len(records), n, topic, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// header gives the values of all headers of a name.
func header(r *kgo.Record, name string) (values []string) {
	for _, h := range r.Headers {
		if h.Key == name {
			values = append(values, string(h.Value))
		}
	}
	return values
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := patient(t); !is(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never came: %s", what)
		}
	}
}
