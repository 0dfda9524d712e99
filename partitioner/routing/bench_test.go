package routing_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// placementsSpec is a topic with n pinned tenants, named as the realistic ones.
func placementsSpec(n int, hash routing.Hash) routing.Spec {
	placements := make(map[string]routing.Placement, n)
	for i := range n {
		placements[fmt.Sprintf("@whale-%06d/service", i)] = routing.Placement{Partitions: []int32{int32(i % 32)}, Epoch: 3}
	}
	return routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": {
		Partitions: 32, Hash: hash, Slots: 4096, Epoch: 5, Placements: placements,
	}}}
}

func placementsTopic(tb testing.TB, n int, hash routing.Hash) *routing.Topic {
	tb.Helper()
	table, err := routing.NewTable(placementsSpec(n, hash))
	if err != nil {
		tb.Fatal(err)
	}
	topic, _ := table.Topic("orders")
	return topic
}

// benchKeys are 1,024 tenants, a power of two so that picking costs a mask.
func benchKeys(format string) [][]byte {
	keys := make([][]byte, 1024)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, format, i*7)
	}
	return keys
}

// BenchmarkStickyKeyPartitioner is what kgo's own keyed partitioner costs: the
// bar that lookups are measured against.
func BenchmarkStickyKeyPartitioner(b *testing.B) {
	p := kgo.StickyKeyPartitioner(nil).ForTopic("orders")
	records := make([]*kgo.Record, 1024)
	for i, k := range benchKeys("@tenant-%06d/service") {
		records[i] = &kgo.Record{Key: k}
	}
	b.ReportAllocs()
	i, sink := 0, 0
	for b.Loop() {
		sink += p.Partition(records[i&1023], 32)
		i++
	}
	_ = sink
}

func BenchmarkPartition(b *testing.B) {
	for _, c := range []struct {
		name, keys string
		placements int
	}{
		{"slots/0", "@tenant-%06d/service", 0},
		{"slots/10000", "@tenant-%06d/service", 10_000},
		{"slots/100000", "@tenant-%06d/service", 100_000},
		{"allhit/10000", "@whale-%06d/service", 10_000},
		{"allhit/100000", "@whale-%06d/service", 100_000},
	} {
		topic, keys := placementsTopic(b, c.placements, routing.XXHash64), benchKeys(c.keys)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			i, sink := 0, int32(0)
			for b.Loop() {
				sink += topic.Partition(keys[i&1023], nil)
				i++
			}
			_ = sink
		})
		b.Run(c.name+"/lookup", func(b *testing.B) {
			b.ReportAllocs()
			i, sink := 0, int32(0)
			for b.Loop() {
				sink += topic.Lookup(keys[i&1023], nil).Partition
				i++
			}
			_ = sink
		})
	}
}

func BenchmarkNewTable100000(b *testing.B) {
	spec := placementsSpec(100_000, routing.XXHash64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := routing.NewTable(spec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEditOneOf100000(b *testing.B) {
	table, err := routing.NewTable(placementsSpec(100_000, routing.XXHash64))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := table.Edit(routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{1}})); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse100000(b *testing.B) {
	table, err := routing.NewTable(placementsSpec(100_000, routing.XXHash64))
	if err != nil {
		b.Fatal(err)
	}
	text, err := table.YAML()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := routing.Parse("bench.yaml", text); err != nil {
			b.Fatal(err)
		}
	}
}

func TestRetainedHeapOf100000Placements(t *testing.T) {
	before := heapInUse()
	topic := placementsTopic(t, 100_000, routing.XXHash64)
	if used := int64(heapInUse()) - int64(before); used > 64<<20 {
		t.Errorf("100,000 placements retain %d MiB, want at most 64", used>>20)
	} else {
		t.Logf("100,000 placements retain %.1f MiB", float64(used)/(1<<20))
	}
	runtime.KeepAlive(topic)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkReplayOf100000(b *testing.B) {
	table, err := routing.NewTable(placementsSpec(100_000, routing.XXHash64))
	if err != nil {
		b.Fatal(err)
	}
	records, err := routing.NewReplay().Transaction(table, routing.Version{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := routing.NewReplay()
		for _, rec := range records {
			r.Apply(rec)
		}
		if _, err := r.Fold(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplayOfOneChange(b *testing.B) {
	table, err := routing.NewTable(placementsSpec(100_000, routing.XXHash64))
	if err != nil {
		b.Fatal(err)
	}
	r := routing.NewReplay()
	change := func() {
		records, err := r.Transaction(table, routing.Version{})
		if err != nil {
			b.Fatal(err)
		}
		for _, rec := range records {
			r.Apply(rec)
		}
		if table, err = r.Fold(); err != nil {
			b.Fatal(err)
		}
		to := routing.Placement{Partitions: []int32{int32(table.Revision() % 32)}}
		if table, err = table.Edit(routing.SetPlacement("orders", "acme", to)); err != nil {
			b.Fatal(err)
		}
	}
	change()
	b.ReportAllocs()
	for b.Loop() {
		change()
	}
}
