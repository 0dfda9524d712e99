package bench_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/bench"
	"github.com/tenantlane/tenantlane/internal/embedded"
)

func TestLagCountsWhatARoundCosts(t *testing.T) {
	b, err := embedded.Start(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	opts := []kgo.Opt{kgo.SeedBrokers(b.Addrs()...)}
	small, err := bench.Lag(t.Context(), bench.LagConfig{KafkaOpts: opts, Groups: 5, Partitions: 4, Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	large, err := bench.Lag(t.Context(), bench.LagConfig{KafkaOpts: opts, Groups: 5, Partitions: 64, Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	if small.Series != 20 || large.Series != 320 || small.Unknown+large.Unknown != 0 || small.SampleMillis <= 0 || large.HeapBytes == 0 {
		t.Fatalf("%+v %+v", small, large)
	}
	if small.Requests == 0 || small.Requests != large.Requests {
		t.Errorf("requests depend on the number of partitions: %d and %d", small.Requests, large.Requests)
	}
	if _, err := bench.Lag(t.Context(), bench.LagConfig{KafkaOpts: opts, Groups: -1}); err == nil || !strings.Contains(err.Error(), "Groups") {
		t.Errorf("%v", err)
	}
}
