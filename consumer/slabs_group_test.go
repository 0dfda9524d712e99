package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
)

// TestRecordsAreTheirOwnWhileMemoryIsUsedAgain handles many large batches, some
// of whose records fail once, are skipped, or are looked at again when the
// handler has let others go on, and wants each to say what was produced.
func TestRecordsAreTheirOwnWhileMemoryIsUsedAgain(t *testing.T) {
	const perTenant, tenants = 4000, 10
	c := newCluster(t, 2)
	var records []*kgo.Record
	for i := range perTenant {
		for k := range tenants {
			tenant := fmt.Sprintf("tenant-%d", k)
			records = append(records, record(int32(k%2), tenant, fmt.Sprintf("%s/%d", tenant, i)))
		}
	}
	for batch := range slices.Chunk(records, 400) {
		c.produce(batch...)
	}
	var mu sync.Mutex
	next, failed := map[string]int{}, map[string]bool{}
	var done atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := c.config()
	cfg.MaxRecords, cfg.Retry.Min = 2000, time.Millisecond
	cfg.KafkaOpts = append(cfg.KafkaOpts, kgo.FetchMaxBytes(16<<10), kgo.FetchMaxPartitionBytes(8<<10)) // many fetches
	w, err := consumer.New(cfg, func(_ context.Context, r *consumer.Record) error {
		key := string(r.Key)
		mu.Lock()
		i := next[key]
		again := i%1000 == 7 && !failed[fmt.Sprint(key, i)]
		if again {
			failed[fmt.Sprint(key, i)] = true
		} else {
			next[key]++
		}
		mu.Unlock()
		kept := bytes.Clone(r.Value)
		if want := fmt.Sprintf("%s/%d", r.Tenant, i); string(kept) != want || key != string(r.Tenant) {
			t.Errorf("%s at offset %d says %q, want %q", key, r.Offset, kept, want)
		}
		if again {
			return errors.New("once more")
		}
		if done.Add(1) == perTenant*tenants {
			cancel()
		}
		if i%300 == 9 {
			return consumer.Skip("not wanted")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for k := range tenants {
		if tenant := fmt.Sprintf("tenant-%d", k); next[tenant] != perTenant {
			t.Errorf("%s: %d records were handled, want %d", tenant, next[tenant], perTenant)
		}
	}
}

// A handler that keeps records beyond its return has them as they were, where
// the configuration says so.
func TestKeptRecordsStayWhatTheyWere(t *testing.T) {
	const count = 20_000
	c := newCluster(t, 1)
	var records []*kgo.Record
	for i := range count {
		records = append(records, record(0, fmt.Sprintf("tenant-%d", i%10), fmt.Sprint(i)))
	}
	for batch := range slices.Chunk(records, 400) {
		c.produce(batch...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := c.config()
	cfg.KeepRecords, cfg.MaxRecords = true, 2000
	cfg.KafkaOpts = append(cfg.KafkaOpts, kgo.FetchMaxBytes(16<<10), kgo.FetchMaxPartitionBytes(8<<10)) // many fetches
	var mu sync.Mutex
	kept := map[int64]*kgo.Record{}
	w, err := consumer.New(cfg, func(_ context.Context, r *consumer.Record) error {
		mu.Lock()
		defer mu.Unlock()
		if kept[r.Offset] = r.Record; len(kept) == count {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for offset, r := range kept {
		if r.Offset != offset || string(r.Value) != fmt.Sprint(offset) {
			t.Fatalf("the record that was handled at offset %d is now at %d and says %q", offset, r.Offset, r.Value)
		}
	}
}
