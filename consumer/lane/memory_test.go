package lane_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// TestMemoryIsFlatOverAMillionTenants lets a million tenants pass, two thousand
// buffered at a time, beside one that never stops.
func TestMemoryIsFlatOverAMillionTenants(t *testing.T) {
	s, err := lane.New[*int](lane.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const buffered, total, look = 2_000, 1_000_000 / raceFactor, 100_000 / raceFactor
	p := s.Assign("t", 0, 1)
	var (
		b          lane.Batch[*int]
		key        []byte
		now        time.Duration
		rec        = new(int)
		whale      = []byte("whale")
		base, most uint64
		entries    int
	)
	for i := range total {
		key = strconv.AppendInt(key[:0], int64(i), 10)
		s.Push(p, lane.ID{Tenant: key, Key: key}, lane.Item[*int]{Offset: int64(2 * i), Rec: rec})
		if i%10 == 0 {
			s.Push(p, lane.ID{Tenant: whale, Key: whale}, lane.Item[*int]{Offset: int64(2*i + 1), Rec: rec})
		}
		for s.Records() > buffered {
			s.Take(now, 32, &b)
			for g := range b.Grants {
				busy := time.Duration(len(b.Grants[g].Items)) * time.Microsecond
				now += busy
				s.Release(&b.Grants[g], lane.Result{Done: len(b.Grants[g].Items), Busy: busy}, now)
			}
			entries = max(entries, s.Tenants())
		}
		if i%look == look-1 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if i < 2*look {
				base = max(base, m.HeapAlloc)
			}
			most = max(most, m.HeapAlloc)
		}
	}
	if most > base+base/10 {
		t.Errorf("the heap has %d KiB after %d tenants, %d KiB after %d", most>>10, total, base>>10, 2*look)
	}
	if entries > 3*buffered {
		t.Errorf("%d tenants were remembered with %d records buffered", entries, buffered)
	}
	t.Logf("heap %d KiB, at most %d tenants remembered", most>>10, entries)
}
