package partitioner

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// The traps of kgo that the Producer exists to step around. Where it can be
// shown, a test also shows that the bare client falls in, so that a handling
// that is no longer needed is noticed.

func pinned(partitions int32, tenants map[string]int32) routing.TopicSpec {
	spec := routing.TopicSpec{Partitions: partitions, Placements: map[string]routing.Placement{}}
	for tenant, partition := range tenants {
		spec.Placements[tenant] = routing.Placement{Partitions: []int32{partition}, Epoch: 1}
	}
	return spec
}

func TestTrap1APanicDoesNotWedgeATopic(t *testing.T) {
	c := cluster(t, 4, kfake.SeedTopics(4, "elsewhere"))
	src := store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 4}))
	client := clientOf(t, c, kgo.RecordPartitioner(New(src, Config{Fallback: panicky("Partition")})))
	p, err := NewProducer(client, src, ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close(patient(t)) }()
	for range 3 { // first in the goroutine that reads metadata, then in Produce
		err := p.ProduceSync(patient(t), &kgo.Record{Topic: "elsewhere"}).FirstErr()
		if !errors.Is(err, ErrPanic) {
			t.Errorf("error is %v", err)
		}
	}
	if err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr(); err != nil {
		t.Errorf("another topic: %v", err)
	}
}

func TestTrap2NewPartitionsAreFoundBeforeRecordsGoThere(t *testing.T) {
	c := cluster(t, 2)
	src := swapping(tableOf(t, pinned(2, map[string]int32{"acme": 0, "quiet": 1})))
	p := producing(t, c, src, ProducerConfig{}, kgo.MetadataMaxAge(time.Hour))
	if err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	grow(t, c, 4)
	next, err := src.Table().Edit(routing.Grow("orders", 4),
		routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{3}}))
	if err != nil {
		t.Fatal(err)
	}
	src.set(next)
	r, err := p.ProduceSync(patient(t), record("acme", 2)).First()
	if err != nil || r.Partition != 3 {
		t.Errorf("partition %d, %v", r.Partition, err)
	}
}

func grow(t *testing.T, c *kfake.Cluster, partitions int) {
	t.Helper()
	admin := kadm.NewClient(clientOf(t, c))
	resp, err := admin.UpdatePartitions(patient(t), partitions, "orders")
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTrap3ACancelledCallerDoesNotFailTheBatch(t *testing.T) {
	c := cluster(t, 1)
	src := store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1}))
	p := producing(t, c, src, ProducerConfig{}, kgo.ProducerLinger(time.Minute))
	var warm outcome
	p.Produce(context.Background(), record("warm", 0), warm.promise())
	if err := p.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	warm.ok(t)
	try := func(produce func(context.Context, *kgo.Record, func(*kgo.Record, error))) []error {
		ctx, cancel := context.WithCancel(context.Background())
		var o outcome
		produce(ctx, record("first", 1), o.promise())
		produce(context.Background(), record("second", 2), o.promise())
		cancel()
		if err := p.client.Flush(patient(t)); err != nil {
			t.Fatal(err)
		}
		return o.wait(t)
	}
	for _, err := range try(p.Produce) {
		if err != nil {
			t.Errorf("the wrapper's record failed: %v", err)
		}
	}
	for _, err := range try(p.client.Produce) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the bare client's record: %v, so this trap is gone", err)
		}
	}
}

func TestTrap4StampsDoNotLeakTheClientsBuffer(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{})
	for i := range 100 {
		if err := p.ProduceSync(patient(t), record("acme", i)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(patient(t)); err != nil { // kgo counts down after the promise
		t.Fatal(err)
	}
	if records, bytes := p.client.BufferedProduceRecords(), p.client.BufferedProduceBytes(); records != 0 || bytes != 0 {
		t.Errorf("%d records and %d bytes still count as buffered", records, bytes)
	}
	p.empty(t)
	late := clientOf(t, c, kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, _ int) int {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: routing.HeaderTime, Value: []byte("0")})
			return 0
		}
	})))
	if err := late.ProduceSync(patient(t), record("acme", 0)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := late.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	if late.BufferedProduceBytes() == 0 {
		t.Error("the bare client counts headers that its partitioner adds, so this trap is gone")
	}
}

func TestTrap5AnOldEventDoesNotTimeOut(t *testing.T) {
	c := cluster(t, 1)
	src := store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1}))
	p := producing(t, c, src, ProducerConfig{}, kgo.RecordDeliveryTimeout(time.Minute))
	event := time.UnixMilli(1_600_000_000_123)
	r := record("acme", 1)
	r.Timestamp = event
	if err := p.ProduceSync(patient(t), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if !r.Timestamp.Equal(event) {
		t.Errorf("the caller's Timestamp became %v", r.Timestamp)
	}
	got := read(t, c, "orders", 1)[0]
	if times := header(got, routing.HeaderTime); len(times) != 1 || times[0] != strconv.FormatInt(event.UnixMilli(), 10) {
		t.Errorf("tl-time is %q", times)
	}
	if time.Since(got.Timestamp) > time.Hour {
		t.Errorf("the record's timestamp is %v", got.Timestamp)
	}
	bare := record("acme", 2)
	bare.Timestamp = event
	if err := p.client.ProduceSync(patient(t), bare).FirstErr(); !errors.Is(err, kgo.ErrRecordTimeout) {
		t.Errorf("the bare client's record: %v, so this trap is gone", err)
	}
}

func TestTrap6ARecordMayBeProducedAgain(t *testing.T) {
	c := cluster(t, 2)
	src := swapping(tableOf(t, pinned(2, map[string]int32{"acme": 0})))
	p := producing(t, c, src, ProducerConfig{})
	r := record("acme", "same")
	r.Headers = []kgo.RecordHeader{{Key: "app", Value: []byte("x")}}

	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: kerr.InvalidRecord, Count: 1})
	if err := p.ProduceSync(patient(t), r).FirstErr(); !errors.Is(err, kerr.InvalidRecord) || fault.Hits() != 1 {
		t.Fatalf("the first try: %v", err)
	}
	src.place(t, "acme", 1)
	if err := p.ProduceSync(patient(t), r, r).FirstErr(); err != nil { // again, and twice at once
		t.Fatal(err)
	}
	if len(r.Headers) != 1 || r.Context != nil {
		t.Errorf("the caller's record has headers %v and a context %v", r.Headers, r.Context)
	}
	for _, got := range read(t, c, "orders", 2) {
		if got.Partition != 1 || len(header(got, routing.HeaderRoute)) != 1 || len(header(got, "app")) != 1 || len(got.Headers) != 3 {
			t.Errorf("partition %d, headers %v", got.Partition, got.Headers)
		}
	}
}

func TestTrap7OutOfRangeIsTyped(t *testing.T) {
	c := cluster(t, 2)
	src := swapping(tableOf(t, pinned(8, map[string]int32{"acme": 7, "quiet": 1})))
	p := producing(t, c, src, ProducerConfig{})
	want := &RouteError{Topic: "orders", Tenant: "acme", Partition: 7, Partitions: 2, Epoch: 1, Revision: 1}
	for _, when := range []string{"before the client knows the topic", "after", "soon after"} {
		err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr()
		var got *RouteError
		if !errors.As(err, &got) || !errors.Is(err, ErrOutOfRange) {
			t.Fatalf("%s: %v", when, err)
		}
		if got.Topic != want.Topic || got.Tenant != want.Tenant || got.Partition != want.Partition ||
			got.Partitions != want.Partitions || got.Epoch != want.Epoch || got.Revision != want.Revision {
			t.Errorf("%s: %+v", when, got)
		}
	}
	if err := p.ProduceSync(patient(t), record("quiet", 1)).FirstErr(); err != nil {
		t.Errorf("a tenant within the topic: %v", err)
	}
	r := record("acme", 1)
	err := p.client.ProduceSync(patient(t), r).FirstErr()
	if err == nil || errors.As(err, new(*RouteError)) {
		t.Errorf("the bare client's error is typed: %v, so this trap is gone", err)
	}
	if !errors.Is(Cause(r, err), ErrOutOfRange) {
		t.Errorf("its cause is %v", Cause(r, err))
	}
}

// withoutLeader makes a partition of orders refuse every record as a partition
// does whose leader is away.
func withoutLeader(c *kfake.Cluster, partitions ...int32) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Partitions: partitions,
		Err: kerr.NotLeaderForPartition, Count: -1,
	})
}

func TestTrap8APartitionWithoutALeaderBlocksNoOtherTenant(t *testing.T) {
	const buffer = 400
	c := cluster(t, 4)
	src := store.Fixed(tableOf(t, pinned(4, map[string]int32{"stuck": 0, "stuck-too": 1, "fine": 2})))
	p := producing(t, c, src, ProducerConfig{OnFull: RefuseOnFull}, kgo.MaxBufferedRecords(buffer))
	if err := p.ProduceSync(patient(t), record("fine", 0)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fault := withoutLeader(c, 0, 1)
	defer fault.Remove()

	var stuck outcome
	for i := range 2 * buffer {
		p.Produce(context.Background(), record("stuck", i), stuck.promise())
		p.Produce(context.Background(), record("stuck-too", i), stuck.promise())
	}
	for i := range 100 {
		if err := p.ProduceSync(patient(t), record("fine", i)).FirstErr(); err != nil {
			t.Fatalf("record %d of the tenant beside it: %v", i, err)
		}
	}
	fault.Remove()
	full := 0
	for _, err := range stuck.wait(t) {
		if errors.Is(err, ErrTenantBackpressure) || errors.Is(err, ErrPartitionUnavailable) {
			full++
		} else if err != nil {
			t.Error(err)
		}
	}
	if full == 0 || full > 4*buffer-2 {
		t.Errorf("%d of %d records were refused", full, 4*buffer)
	}

	fault = withoutLeader(c, 0)
	defer fault.Remove()
	bare := clientOf(t, c, kgo.MaxBufferedRecords(buffer), kgo.RecordPartitioner(New(src, Config{})))
	for i := range buffer {
		bare.Produce(context.Background(), record("stuck", i), nil)
	}
	err := error(nil)
	done := make(chan struct{})
	bare.TryProduce(context.Background(), record("fine", 1), func(_ *kgo.Record, e error) { err = e; close(done) })
	select {
	case <-done:
	case <-patient(t).Done():
		t.Fatal("no answer")
	}
	if !errors.Is(err, kgo.ErrMaxBuffered) {
		t.Errorf("the bare client's tenant beside it: %v, so this trap is gone", err)
	}
}
