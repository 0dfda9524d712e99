package consumer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
)

const (
	benchRecords    = 1_000_000
	benchTenants    = 2_000
	benchPartitions = 16
)

// benchTopic is an embedded broker with records of 100 bytes for many tenants.
func benchTopic(b *testing.B) []kgo.Opt {
	b.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(benchPartitions, topic))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(broker.Close)
	opts := []kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...)}
	producer, err := kgo.NewClient(append(opts, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		b.Fatal(err)
	}
	defer producer.Close()
	value := make([]byte, 90)
	for i := range benchRecords {
		producer.Produce(b.Context(), &kgo.Record{Key: fmt.Appendf(nil, "tenant-%d", i%benchTenants), Value: value}, nil)
	}
	if err := producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return opts
}

// BenchmarkNoopHandler compares the runtime with a bare poll loop of the same
// client on the same topic: records/s, and allocations per record.
func BenchmarkNoopHandler(b *testing.B) {
	opts := benchTopic(b)
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			bare(b, opts, newGroup())
		}
		b.ReportMetric(float64(b.N)*benchRecords/b.Elapsed().Seconds(), "records/s")
	})
	b.Run("tenantlane", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			lanes(b, opts, newGroup())
		}
		b.ReportMetric(float64(b.N)*benchRecords/b.Elapsed().Seconds(), "records/s")
	})
}

var groups atomic.Int64

// newGroup is a group that has committed nothing.
func newGroup() string { return fmt.Sprintf("bench-%d", groups.Add(1)) }

func bare(b *testing.B, opts []kgo.Opt, group string) {
	client, err := kgo.NewClient(append(opts, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	b.StopTimer()
	for n := 0; n < benchRecords; {
		fetches := client.PollFetches(b.Context())
		if n == 0 {
			b.StartTimer()
		}
		fetches.EachRecord(func(r *kgo.Record) { n++ })
	}
	b.StopTimer()
	defer b.StartTimer()
}

func lanes(b *testing.B, opts []kgo.Opt, group string) {
	var n atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.StopTimer()
	rt, err := consumer.New(consumer.Config{
		Group: group, Topics: []string{topic}, Concurrency: 100, KafkaOpts: opts,
	}, func(context.Context, *consumer.Record) error {
		switch n.Add(1) {
		case 1:
			b.StartTimer()
		case benchRecords:
			b.StopTimer()
			cancel()
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := rt.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
}
