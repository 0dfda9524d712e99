package consumer

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A million tenants pass through a worker, each with one record; some fail at
// first. What lives after a collection, and the heap that is in use for it, do
// not grow after the first hundred thousand.
func TestHeapIsFlatOverAMillionTenants(t *testing.T) {
	const total, chunk = 1_000_000 / raceFactor, 2000
	handled := 0
	h := func(_ context.Context, r *Record) error {
		if r.Attempt == 1 && r.Offset%500 == 0 {
			return errTest
		}
		handled++
		return nil
	}
	inBubble(t, Config{Concurrency: 1}, h, func(b *bench) {
		p := b.open(topicPartition{"orders", 0}, fresh(), 1)
		var base runtime.MemStats
		for at := 0; at < total; at += chunk {
			b.fetched(0, newcomers(at, chunk)...)
			synctest.Wait()
			b.pendingCommits([]*partition{p})
			if n := at + chunk; n%(total/10) == 0 {
				pass(time.Minute) // what failed is tried again
				heap := collected()
				t.Logf("after %d tenants %d KiB live, %d KiB in use", n, heap.HeapAlloc>>10, heap.HeapInuse>>10)
				if n == total/10 {
					base = heap
				}
				if heap.HeapAlloc > base.HeapAlloc+256<<10 || heap.HeapInuse > base.HeapInuse+2<<20 {
					t.Errorf("grew from %d and %d KiB", base.HeapAlloc>>10, base.HeapInuse>>10)
				}
			}
		}
		if handled != total || b.watermark(p) != total {
			t.Errorf("%d handled, watermark %d, want %d", handled, b.watermark(p), total)
		}
	})
}

// newcomers are n records, each of a tenant that was not seen before.
func newcomers(at, n int) []*kgo.Record {
	slab := make([]kgo.Record, n)
	records := make([]*kgo.Record, n)
	for i := range slab {
		slab[i] = kgo.Record{
			Topic: "orders", Offset: int64(at + i), LeaderEpoch: 1, Value: []byte("x"),
			Key: strconv.AppendInt([]byte("tenant-"), int64(at+i), 10),
		}
		records[i] = &slab[i]
	}
	return records
}

// collected is the heap after all garbage is gone.
func collected() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // what pools kept over the first
	runtime.ReadMemStats(&m)
	return m
}
