package bench

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/internal/load"
)

func brokerOpts(t *testing.T) []kgo.Opt {
	t.Helper()
	broker, err := embedded.Start(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Close(); err != nil {
			t.Error(err)
		}
	})
	return []kgo.Opt{kgo.SeedBrokers(broker.Addrs()...)}
}

func population(t *testing.T) load.Population {
	t.Helper()
	p, err := load.DefaultPopulation()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProduceComparesAndCleansUp(t *testing.T) {
	opts := brokerOpts(t)
	report, err := Produce(t.Context(), ProduceConfig{KafkaOpts: opts, Population: population(t), Records: 2000, Runs: 2, Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	if report.Records != 2000 || report.Keys != KeysPowerLaw || report.BarePerSecond <= 0 || report.PerSecond <= 0 ||
		report.Ratio != report.PerSecond/report.BarePerSecond || report.CPURatio <= 0 || report.P99 < report.P50 {
		t.Errorf("report %+v", report)
	}
	text, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(text), `"tenantlane_records_per_s":`) || !strings.Contains(string(text), `"cpu_ratio":`) {
		t.Errorf("%s, %v", text, err)
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(t.Context())
	if err != nil || len(topics) != 0 {
		t.Errorf("topics left behind: %v (%v)", topics.Names(), err)
	}
}

func TestProduceEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := ProduceConfig{KafkaOpts: brokerOpts(t), Population: population(t), Records: 10}
	if _, err := Produce(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestProduceConfigNamesTheField(t *testing.T) {
	for want, cfg := range map[string]ProduceConfig{
		"Population": {},
		"Keys":       {Population: population(t), Keys: "zipf"},
		"Records":    {Population: population(t), Records: -1},
	} {
		if _, err := Produce(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestPercentile(t *testing.T) {
	figures := []float64{5, 1, 4, 2, 3}
	for p, want := range map[int]float64{50: 3, 99: 5, 20: 1, 0: 1} {
		if got := percentile(figures, p); got != want {
			t.Errorf("p%d is %v, want %v", p, got, want)
		}
	}
}

// BenchmarkProduce prints what bench produce reports on the embedded broker.
func BenchmarkProduce(b *testing.B) {
	broker, err := embedded.Start(embedded.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = broker.Close() }()
	people, err := load.DefaultPopulation()
	if err != nil {
		b.Fatal(err)
	}
	report, err := Produce(b.Context(), ProduceConfig{KafkaOpts: []kgo.Opt{kgo.SeedBrokers(broker.Addrs()...)}, Population: people, Records: 300_000, Runs: 5})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%+v", report)
	for b.Loop() { // the figures are the report's
	}
}
