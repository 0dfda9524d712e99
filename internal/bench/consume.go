package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/load"
)

// ConsumeConfig says what to consume and how.
type ConsumeConfig struct {
	// KafkaOpts reach the cluster and apply to both sides.
	KafkaOpts []kgo.Opt
	// Population draws the tenants.
	Population load.Population
	// Keys is "power-law" (default) or "uniform".
	Keys string
	// Records in the topic; 1,000,000 by default.
	Records int
	// Size of values in bytes; 100 by default.
	Size int
	// Partitions of the topic; 32 by default.
	Partitions int32
	// HandlerSleep is what each handling takes; 0 for a handler that does
	// nothing.
	HandlerSleep time.Duration
	// Concurrency is how many handlers run at once; 100 by default.
	Concurrency int
	// Seconds bounds a turn with a handler that sleeps; 10 by default.
	Seconds float64
	// Runs whose median counts; 5 by default.
	Runs int
	// Seed of the draw.
	Seed uint64
	// Progress is told of each run that is done.
	Progress Progress
}

func (c ConsumeConfig) withDefaults() ConsumeConfig {
	c.Keys, c.Records, c.Size = cmp.Or(c.Keys, KeysPowerLaw), cmp.Or(c.Records, 1_000_000), cmp.Or(c.Size, 100)
	c.Partitions, c.Concurrency = cmp.Or(c.Partitions, 32), cmp.Or(c.Concurrency, 100)
	c.Seconds, c.Runs = cmp.Or(c.Seconds, 10), cmp.Or(c.Runs, 5)
	return c
}

func (c ConsumeConfig) validate() error {
	if c.Concurrency < 1 || c.Seconds <= 0 || c.HandlerSleep < 0 {
		return errors.New("Concurrency must be at least 1, Seconds above 0, HandlerSleep at least 0")
	}
	return ProduceConfig{
		Population: c.Population, Keys: c.Keys, Records: c.Records, Size: c.Size, Partitions: c.Partitions,
		Goroutines: 1, Runs: c.Runs,
	}.validate()
}

// ConsumeReport compares a worker with a bare poll loop of the same client
// where the handler does nothing, and with as many goroutines that only sleep
// where it sleeps. Ideal is what these goroutines would reach on the topic's
// tenants if every tenant with records had an equal share of them, and none
// more than one.
type ConsumeReport struct {
	Records        int     `json:"records"`
	HandlerMicros  int64   `json:"handler_us"`
	Concurrency    int     `json:"concurrency"`
	Keys           string  `json:"keys"`
	BarePerSecond  float64 `json:"bare_records_per_s"`
	PerSecond      float64 `json:"tenantlane_records_per_s"`
	Ratio          float64 `json:"ratio"`
	CPURatio       float64 `json:"cpu_ratio"`
	CPUMicros      float64 `json:"cpu_us_per_record"`
	AllocsRatio    float64 `json:"allocs_ratio"`
	AllocsBare     float64 `json:"bare_allocs_per_record"`
	AllocsPerRec   float64 `json:"allocs_per_record"`
	IdealPerSecond float64 `json:"ideal_records_per_s"`
	IdealRatio     float64 `json:"ideal_ratio"`
	RereadBytes    uint64  `json:"reread_bytes"`
	PeakHeapBytes  uint64  `json:"peak_heap_bytes"`
}

// Consume fills a topic, consumes it from each side in turns, and deletes it.
func Consume(ctx context.Context, cfg ConsumeConfig) (report ConsumeReport, err error) {
	cfg = cfg.withDefaults()
	if err = cfg.validate(); err != nil {
		return report, fmt.Errorf("bench consume: %w", err)
	}
	topic := "tenantlane-bench-" + strconv.FormatUint(rand.Uint64(), 36)
	remove, err := makeTopic(ctx, ProduceConfig{KafkaOpts: cfg.KafkaOpts, Partitions: cfg.Partitions}, -1, topic)
	if err != nil {
		return report, fmt.Errorf("bench consume: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	b := &consuming{cfg: cfg, topic: topic}
	if err := b.fill(ctx); err != nil {
		return report, fmt.Errorf("bench consume: filling the topic: %w", err)
	}
	for run := range cfg.Runs {
		if err := b.round(ctx); err != nil {
			return report, fmt.Errorf("bench consume: %w", err)
		}
		cfg.Progress.tell(run+1, cfg.Runs)
	}
	return b.report(), nil
}

// consuming is one measurement at work.
type consuming struct {
	cfg     ConsumeConfig
	topic   string
	volumes []int // records of each tenant

	bare, lanes turns
	reread      uint64
	peak        uint64
}

// turns are one side's figures, one for each run.
type turns struct{ rates, cpu, allocs []float64 }

// lap is what one side did in one turn.
type lap struct {
	records int64
	elapsed time.Duration
	cpu     time.Duration
	allocs  uint64
}

func (t *turns) add(x lap) {
	n := float64(max(x.records, 1))
	t.rates = append(t.rates, n/x.elapsed.Seconds())
	t.cpu = append(t.cpu, float64(x.cpu.Nanoseconds())/1e3/n)
	t.allocs = append(t.allocs, float64(x.allocs)/n)
}

func (b *consuming) fill(ctx context.Context) error {
	client, err := kgo.NewClient(append(slices.Clone(b.cfg.KafkaOpts), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(20*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer client.Close()
	keys := drawTenants(ProduceConfig{Population: b.cfg.Population, Keys: b.cfg.Keys, Records: b.cfg.Records, Seed: b.cfg.Seed})
	counts := make(map[string]int)
	value := make([]byte, b.cfg.Size)
	var failed answers
	for _, key := range keys {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		counts[string(key)]++
		client.Produce(ctx, &kgo.Record{Topic: b.topic, Key: key, Value: value}, failed.note)
	}
	for _, n := range counts {
		b.volumes = append(b.volumes, n)
	}
	return errors.Join(client.Flush(ctx), failed.failed())
}

// round is one run: each side once.
func (b *consuming) round(ctx context.Context) error {
	if err := labeled(ctx, sideBare, func(ctx context.Context) error {
		bare, err := b.bareTurn(ctx)
		b.bare.add(bare)
		return err
	}); err != nil {
		return fmt.Errorf("bare client: %w", err)
	}
	if err := labeled(ctx, sideOurs, func(ctx context.Context) error {
		lanes, err := b.lanesTurn(ctx)
		b.lanes.add(lanes)
		return err
	}); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return ctx.Err() // a turn that was cut short is no figure
}

func (b *consuming) bareTurn(ctx context.Context) (lap, error) {
	if b.cfg.HandlerSleep > 0 {
		return sleepers(ctx, b.cfg, nil), nil
	}
	return b.pollers(ctx)
}

// sleepers are as many goroutines as there are handlers, that only sleep, and
// compute if there is something to compute.
func sleepers(ctx context.Context, cfg ConsumeConfig, compute func()) lap {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(cfg.Seconds, 3)*float64(time.Second)))
	defer cancel()
	var n atomic.Int64
	var group sync.WaitGroup
	begun := newMark()
	for range cfg.Concurrency {
		group.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(cfg.HandlerSleep)
				if compute != nil {
					compute()
				}
				n.Add(1)
			}
		})
	}
	group.Wait()
	return begun.lap(n.Load())
}

// pollers is the bare client's poll loop.
func (b *consuming) pollers(ctx context.Context) (lap, error) {
	client, err := kgo.NewClient(append(slices.Clone(b.cfg.KafkaOpts), kgo.ConsumerGroup(b.group()), kgo.ConsumeTopics(b.topic),
		kgo.FetchMaxWait(250*time.Millisecond))...)
	if err != nil {
		return lap{}, err
	}
	defer client.Close()
	var begun mark
	for n := 0; ; {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return lap{}, err
		}
		if n == 0 {
			begun = newMark()
		}
		fetches.EachRecord(func(*kgo.Record) { n++ })
		if n >= b.cfg.Records {
			return begun.lap(int64(n)), nil
		}
	}
}

func (b *consuming) group() string { return b.topic + "-" + strconv.FormatUint(rand.Uint64(), 36) }

// lanesTurn is the worker, with everything that it has by default.
func (b *consuming) lanesTurn(ctx context.Context) (lap, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &counting{sleep: b.cfg.HandlerSleep, most: int64(b.cfg.Records), full: cancel}
	if h.sleep > 0 {
		h.limit = time.Duration(b.cfg.Seconds * float64(time.Second))
	}
	registry := prometheus.NewRegistry()
	w, err := consumer.New(consumer.Config{
		Group: b.group(), Topics: []string{b.topic}, Concurrency: b.cfg.Concurrency, KafkaOpts: b.cfg.KafkaOpts,
		Registerer: registry, DrainTimeout: -1,
	}, h.handle)
	if err != nil {
		return lap{}, err
	}
	var done sync.WaitGroup
	done.Go(func() { b.watchHeap(ctx) })
	done.Go(func() {
		<-ctx.Done()
		b.reread = max(b.reread, counterOf(registry, "tenantlane_consumer_reread_bytes_total"))
		w.StopNow()
	})
	err = w.Run(ctx)
	cancel()
	done.Wait()
	return h.result(), err
}

// counting is a handler that takes its time and says when the turn is over.
type counting struct {
	sleep time.Duration
	most  int64
	limit time.Duration
	full  context.CancelFunc

	n     atomic.Int64
	begun sync.Once
	mark  mark
	end   atomic.Pointer[lap]
}

func (h *counting) handle(_ context.Context, _ *consumer.Record) error {
	if h.n.Load() == 0 {
		h.begun.Do(func() {
			h.mark = newMark()
			if h.limit > 0 {
				time.AfterFunc(h.limit, h.finish)
			}
		})
	}
	if h.sleep > 0 {
		time.Sleep(h.sleep)
	}
	if h.n.Add(1) == h.most {
		h.finish()
	}
	return nil
}

// finish ends the turn, once.
func (h *counting) finish() {
	t := h.mark.lap(h.n.Load())
	if h.end.CompareAndSwap(nil, &t) {
		h.full()
	}
}

func (h *counting) result() lap {
	if t := h.end.Load(); t != nil {
		return *t
	}
	return lap{elapsed: time.Second}
}

// mark is where a turn began.
type mark struct {
	at     time.Time
	cpu    time.Duration
	allocs uint64
}

func newMark() mark {
	return mark{at: time.Now(), cpu: processTime(), allocs: readMetric("/gc/heap/allocs:objects")}
}

func (m mark) lap(records int64) lap {
	return lap{
		records: records, elapsed: time.Since(m.at), cpu: processTime() - m.cpu,
		allocs: readMetric("/gc/heap/allocs:objects") - m.allocs,
	}
}

func readMetric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func counterOf(g prometheus.Gatherer, name string) uint64 {
	families, err := g.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return uint64(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	return 0
}

// watchHeap notes the largest heap until ctx ends.
func (b *consuming) watchHeap(ctx context.Context) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		b.peak = max(b.peak, readMetric("/memory/classes/heap/objects:bytes"))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (b *consuming) report() ConsumeReport {
	r := ConsumeReport{
		Records: b.cfg.Records, HandlerMicros: b.cfg.HandlerSleep.Microseconds(), Concurrency: b.cfg.Concurrency, Keys: b.cfg.Keys,
		BarePerSecond: median(b.bare.rates), PerSecond: median(b.lanes.rates), CPUMicros: median(b.lanes.cpu),
		AllocsBare: median(b.bare.allocs), AllocsPerRec: median(b.lanes.allocs),
		RereadBytes: b.reread, PeakHeapBytes: b.peak,
	}
	r.Ratio = r.PerSecond / r.BarePerSecond
	r.CPURatio = median(b.lanes.cpu) / median(b.bare.cpu)
	r.AllocsRatio = median(b.lanes.allocs) / max(median(b.bare.allocs), 1e-9)
	r.IdealPerSecond = r.BarePerSecond
	if b.cfg.HandlerSleep > 0 {
		r.IdealPerSecond = fairShare(b.volumes, b.cfg.Concurrency, r.BarePerSecond/float64(b.cfg.Concurrency), b.cfg.Seconds) / b.cfg.Seconds
	}
	r.IdealRatio = r.PerSecond / r.IdealPerSecond
	return r
}

// fairShare is how many records so many workers handle in the given seconds if
// every tenant that has records left gets an equal share of the workers' time,
// and none more than one worker; each worker makes rate records a second. All
// tenants that have records left have then had equally many handled, x:
//
//	dx/dt = rate · min(1, workers / tenants with more than x records)
func fairShare(volumes []int, workers int, rate, seconds float64) float64 {
	sorted := slices.Sorted(slices.Values(volumes))
	total, x := 0.0, 0.0
	for i, v := range sorted {
		left := float64(len(sorted) - i)
		speed := rate * min(1, float64(workers)/left)
		step := min((float64(v)-x)/speed, seconds)
		x += speed * step
		total += speed * step * left
		if seconds -= step; seconds <= 0 {
			break
		}
	}
	return total
}
