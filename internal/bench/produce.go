package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// ProduceConfig says what to produce and where.
type ProduceConfig struct {
	// KafkaOpts reach the cluster (seeds, TLS, SASL) and apply to both sides.
	KafkaOpts []kgo.Opt
	// Population draws the tenants.
	Population load.Population
	// Keys is "power-law" (default) or "uniform".
	Keys string
	// Records of each turn; 200,000 by default.
	Records int
	// Size of values in bytes; 100 by default.
	Size int
	// Partitions of the topic; 32 by default.
	Partitions int32
	// Goroutines that produce; 4 by default.
	Goroutines int
	// Runs whose median counts; 5 by default.
	Runs int
	// Seed of the draw.
	Seed uint64
	// Progress is told of each run that is done.
	Progress Progress
}

// Keys of a ProduceConfig.
const (
	KeysPowerLaw = "power-law"
	KeysUniform  = "uniform"
)

func (c ProduceConfig) withDefaults() ProduceConfig {
	c.Keys, c.Records, c.Size = cmp.Or(c.Keys, KeysPowerLaw), cmp.Or(c.Records, 200_000), cmp.Or(c.Size, 100)
	c.Partitions, c.Goroutines, c.Runs = cmp.Or(c.Partitions, 32), cmp.Or(c.Goroutines, 4), cmp.Or(c.Runs, 5)
	return c
}

func (c ProduceConfig) validate() error {
	switch {
	case len(c.Population.Tenants) == 0:
		return errors.New("Population is empty")
	case c.Keys != KeysPowerLaw && c.Keys != KeysUniform:
		return fmt.Errorf("Keys is %q, must be %s or %s", c.Keys, KeysPowerLaw, KeysUniform)
	case c.Records < 1 || c.Size < 0 || c.Partitions < 1 || c.Goroutines < 1 || c.Runs < 1:
		return errors.New("Records, Partitions, Goroutines and Runs must be at least 1, Size at least 0")
	}
	return nil
}

// ProduceReport compares the Producer with the bare client. Bare hashes keys as
// Kafka's clients do and writes no headers; BareHeaders writes two of the
// stamps' size, which is the part of the cost that any stamp has. Times are from
// the call of Produce to its promise.
type ProduceReport struct {
	Records              int     `json:"records"`
	Keys                 string  `json:"keys"`
	Size                 int     `json:"size"`
	BarePerSecond        float64 `json:"bare_records_per_s"`
	BareHeadersPerSecond float64 `json:"bare_headers_records_per_s"`
	PerSecond            float64 `json:"tenantlane_records_per_s"`
	Ratio                float64 `json:"ratio"`
	CPURatio             float64 `json:"cpu_ratio"`
	CPURatioHeaders      float64 `json:"cpu_ratio_headers"`
	CPUMicros            float64 `json:"cpu_us_per_record"`
	BareP50              float64 `json:"bare_p50_ms"`
	BareP99              float64 `json:"bare_p99_ms"`
	P50                  float64 `json:"p50_ms"`
	P99                  float64 `json:"p99_ms"`
}

// Produce makes a topic, produces to it from each side in turns, and deletes
// it.
func Produce(ctx context.Context, cfg ProduceConfig) (report ProduceReport, err error) {
	cfg = cfg.withDefaults()
	if err = cfg.validate(); err != nil {
		return ProduceReport{}, fmt.Errorf("bench produce: %w", err)
	}
	topic := "tenantlane-bench-" + strconv.FormatUint(rand.Uint64(), 36)
	remove, err := makeTopic(ctx, cfg, -1, topic)
	if err != nil {
		return ProduceReport{}, fmt.Errorf("bench produce: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	sides, err := produceSides(ctx, cfg, topic)
	defer closeAll(sides)
	if err != nil {
		return ProduceReport{}, fmt.Errorf("bench produce: %w", err)
	}
	tenants := drawTenants(cfg)
	for run := range cfg.Runs {
		for _, s := range sides {
			if err := labeled(ctx, s.name, func(ctx context.Context) error {
				return s.run(ctx, cfg, topic, tenants)
			}); err != nil {
				return ProduceReport{}, fmt.Errorf("bench produce: %s: %w", s.name, err)
			}
		}
		cfg.Progress.tell(run+1, cfg.Runs)
	}
	return produceReport(cfg, sides[0], sides[1], sides[2]), nil
}

// makeTopic makes a topic and waits until the cluster knows it.
func makeTopic(ctx context.Context, cfg ProduceConfig, replicas int16, topic string) (remove func() error, err error) {
	client, err := kgo.NewClient(cfg.KafkaOpts...)
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, cfg.Partitions, replicas, nil, topic); err != nil {
		client.Close()
		return nil, fmt.Errorf("create topic %s: %w", topic, err)
	}
	remove = func() error {
		defer client.Close()
		deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if _, err := admin.DeleteTopic(deleting, topic); err != nil {
			return fmt.Errorf("delete topic %s: %w", topic, err)
		}
		return nil
	}
	if err := retry(ctx, func() error { return known(ctx, admin, topic, cfg.Partitions) }); err != nil {
		return nil, errors.Join(fmt.Errorf("new topic %s: %w", topic, err), remove())
	}
	return remove, nil
}

// known has no error once every partition has a leader.
func known(ctx context.Context, admin *kadm.Client, topic string, partitions int32) error {
	topics, err := admin.ListTopics(ctx, topic)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return err
	}
	ready := topics[topic].Partitions
	for _, p := range ready {
		if p.Err != nil || p.Leader < 0 {
			return errors.Join(fmt.Errorf("partition %d has no leader", p.Partition), p.Err)
		}
	}
	if len(ready) != int(partitions) {
		return fmt.Errorf("%d of %d partitions", len(ready), partitions)
	}
	return nil
}

// producing is one side.
type producing struct {
	name    string
	produce func(context.Context, *kgo.Record, func(*kgo.Record, error))
	flush   func(context.Context) error
	close   func()
	headers bool

	rates, cpu []float64 // of each run: records a second, microseconds for one
	latencies  []float64 // milliseconds, of all runs
}

// produceSides makes each side with its profile's label, which its clients'
// goroutines keep.
func produceSides(ctx context.Context, cfg ProduceConfig, topic string) (sides []*producing, err error) {
	for _, headers := range []bool{false, true} {
		if err := labeled(ctx, sideBare, func(context.Context) error {
			client, err := kgo.NewClient(append(slices.Clone(cfg.KafkaOpts), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))...)
			if err == nil {
				sides = append(sides, &producing{
					name: sideBare, produce: client.Produce, flush: client.Flush, close: client.Close, headers: headers,
				})
			}
			return err
		}); err != nil {
			return sides, err
		}
	}
	return sides, labeled(ctx, sideOurs, func(context.Context) error {
		ours, err := producerSide(cfg, topic) //nolint:contextcheck // closing has a deadline of its own
		if err == nil {
			sides = append(sides, ours)
		}
		return err
	})
}

func producerSide(cfg ProduceConfig, topic string) (*producing, error) {
	table, err := plainTable(topic, cfg.Partitions)
	if err != nil {
		return nil, err
	}
	src := store.Fixed(table)
	client, err := kgo.NewClient(append(slices.Clone(cfg.KafkaOpts), partitioner.ClientOpts(src, partitioner.Config{})...)...)
	if err != nil {
		return nil, err
	}
	p, err := partitioner.NewProducer(client, src, partitioner.ProducerConfig{})
	if err != nil {
		client.Close()
		return nil, err
	}
	return &producing{name: sideOurs, produce: p.Produce, flush: p.Flush, close: func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.Close(ctx) // what is left has an error already
		client.Close()
	}}, nil
}

func closeAll(sides []*producing) {
	for _, s := range sides {
		s.close()
	}
}

// drawTenants draws before anything is timed.
func drawTenants(cfg ProduceConfig) [][]byte {
	population := cfg.Population
	if cfg.Keys == KeysUniform {
		population = population.Uniform()
	}
	sampler := load.NewSampler(population, cfg.Seed)
	keys := make([][]byte, cfg.Records)
	for i := range keys {
		keys[i] = []byte(sampler.Next())
	}
	return keys
}

// run is one turn.
func (s *producing) run(ctx context.Context, cfg ProduceConfig, topic string, tenants [][]byte) error {
	answers := &answers{latencies: make([]float64, 0, len(tenants))}
	begun, cpu := time.Now(), processTime()
	var producers sync.WaitGroup
	for g := range cfg.Goroutines {
		producers.Go(func() {
			value := make([]byte, cfg.Size)
			for i := g; i < len(tenants) && ctx.Err() == nil; i += cfg.Goroutines {
				r := &kgo.Record{Topic: topic, Key: tenants[i], Value: value}
				if s.headers {
					r.Headers = likeStamps()
				}
				at := time.Now()
				s.produce(ctx, r, func(_ *kgo.Record, err error) { answers.take(at, err) })
			}
		})
	}
	producers.Wait()
	err := s.flush(ctx)
	elapsed, used := time.Since(begun), processTime()-cpu
	if err = errors.Join(ctx.Err(), err, answers.failed()); err != nil {
		return err
	}
	s.rates = append(s.rates, float64(len(tenants))/elapsed.Seconds())
	s.cpu = append(s.cpu, float64(used.Nanoseconds())/1e3/float64(len(tenants)))
	s.latencies = append(s.latencies, answers.latencies...)
	return nil
}

// likeStamps are headers of the size that the Producer writes.
func likeStamps() []kgo.RecordHeader {
	const route, millis = 22, 13
	b := make([]byte, route+millis)
	return []kgo.RecordHeader{{Key: routing.HeaderRoute, Value: b[:route]}, {Key: routing.HeaderTime, Value: b[route:]}}
}

// answers collects promises.
type answers struct {
	mu sync.Mutex
	// guards all below
	latencies []float64
	first     error
}

func (a *answers) take(at time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.latencies = append(a.latencies, float64(time.Since(at).Nanoseconds())/1e6)
	if err != nil && a.first == nil {
		a.first = err
	}
}

// note takes only the error.
func (a *answers) note(_ *kgo.Record, err error) {
	if err != nil {
		a.take(time.Time{}, err)
	}
}

func (a *answers) failed() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first
}

func produceReport(cfg ProduceConfig, bare, headers, wrapped *producing) ProduceReport {
	r := ProduceReport{
		Records: cfg.Records, Keys: cfg.Keys, Size: cfg.Size,
		BarePerSecond: median(bare.rates), BareHeadersPerSecond: median(headers.rates), PerSecond: median(wrapped.rates),
		CPUMicros: median(wrapped.cpu),
		BareP50:   percentile(bare.latencies, 50), BareP99: percentile(bare.latencies, 99),
		P50: percentile(wrapped.latencies, 50), P99: percentile(wrapped.latencies, 99),
	}
	r.Ratio = r.PerSecond / r.BarePerSecond
	r.CPURatio = median(wrapped.cpu) / median(bare.cpu)
	r.CPURatioHeaders = median(wrapped.cpu) / median(headers.cpu)
	return r
}

// percentile of at least one figure, by the nearest rank.
func percentile(figures []float64, p int) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}
