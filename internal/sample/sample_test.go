package sample_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/internal/sketch"
	"github.com/tenantlane/tenantlane/internal/testkit"
)

// broker starts an embedded broker with the topic "orders" of two partitions,
// and a client that produces to the partition a record names.
func broker(t *testing.T, opts ...kgo.Opt) (*embedded.Broker, *kgo.Client) {
	t.Helper()
	b := testkit.Broker(t, kfake.SeedTopics(2, "orders"))
	return b, testkit.Client(t, b, append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("orders"))...)
}

func produce(t *testing.T, client *kgo.Client, partition int32, tenant string, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Partition: partition, Key: []byte(tenant), Value: fmt.Appendf(nil, "%s %d", tenant, i)}
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func reader(t *testing.T, client *kgo.Client) *sample.Reader {
	t.Helper()
	r, err := sample.NewReader(client, sample.Config{Rand: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The tail of a partition names the wrong tenant: an import is in the middle.
func TestRandomPlacesShowWhatFillsAPartition(t *testing.T) {
	t.Parallel()
	_, client := broker(t)
	for i := range 10 {
		produce(t, client, 1, fmt.Sprintf("ordinary-%d", i), 100)
	}
	produce(t, client, 1, "importer", 8000)
	for i := range 10 {
		produce(t, client, 1, fmt.Sprintf("ordinary-%d", i), 100)
	}
	counts, last := map[string]int{}, int64(-1)
	n, err := reader(t, client).Random(t.Context(), "orders", 1, 0, 10_000, func(r *kgo.Record) {
		counts[string(r.Key)]++
		if r.Offset <= last {
			t.Errorf("offset %d visited after %d", r.Offset, last)
		}
		last = r.Offset
	})
	if err != nil || n < 100 {
		t.Fatalf("%d records, %v", n, err)
	}
	if share := float64(counts["importer"]) / float64(n); share < 0.65 || share > 0.95 {
		t.Fatalf("the importer has 80 %% of the records and %.0f %% of the sample", 100*share)
	}
}

func TestSmallRangeIsReadWholeAndOnce(t *testing.T) {
	t.Parallel()
	_, client := broker(t)
	produce(t, client, 0, "acme", 40)
	seen := map[int64]int{}
	n, err := reader(t, client).Random(t.Context(), "orders", 0, 30, 38, func(r *kgo.Record) { seen[r.Offset]++ })
	if err != nil || n != 8 || len(seen) != 8 {
		t.Fatalf("%d records %v, %v", n, seen, err)
	}
	if n, err := reader(t, client).Random(t.Context(), "orders", 0, 40, 40, nil); n != 0 || err != nil {
		t.Fatalf("an empty range gives %d records, %v", n, err)
	}
}

func TestUnreadablePartitionIsAnError(t *testing.T) {
	t.Parallel()
	b, client := broker(t)
	visit := func(*kgo.Record) { t.Error("visited") }
	if _, err := reader(t, client).Random(t.Context(), "absent", 0, 0, 10, visit); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("unknown topic: %v", err)
	}
	if _, err := reader(t, client).Random(t.Context(), "orders", 7, 0, 10, visit); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("unknown partition: %v", err)
	}
	b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := reader(t, client).Random(ctx, "orders", 0, 0, 10, visit); err == nil {
		t.Error("no error from a stopped broker")
	}
}

func TestFirstVisibleTellsATailOfMarkersFromRecords(t *testing.T) {
	t.Parallel()
	_, client := broker(t, kgo.TransactionalID("tx"))
	transaction := func(n int, end kgo.TransactionEndTry) {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, client, 0, "acme", n)
		if err := client.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	transaction(10, kgo.TryCommit) // 0–9, marker 10
	transaction(5, kgo.TryAbort)   // 11–15 aborted, marker 16
	r := reader(t, client)
	v, err := r.FirstVisible(t.Context(), "orders", 0, 10)
	if err != nil || v.Found || v.Offset != 17 || v.Stable != 17 {
		t.Fatalf("at the tail: %+v, %v", v, err)
	}
	if v, err = r.FirstVisible(t.Context(), "orders", 0, 7); err != nil || !v.Found || v.Offset != 7 {
		t.Fatalf("at a record: %+v, %v", v, err)
	}
	transaction(1, kgo.TryCommit) // 17
	if v, err = r.FirstVisible(t.Context(), "orders", 0, 10); err != nil || !v.Found || v.Offset != 17 {
		t.Fatalf("behind an aborted transaction: %+v, %v", v, err)
	}
}

func TestFollowWeighsArrivals(t *testing.T) {
	t.Parallel()
	_, client := broker(t)
	produce(t, client, 0, "before", 1000)
	r := reader(t, client)
	follow, err := r.Following(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	produce(t, client, 0, "acme", 3000)
	produce(t, client, 1, "bolt", 1000)
	weights := map[string]float64{}
	follow(t.Context(), func(rec *kgo.Record, weight float64) { weights[string(rec.Key)] += weight })
	follow(t.Context(), func(rec *kgo.Record, _ float64) { t.Errorf("visited %d twice", rec.Offset) })
	if a, b := weights["acme"], weights["bolt"]; a < 2999 || a > 3001 || b < 999 || b > 1001 || len(weights) != 2 {
		t.Fatalf("weights %v", weights)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	_, client := broker(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := reader(t, client)
	if err := r.Follow(ctx, "orders", time.Millisecond, nil); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := r.Follow(t.Context(), "absent", time.Millisecond, nil); err == nil {
		t.Error("follows a topic that does not exist")
	}
	if err := r.Follow(t.Context(), "orders", 0, nil); err == nil {
		t.Error("accepts a period of 0")
	}
}

func TestConfigNamesTheField(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]sample.Config{
		"Places": {Places: -1}, "PerPlace": {PerPlace: -1}, "MaxBytes": {MaxBytes: -1}, "Parallel": {Parallel: -1},
	} {
		if _, err := sample.NewReader(nil, cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func ExampleReader_Random() {
	b, err := embedded.Start(embedded.Config{Options: []kfake.Opt{kfake.SeedTopics(1, "orders")}})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx := context.Background()
	for range 500 {
		client.Produce(ctx, &kgo.Record{Key: []byte("acme")}, nil)
	}
	if err = client.Flush(ctx); err != nil {
		panic(err)
	}

	r, err := sample.NewReader(client, sample.Config{})
	if err != nil {
		panic(err)
	}
	tenants := sketch.New(64)
	if _, err := r.Random(ctx, "orders", 0, 0, 500, func(rec *kgo.Record) { tenants.Add(rec.Key, 1) }); err != nil {
		panic(err)
	}
	fmt.Println(tenants.Top(1)[0].Key, tenants.Total() > 100)
	// Output: acme true
}
