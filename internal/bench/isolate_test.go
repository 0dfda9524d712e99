package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/integration/kafka"
	"github.com/tenantlane/tenantlane/internal/embedded"
)

func TestIsolationMeasuresEachPhase(t *testing.T) {
	broker, err := embedded.Start(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = broker.Close() }()
	report, err := Isolation(t.Context(), IsolationConfig{
		KafkaOpts:  []kgo.Opt{kgo.SeedBrokers(broker.Addrs()...), kgo.MetadataMinAge(20 * time.Millisecond)},
		Population: population(t), Phase: 200 * time.Millisecond, Runs: 1, Partitions: 8,
		Break: func(_ context.Context, topic string) ([]int32, func() error, error) {
			gone := []int32{2, 5}
			fault := broker.Cluster().Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: gone, Err: kerr.NotLeaderForPartition, Count: -1,
			})
			return gone, func() error { fault.Remove(); return nil }, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.AloneP99 <= 0 || report.FloodP99 <= 0 || report.StuckP99 <= 0 || report.FloodPerSecond <= 0 ||
		report.FloodRatio != report.FloodP99/report.AloneP99 || report.StuckRatio != report.StuckP99/report.AloneP99 {
		t.Errorf("report %+v", report)
	}
}

func TestIsolationEndsWithItsContext(t *testing.T) {
	opts := brokerOpts(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Isolation(ctx, IsolationConfig{KafkaOpts: opts, Population: population(t)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
}

func TestIsolationConfigNamesTheField(t *testing.T) {
	for want, cfg := range map[string]IsolationConfig{
		"Population": {},
		"Rate":       {Population: population(t), Rate: -1},
		"Partitions": {Population: population(t), Partitions: 1},
	} {
		if _, err := Isolation(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// BenchmarkIsolation prints the figures of three real brokers, of which one is
// killed. It needs java and mvn.
func BenchmarkIsolation(b *testing.B) {
	cluster, err := kafka.Start(b.Context(), kafka.Config{Nodes: 3, Logf: b.Logf})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cluster.Stop() }()
	opts := []kgo.Opt{kgo.SeedBrokers(cluster.Addrs()...)}
	report, err := Isolation(b.Context(), IsolationConfig{
		KafkaOpts: opts, Population: benchPopulation(),
		Break: func(ctx context.Context, topic string) ([]int32, func() error, error) {
			const victim = 3
			gone, failed := ledBy(ctx, opts, topic, victim)
			if failed == nil {
				failed = cluster.Kill(victim)
			}
			return gone, func() error { return cluster.Restart(ctx, victim) }, failed
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%+v", report)
	for b.Loop() { // the figures are the report's
	}
}

// ledBy lists the partitions that a node leads.
func ledBy(ctx context.Context, opts []kgo.Opt, topic string, node int32) (list []int32, err error) {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, p := range topics[topic].Partitions {
		if p.Leader == node {
			list = append(list, p.Partition)
		}
	}
	return list, nil
}
