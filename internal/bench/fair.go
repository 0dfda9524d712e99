package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// FairConfig says how to measure what one tenant's backlog does to the other
// tenants of the same worker.
type FairConfig struct {
	// KafkaOpts reach the cluster.
	KafkaOpts []kgo.Opt
	// Population draws the quiet tenants.
	Population load.Population
	// Keys is "uniform" (default: each of them is quiet) or "power-law" (some
	// have a lane that is busy by itself).
	Keys string
	// Rate is the quiet tenants' records a second; 1,000 by default. A quarter
	// of them is of tenants that share the whale's partition.
	Rate float64
	// Records of the whale; 200,000 by default.
	Records int
	// Size of values in bytes, at least 8; 100 by default.
	Size int
	// Partitions of the topic; 32 by default, at least 2.
	Partitions int32
	// HandlerSleep is what each handling takes; 1 ms by default.
	HandlerSleep time.Duration
	// Concurrency is how many handlers run at once; 100 by default.
	Concurrency int
	// Seconds of each phase; 5 by default. One with a whale is over earlier if
	// its backlog is.
	Seconds float64
	// Runs whose median counts; 3 by default.
	Runs int
	// Seed of the draw.
	Seed uint64
	// Progress is told of each phase that is done.
	Progress Progress
}

func (c FairConfig) withDefaults() FairConfig {
	c.Keys, c.Rate, c.Records, c.Size = cmp.Or(c.Keys, KeysUniform), cmp.Or(c.Rate, 1000), cmp.Or(c.Records, 200_000), cmp.Or(c.Size, 100)
	c.Partitions, c.Concurrency, c.HandlerSleep = cmp.Or(c.Partitions, 32), cmp.Or(c.Concurrency, 100), cmp.Or(c.HandlerSleep, time.Millisecond)
	c.Seconds, c.Runs = cmp.Or(c.Seconds, 5), cmp.Or(c.Runs, 3)
	return c
}

func (c FairConfig) validate() error {
	switch {
	case len(c.Population.Tenants) == 0:
		return errors.New("Population is empty")
	case c.Keys != KeysPowerLaw && c.Keys != KeysUniform:
		return fmt.Errorf("Keys is %q, must be %s or %s", c.Keys, KeysPowerLaw, KeysUniform)
	case c.Rate <= 0 || c.Seconds <= 0 || c.HandlerSleep <= 0:
		return errors.New("Rate, Seconds and HandlerSleep must be above 0")
	case c.Records < 1 || c.Size < indexBytes || c.Concurrency < 1 || c.Runs < 1 || c.Partitions < 2:
		return fmt.Errorf("Records, Concurrency and Runs must be at least 1, Partitions 2, Size %d", indexBytes)
	}
	return nil
}

// FairReport has the quiet tenants' times from the call of Produce, just before
// the append, to the end of their handling: without a whale, and while its
// backlog lies there. The whale's time is until all of it is handled, as its
// pace in the phase says.
type FairReport struct {
	Records       int           `json:"records"`
	HandlerMicros int64         `json:"handler_us"`
	Concurrency   int           `json:"concurrency"`
	Keys          string        `json:"keys"`
	Rate          float64       `json:"rate_per_s"`
	AloneP50      float64       `json:"quiet_p50_ms_alone"`
	AloneP99      float64       `json:"quiet_p99_ms_alone"`
	WhaleP50      float64       `json:"quiet_p50_ms_with_whale"`
	WhaleP99      float64       `json:"quiet_p99_ms_with_whale"`
	Ratio         float64       `json:"ratio"`
	Same          FairPartition `json:"same_partition"`
	Import        FairImport    `json:"during_import"`
	// WhaleTotalRatio is the whale's time beside neighbors to its time alone.
	WhaleTotalRatio    float64 `json:"whale_total_ratio"`
	WhaleSecondsAlone  float64 `json:"whale_total_s_alone"`
	WhaleSecondsBeside float64 `json:"whale_total_s_with_neighbors"`
}

// FairPartition are the figures of quiet tenants that share the whale's
// partition.
type FairPartition struct {
	AloneP50 float64 `json:"quiet_p50_ms_alone"`
	AloneP99 float64 `json:"quiet_p99_ms_alone"`
	WhaleP50 float64 `json:"quiet_p50_ms_with_whale"`
	WhaleP99 float64 `json:"quiet_p99_ms_with_whale"`
	Ratio    float64 `json:"ratio"`
}

// FairImport is about what was produced while the whale's records were being
// produced, by the same process, as fast as it can.
type FairImport struct {
	Seconds float64 `json:"seconds"`
	P99     float64 `json:"quiet_p99_ms"`
	SameP99 float64 `json:"same_partition_quiet_p99_ms"`
}

// Fair measures three phases in turns, each in a topic of its own that it
// deletes: quiet tenants alone, beside a whale, and a whale alone.
func Fair(ctx context.Context, cfg FairConfig) (FairReport, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return FairReport{}, fmt.Errorf("bench fair: %w", err)
	}
	b, err := newFairness(cfg)
	if err != nil {
		return FairReport{}, fmt.Errorf("bench fair: %w", err)
	}
	for run := range cfg.Runs {
		if err := b.round(ctx, run); err != nil {
			return FairReport{}, fmt.Errorf("bench fair: %w", err)
		}
	}
	return b.report(), nil
}

// fairness is one measurement at work.
type fairness struct {
	cfg          FairConfig
	whale        string
	home         int32
	same, others load.Population // who shares the whale's partition, and who does not

	alone, aloneSame, beside, besideSame, imported, importedSame phases
	importSeconds, whaleAlone, whaleBeside                       []float64
}

// newFairness names the whale so that it has neighbors in its partition and
// others elsewhere.
func newFairness(cfg FairConfig) (*fairness, error) {
	table, err := plainTable(routeTopic, cfg.Partitions)
	if err != nil {
		return nil, err
	}
	route, _ := table.Topic(routeTopic)
	population := cfg.Population
	if cfg.Keys == KeysUniform {
		population = population.Uniform()
	}
	for i := range 8 * cfg.Partitions { // partitions may lack tenants if there are few
		b := &fairness{cfg: cfg, whale: fmt.Sprintf("tenantlane-whale-%d", i)}
		b.home = route.Partition([]byte(b.whale), nil)
		b.same = population.Without(func(tenant string) bool { return route.Partition([]byte(tenant), nil) != b.home })
		b.others = population.Without(func(tenant string) bool { return route.Partition([]byte(tenant), nil) == b.home })
		if len(b.same.Tenants) > 0 && len(b.others.Tenants) > 0 {
			return b, nil
		}
	}
	return nil, fmt.Errorf("Population: its %d tenants are all in one partition", len(population.Tenants))
}

func plainTable(topic string, partitions int32) (*routing.Table, error) {
	return routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{topic: {Partitions: partitions}}})
}

// round is one run: each phase once. The same tenants are drawn in each.
func (b *fairness) round(ctx context.Context, run int) error {
	const perRun = 3
	for i, load := range []fairLoad{{quiet: true}, {quiet: true, whale: true}, {whale: true}} {
		p := newFairPhase(b, load, b.cfg.Seed+uint64(run))
		if err := p.run(ctx); err != nil {
			return err
		}
		if err := b.take(p); err != nil {
			return err
		}
		b.cfg.Progress.tell(run*perRun+i+1, b.cfg.Runs*perRun)
	}
	return nil
}

func (b *fairness) take(p *fairPhase) error {
	counted := p.quiet.between(p.counting, p.end)
	switch {
	case p.load.quiet && len(counted.same) == 0:
		return fmt.Errorf("no quiet tenant's record was due in the %v before the whale's backlog was handled: "+
			"more Records, Seconds, Rate or a longer HandlerSleep are needed", p.end-p.counting)
	case !p.load.whale:
		b.alone.add(counted.all)
		b.aloneSame.add(counted.same)
	case !p.load.quiet:
		b.whaleAlone = append(b.whaleAlone, p.whaleSeconds())
	default:
		imported := p.quiet.between(p.burst, p.counting)
		b.imported.add(imported.all)
		b.importedSame.add(imported.same)
		b.importSeconds = append(b.importSeconds, (p.counting - p.burst).Seconds())
		b.beside.add(counted.all)
		b.besideSame.add(counted.same)
		b.whaleBeside = append(b.whaleBeside, p.whaleSeconds())
	}
	return nil
}

func (b *fairness) report() FairReport {
	r := FairReport{
		Records: b.cfg.Records, HandlerMicros: b.cfg.HandlerSleep.Microseconds(), Concurrency: b.cfg.Concurrency,
		Keys: b.cfg.Keys, Rate: b.cfg.Rate,
		AloneP50: median(b.alone.p50), AloneP99: median(b.alone.p99),
		WhaleP50: median(b.beside.p50), WhaleP99: median(b.beside.p99),
		Same: FairPartition{
			AloneP50: median(b.aloneSame.p50), AloneP99: median(b.aloneSame.p99),
			WhaleP50: median(b.besideSame.p50), WhaleP99: median(b.besideSame.p99),
		},
		Import: FairImport{
			Seconds: median(b.importSeconds), P99: medianOrZero(b.imported.p99), SameP99: medianOrZero(b.importedSame.p99),
		},
		WhaleSecondsAlone: median(b.whaleAlone), WhaleSecondsBeside: median(b.whaleBeside),
	}
	r.Ratio = r.WhaleP99 / r.AloneP99
	r.Same.Ratio = r.Same.WhaleP99 / r.Same.AloneP99
	r.WhaleTotalRatio = r.WhaleSecondsBeside / r.WhaleSecondsAlone
	return r
}

// medianOrZero allows for an import that was over before a record was due.
func medianOrZero(figures []float64) float64 {
	if len(figures) == 0 {
		return 0
	}
	return median(figures)
}

// indexBytes of a quiet tenant's value say which record it is.
const indexBytes = 8

// latencies are those of all quiet tenants, and of the whale's neighbors, in
// milliseconds.
type latencies struct{ all, same []float64 }

func (l *latencies) add(took time.Duration, same bool) {
	ms := float64(took.Nanoseconds()) / 1e6
	l.all = append(l.all, ms)
	if same {
		l.same = append(l.same, ms)
	}
}
