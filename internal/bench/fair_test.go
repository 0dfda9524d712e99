package bench

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestFairReportsQuietTenantsBesideAWhale(t *testing.T) {
	var told []int
	report, err := Fair(t.Context(), FairConfig{
		KafkaOpts: brokerOpts(t), Population: population(t), Records: 5000, Partitions: 4, Seconds: 0.3, Runs: 1,
		Progress: func(done, of int) { told = append(told, done, of) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, figure := range map[string]float64{
		"alone": report.AloneP99 - report.AloneP50 + 1, "beside": report.WhaleP99, "same alone": report.Same.AloneP99,
		"same beside": report.Same.WhaleP99, "whale": report.WhaleTotalRatio, "import": report.Import.Seconds,
	} {
		if figure <= 0 {
			t.Errorf("%s: %v in %+v", name, figure, report)
		}
	}
	if report.Ratio != report.WhaleP99/report.AloneP99 || report.Keys != KeysUniform || report.HandlerMicros != 1000 {
		t.Errorf("report %+v", report)
	}
	if len(told) != 6 || told[4] != 3 || told[5] != 3 {
		t.Errorf("progress %v", told)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"quiet_p99_ms_alone", "quiet_p99_ms_with_whale", "same_partition", "ratio", "whale_total_ratio"} {
		if !strings.Contains(string(text), `"`+name+`":`) {
			t.Errorf("%s is missing in %s", name, text)
		}
	}
}

func TestFairWantsABacklogThatLasts(t *testing.T) {
	_, err := Fair(t.Context(), FairConfig{
		KafkaOpts: brokerOpts(t), Population: population(t), Records: 1, Partitions: 2, Seconds: 0.2, Rate: 20, Runs: 1,
	})
	if err == nil || !strings.Contains(err.Error(), "HandlerSleep") {
		t.Errorf("error is %v", err)
	}
}

func TestFairEndsWithItsContext(t *testing.T) {
	opts := brokerOpts(t)
	for _, after := range []time.Duration{0, 100 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_, err := Fair(ctx, FairConfig{KafkaOpts: opts, Population: population(t)})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: error is %v", after, err)
		}
	}
}

func TestFairConfigNamesTheField(t *testing.T) {
	for want, cfg := range map[string]FairConfig{
		"Population":       {},
		"Keys":             {Population: population(t), Keys: "zipf"},
		"Rate":             {Population: population(t), Rate: -1},
		"Size":             {Population: population(t), Size: 7},
		"in one partition": {Population: load.NewPopulation([]routing.Volume{{Tenant: "acme", Volume: 1}})},
	} {
		if _, err := Fair(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A record counts once, when it was first handled, and in the part of the
// phase in which it was due.
func TestQuietLogCountsFirstHandlings(t *testing.T) {
	q := quietLog{settled: make(chan struct{}, 1)}
	for i := range 3 {
		q.sent(time.Duration(i)*time.Second, i == 1)
	}
	for i := range uint64(3) {
		q.handled(i, 5*time.Second)
		q.handled(i, 9*time.Second)
	}
	if err := q.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := q.between(time.Second, 2*time.Second)
	if len(got.all) != 1 || got.all[0] != 4000 || len(got.same) != 1 {
		t.Errorf("latencies %+v", got)
	}
	q.sent(0, false)
	q.promised(nil, errors.New("refused"))
	if err := q.settle(t.Context()); err == nil || err.Error() != "refused" {
		t.Errorf("settled with %v", err)
	}
}
