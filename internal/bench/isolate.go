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
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// IsolationConfig says how to measure what one tenant's flood, and partitions
// without a leader, do to the other tenants of the same Producer.
type IsolationConfig struct {
	// KafkaOpts reach the cluster.
	KafkaOpts []kgo.Opt
	// Population draws the quiet tenants.
	Population load.Population
	// Rate is the quiet tenants' records a second; 1,000 by default.
	Rate float64
	// Size of their values in bytes, and of the flood's; 100 and 1,000 by
	// default.
	Size, FloodSize int
	// Flooders are the goroutines that flood; 4 by default.
	Flooders int
	// Phase is how long each phase lasts; 5 s by default.
	Phase time.Duration
	// Partitions of the topic, and its replicas; 32, and 1 by default.
	Partitions int32
	Replicas   int16
	// Break takes the leaders of some of the topic's partitions away and says
	// which, until restore is called. Nil leaves that phase out.
	Break func(ctx context.Context, topic string) (partitions []int32, restore func() error, err error)
	// Producer's bounds; its defaults if empty.
	Producer partitioner.ProducerConfig
	// Runs whose median counts; 3 by default.
	Runs int
	// Seed of the draw.
	Seed uint64
	// Progress is told of each run that is done.
	Progress Progress
}

func (c IsolationConfig) withDefaults() IsolationConfig {
	c.Rate, c.Size, c.FloodSize, c.Flooders = cmp.Or(c.Rate, 1000), cmp.Or(c.Size, 100), cmp.Or(c.FloodSize, 1000), cmp.Or(c.Flooders, 4)
	c.Phase, c.Partitions, c.Replicas = cmp.Or(c.Phase, 5*time.Second), cmp.Or(c.Partitions, 32), cmp.Or(c.Replicas, 1)
	c.Runs = cmp.Or(c.Runs, 3)
	return c
}

func (c IsolationConfig) validate() error {
	switch {
	case len(c.Population.Tenants) == 0:
		return errors.New("Population is empty")
	case c.Rate <= 0 || c.Phase <= 0:
		return errors.New("Rate and Phase must be above 0")
	case c.Size < 0 || c.FloodSize < 0 || c.Flooders < 1 || c.Runs < 1 || c.Partitions < 2:
		return errors.New("Flooders and Runs must be at least 1, Partitions at least 2, Size and FloodSize at least 0")
	}
	return nil
}

// IsolationReport has the quiet tenants' times from when a record was due to
// its promise, alone, beside a flood, and beside partitions without a leader
// that are flooded. Same are the tenants that share the flood's partition.
type IsolationReport struct {
	Rate           float64 `json:"rate_per_s"`
	AloneP50       float64 `json:"alone_p50_ms"`
	AloneP99       float64 `json:"alone_p99_ms"`
	FloodP50       float64 `json:"flood_p50_ms"`
	FloodP99       float64 `json:"flood_p99_ms"`
	FloodRatio     float64 `json:"flood_ratio"`
	FloodSameP99   float64 `json:"flood_same_partition_p99_ms"`
	FloodPerSecond float64 `json:"flood_records_per_s"`
	StuckP99       float64 `json:"stuck_p99_ms,omitempty"`
	StuckRatio     float64 `json:"stuck_ratio,omitempty"`
}

// Isolation makes a topic, measures the phases in turns, and deletes it.
func Isolation(ctx context.Context, cfg IsolationConfig) (report IsolationReport, err error) {
	cfg = cfg.withDefaults()
	if err = cfg.validate(); err != nil {
		return report, fmt.Errorf("bench isolation: %w", err)
	}
	topic := "tenantlane-bench-" + strconv.FormatUint(rand.Uint64(), 36)
	remove, err := makeTopic(ctx, ProduceConfig{KafkaOpts: cfg.KafkaOpts, Partitions: cfg.Partitions}, cfg.Replicas, topic)
	if err != nil {
		return report, fmt.Errorf("bench isolation: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	iso, err := newIsolation(cfg, topic)
	if err != nil {
		return report, fmt.Errorf("bench isolation: %w", err)
	}
	defer iso.close()                              //nolint:contextcheck // after ctx too
	if _, err := iso.quiet(ctx, nil); err != nil { // warm up
		return report, fmt.Errorf("bench isolation: %w", err)
	}
	for run := range cfg.Runs {
		if err := iso.round(ctx); err != nil {
			return report, fmt.Errorf("bench isolation: %w", err)
		}
		cfg.Progress.tell(run+1, cfg.Runs)
	}
	return iso.report(), nil
}

// isolation is one measurement at work.
type isolation struct {
	cfg      IsolationConfig
	topic    string
	route    *routing.Topic
	client   *kgo.Client
	producer *partitioner.Producer
	tenants  *load.Sampler

	alone, flood, same, stuck phases
	floodRates                []float64
}

// phases are a phase's figures, one for each run.
type phases struct{ p50, p99 []float64 }

func (p *phases) add(latencies []float64) {
	if len(latencies) > 0 {
		p.p50 = append(p.p50, percentile(latencies, 50))
		p.p99 = append(p.p99, percentile(latencies, 99))
	}
}

const floodTenant = "flood"

func newIsolation(cfg IsolationConfig, topic string) (*isolation, error) {
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{topic: {Partitions: cfg.Partitions}}})
	if err != nil {
		return nil, err
	}
	src := store.Fixed(table)
	client, err := kgo.NewClient(append(slices.Clone(cfg.KafkaOpts), partitioner.ClientOpts(src, partitioner.Config{})...)...)
	if err != nil {
		return nil, err
	}
	p, err := partitioner.NewProducer(client, src, cfg.Producer)
	if err != nil {
		client.Close()
		return nil, err
	}
	route, _ := table.Topic(topic)
	return &isolation{
		cfg: cfg, topic: topic, route: route, client: client, producer: p,
		tenants: load.NewSampler(cfg.Population, cfg.Seed),
	}, nil
}

func (b *isolation) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = b.producer.Close(ctx) // what is left has an error already
	b.client.Close()
}

func (b *isolation) home(tenant string) int32 { return b.route.Partition([]byte(tenant), nil) }

// round is one run: each phase once.
func (b *isolation) round(ctx context.Context) error {
	quiet, err := b.quiet(ctx, nil)
	if err != nil {
		return err
	}
	b.alone.add(quiet.of(nil))

	stop := b.startFlood([]string{floodTenant}) //nolint:contextcheck // ends with stop
	quiet, err = b.quiet(ctx, nil)
	b.floodRates = append(b.floodRates, stop())
	if err != nil {
		return err
	}
	b.flood.add(quiet.of(nil))
	home := b.home(floodTenant)
	b.same.add(quiet.of(func(partition int32) bool { return partition == home }))
	if err := b.producer.Flush(ctx); err != nil {
		return err
	}
	if b.cfg.Break == nil {
		return nil
	}
	return b.roundWithoutLeaders(ctx)
}

// roundWithoutLeaders floods the partitions that have no leader and measures
// those that have one.
func (b *isolation) roundWithoutLeaders(ctx context.Context) (err error) {
	gone, restore, err := b.cfg.Break(ctx, b.topic)
	if err != nil {
		return err
	}
	stop := b.startFlood(b.tenantsOn(gone)) //nolint:contextcheck // ends with stop
	quiet, err := b.quiet(ctx, gone)
	err = errors.Join(err, restore())
	stop()
	if err != nil {
		return err
	}
	b.stuck.add(quiet.of(nil))
	return b.producer.Flush(ctx)
}

// tenantsOn gives a tenant for each partition.
func (b *isolation) tenantsOn(partitions []int32) (tenants []string) {
	for _, partition := range partitions {
		for i := 0; ; i++ {
			if tenant := fmt.Sprintf("%s-%d", floodTenant, i); b.home(tenant) == partition {
				tenants = append(tenants, tenant)
				break
			}
		}
	}
	return tenants
}

// startFlood produces as fast as it can until stop, which tells the rate.
func (b *isolation) startFlood(tenants []string) (stop func() float64) {
	ctx, cancel := context.WithCancel(context.Background())
	var sent atomic.Int64
	var flooders sync.WaitGroup
	begun := time.Now()
	for range b.cfg.Flooders {
		flooders.Go(func() {
			value := make([]byte, b.cfg.FloodSize)
			for i := 0; ctx.Err() == nil; i++ {
				r := &kgo.Record{Topic: b.topic, Key: []byte(tenants[i%len(tenants)]), Value: value}
				b.producer.Produce(ctx, r, func(_ *kgo.Record, err error) {
					if err == nil {
						sent.Add(1)
					}
				})
			}
		})
	}
	return func() float64 {
		rate := float64(sent.Load()) / time.Since(begun).Seconds()
		cancel()
		flooders.Wait()
		return rate
	}
}

// quietly are the latencies of one phase, with the partitions that they are of.
type quietly struct {
	mu sync.Mutex
	// guards all below
	partitions []int32
	latencies  []float64
	first      error
}

func (q *quietly) take(r *kgo.Record, due time.Time, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil && q.first == nil {
		q.first = err
	}
	q.partitions = append(q.partitions, r.Partition)
	q.latencies = append(q.latencies, float64(time.Since(due).Nanoseconds())/1e6)
}

// of gives the latencies of some partitions, or of all.
func (q *quietly) of(partition func(int32) bool) (latencies []float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, p := range q.partitions {
		if partition == nil || partition(p) {
			latencies = append(latencies, q.latencies[i])
		}
	}
	return latencies
}

// quiet produces at an even pace for a phase. A record that is late because the
// one before had to wait is counted from when it was due.
func (b *isolation) quiet(ctx context.Context, without []int32) (*quietly, error) {
	q := &quietly{}
	value := make([]byte, b.cfg.Size)
	begun := time.Now()
	tick := time.NewTimer(0)
	defer tick.Stop()
	var answers sync.WaitGroup
	for i := 0; ; i++ {
		due := begun.Add(time.Duration(float64(i) / b.cfg.Rate * float64(time.Second)))
		if due.Sub(begun) > b.cfg.Phase {
			break
		}
		tick.Reset(time.Until(due))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		tenant := b.tenants.Next()
		for slices.Contains(without, b.home(tenant)) {
			tenant = b.tenants.Next()
		}
		answers.Add(1)
		b.producer.Produce(ctx, &kgo.Record{Topic: b.topic, Key: []byte(tenant), Value: value}, func(r *kgo.Record, err error) {
			q.take(r, due, err)
			answers.Done()
		})
	}
	answers.Wait()
	return q, q.first
}

func (b *isolation) report() IsolationReport {
	r := IsolationReport{
		Rate:     b.cfg.Rate,
		AloneP50: median(b.alone.p50), AloneP99: median(b.alone.p99),
		FloodP50: median(b.flood.p50), FloodP99: median(b.flood.p99),
		FloodPerSecond: median(b.floodRates),
	}
	if len(b.same.p99) > 0 {
		r.FloodSameP99 = median(b.same.p99)
	}
	r.FloodRatio = r.FloodP99 / r.AloneP99
	if len(b.stuck.p99) > 0 {
		r.StuckP99 = median(b.stuck.p99)
		r.StuckRatio = r.StuckP99 / r.AloneP99
	}
	return r
}
