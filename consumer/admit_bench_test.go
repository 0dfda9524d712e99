package consumer

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkAdmit puts records of many tenants into lanes and takes them out by
// closing the partition.
func BenchmarkAdmit(b *testing.B) {
	cfg := Config{Group: "g", Topics: []string{"orders"}}.withDefaults()
	e, err := newEngine(&cfg, func(context.Context, *Record) error { return nil }, newMetrics(), nil)
	if err != nil {
		b.Fatal(err)
	}
	slab := make([]kgo.Record, 10_000)
	records := make([]*kgo.Record, len(slab))
	for i := range slab {
		slab[i] = kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "tenant-%d", i%2000), Value: make([]byte, 100), Offset: int64(i)}
		records[i] = &slab[i]
	}
	a := &admission{}
	b.ReportAllocs()
	for b.Loop() {
		p := e.open(topicPartition{"orders", 0}, begin{epoch: -1, committed: unknownOffset}, 1)
		e.admit(a, "orders", e.opened(topicPartition{"orders", 0}), &kgo.FetchPartition{Records: records})
		e.close([]*partition{p})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(slab)), "ns/record")
}
