package bench

import (
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/load"
)

func consumeConfig(t *testing.T) ConsumeConfig {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	population, err := load.DefaultPopulation()
	if err != nil {
		t.Fatal(err)
	}
	return ConsumeConfig{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Population: population,
		Records: 5000, Partitions: 4, Runs: 1, Concurrency: 10, Seconds: 1,
	}
}

func TestConsumeReportsBothSides(t *testing.T) {
	cfg := consumeConfig(t)
	r, err := Consume(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Records != 5000 || r.BarePerSecond <= 0 || r.PerSecond <= 0 || r.Ratio <= 0 || r.CPURatio <= 0 || r.PeakHeapBytes == 0 {
		t.Errorf("report %+v", r)
	}
}

func TestConsumeWithAHandlerIsHeldToTheFairShare(t *testing.T) {
	cfg := consumeConfig(t)
	cfg.HandlerSleep, cfg.Keys = time.Millisecond, KeysUniform
	r, err := Consume(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.HandlerMicros != 1000 || r.IdealPerSecond <= 0 || r.IdealRatio <= 0 {
		t.Errorf("report %+v", r)
	}
}

func TestFairShare(t *testing.T) {
	for _, c := range []struct {
		name    string
		volumes []int
		workers int
		seconds float64
		want    float64
	}{
		{"one tenant has one worker", []int{1000}, 10, 5, 50},
		{"as many tenants as workers", []int{1000, 1000}, 2, 5, 100},
		{"more tenants share", []int{1000, 1000, 1000, 1000}, 2, 5, 100},
		{"all is done before", []int{3, 5}, 2, 5, 8},
		// 20/s for two until both have 10 (1 s), then 10/s for the other.
		{"a small one ends", []int{10, 1000}, 2, 3, 20 + 20},
	} {
		if got := fairShare(c.volumes, c.workers, 10, c.seconds); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
