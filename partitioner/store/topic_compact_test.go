package store

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// TestReadersUnderAnAggressiveCleaner lets the cleaner run after every change,
// without the lag that protects readers.
func TestReadersUnderAnAggressiveCleaner(t *testing.T) {
	b := embeddedBroker(t)
	cfg := quick(b.Addrs())
	writer := openTopic(t, cfg)
	noLag := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "min.compaction.lag.ms", Value: new("0")}}
	if _, err := writer.admin.AlterTopicConfigs(patient(t), noLag, cfg.RoutingTopic()); err != nil {
		t.Fatal(err)
	}
	follower := openTopic(t, cfg)
	written := map[uint64]string{0: ""}
	commit := func(edits ...routing.Edit) {
		table := update(t, writer, edits...)
		written[table.Revision()] = yaml(t, table)
		b.Cluster().Compact()
		if got := follower.Table(); got.Revision() > 0 && yaml(t, got) != written[got.Revision()] {
			t.Fatalf("revision %d is not what was written", got.Revision())
		}
	}
	commit(orders())
	for i := range 30 {
		tenant := fmt.Sprint("tenant-", i%3)
		switch i % 5 {
		case 3:
			commit(routing.SetSlots("orders", map[int32]int32{int32(i % 4): int32(i % 8)}))
		case 4:
			commit(routing.SetPlacement("orders", "brief", to(1)), routing.ForgetTenant("orders", "brief"), routing.SetPlacement("orders", tenant, to(0)))
			late := openTopic(t, cfg)
			if got := late.Table(); yaml(t, got) != yaml(t, writer.Table()) {
				t.Fatalf("a reader that loads now has revision %d, want %d", got.Revision(), writer.Table().Revision())
			}
		default:
			commit(routing.SetPlacement("orders", tenant, to(int32(i%8))))
		}
	}
	if got := awaitTable(t, follower, writer.Table().Revision()); yaml(t, got) != yaml(t, writer.Table()) {
		t.Error("the follower's table is another")
	}
}

func yaml(t testing.TB, table *routing.Table) string {
	t.Helper()
	text, err := table.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// manyPlacements is a topic with n pinned tenants.
func manyPlacements(n int) routing.TopicSpec {
	placements := make(map[string]routing.Placement, n)
	for i := range n {
		placements[fmt.Sprintf("@tenant-%06d/service", i)] = to(int32(i % 8))
	}
	return routing.TopicSpec{Partitions: 8, Placements: placements}
}

// BenchmarkTopic measures a table of 100,000 placements: its load from the
// topic, how long one change takes to show at another reader, and what a store
// retains.
func BenchmarkTopic(b *testing.B) {
	cfg := quick(broker(b))
	writer := openTopic(b, cfg)
	update(b, writer, routing.SetTopic("orders", manyPlacements(100_000)))
	b.Run("load100000", func(b *testing.B) {
		for b.Loop() {
			store, err := OpenTopic(context.Background(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("change", func(b *testing.B) {
		reader := openTopic(b, cfg)
		i := int32(0)
		var shown time.Duration
		for b.Loop() {
			i++
			changed := reader.Changed()
			began := time.Now()
			update(b, writer, routing.SetPlacement("orders", "acme", to(i%8)))
			<-changed
			shown += time.Since(began)
		}
		b.ReportMetric(float64(shown.Milliseconds())/float64(b.N), "ms/shown")
	})
	b.Run("heap100000", func(b *testing.B) {
		for b.Loop() {
			before := heapInUse()
			store := openTopic(b, cfg)
			b.ReportMetric(float64(heapInUse()-before)/(1<<20), "MiB/retained")
			runtime.KeepAlive(store)
		}
	})
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
