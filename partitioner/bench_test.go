package partitioner

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// BenchmarkProduce compares a record through the Producer with one through the
// bare client, which hashes keys as Kafka's clients do, without headers and with
// two of the stamps' size: most of what a stamped record costs more is spent on
// writing its headers. The broker runs in the same process and throws records
// away.
func BenchmarkProduce(b *testing.B) {
	c := cluster(b, 32, kfake.BlackholeProduce())
	src := store.Fixed(tableOf(b, routing.TopicSpec{Partitions: 32}))
	for _, tenants := range []int{1, 1000} {
		keys := make([][]byte, tenants)
		for i := range keys {
			keys[i] = fmt.Appendf(nil, "@tenant-%06d/service", i)
		}
		value := make([]byte, 100)
		run := func(name string, produce func(*kgo.Record, func(*kgo.Record, error)), flush func(context.Context) error) {
			b.Run(fmt.Sprintf("tenants=%d/%s", tenants, name), func(b *testing.B) {
				b.ReportAllocs()
				before := cpuTime(b)
				defer func() { b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op") }()
				promise := func(_ *kgo.Record, err error) {
					if err != nil {
						b.Error(err)
					}
				}
				for i := range b.N {
					produce(&kgo.Record{Topic: "orders", Key: keys[i%tenants], Value: value}, promise)
				}
				if err := flush(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
		}
		ctx := context.Background()
		bare := clientOf(b, c, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
		run("bare", func(r *kgo.Record, f func(*kgo.Record, error)) { bare.Produce(ctx, r, f) }, bare.Flush)
		run("bare_with_headers", func(r *kgo.Record, f func(*kgo.Record, error)) {
			stamps := make([]byte, 22+13)
			r.Headers = []kgo.RecordHeader{
				{Key: routing.HeaderRoute, Value: stamps[:22]}, {Key: routing.HeaderTime, Value: stamps[22:]},
			}
			bare.Produce(ctx, r, f)
		}, bare.Flush)
		p := producing(b, c, src, ProducerConfig{})
		run("wrapped", func(r *kgo.Record, f func(*kgo.Record, error)) { p.Produce(ctx, r, f) }, p.Flush)
	}
}

// cpuTime is what the process has used: on a busy machine it says more than the
// time that went by.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
