package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

const (
	backgroundProducer = "demo-background"
	importProducer     = "demo-import"
	settleTimeout      = 45 * time.Second
)

// Run plays the demo and returns its report. The error says what could not be
// done; a broken promise is no error but Report.Problem.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	cfg, err = cfg.withDefaults()
	if err == nil {
		err = cfg.validate()
	}
	if err != nil {
		return nil, err
	}
	name := "tenantlane-demo-" + strings.ToLower(rand.Text()[:8])
	c, err := newCast(name, cfg.Tenants, cfg.Partitions)
	if err != nil {
		return nil, err
	}
	s, err := newStage(ctx, name, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.strike(ctx, cfg.Logger)) }()
	table, err := c.openTable(ctx, s, cfg)
	if err != nil {
		return nil, errors.Join(ctx.Err(), err) // whoever ended it wants to hear that first
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	p := &play{cfg: cfg, at: cfg.schedule(), stage: s, cast: c, table: table, crew: newCrew(context.WithoutCancel(ctx), s, table, c, cfg)}
	return p.run(ctx)
}

// play is one run, after its stage is set.
type play struct {
	cfg   Config
	at    schedule
	stage *stage
	cast  *cast
	table *store.Topic
	crew  *crew
	pager *pager

	client   *kgo.Client
	producer *partitioner.Producer
	telling  sync.Mutex // held while a line is told

	moves      []Move        // of the move's act
	importTook time.Duration // of the import's act

	mu          sync.Mutex // guards all below
	begun       time.Time  // of the load
	importBegun time.Time
	alerts      []Alert
}

// since is how long ago *begin was, 0 if it has not been.
func (p *play) since(begin *time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if begin.IsZero() {
		return 0
	}
	return time.Since(*begin)
}

// mark sets *begin to now.
func (p *play) mark(begin *time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	*begin = time.Now()
	return *begin
}

// tell says what happened now.
func (p *play) tell(format string, args ...any) {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.cfg.Tell(Line{p.since(&p.begun), fmt.Sprintf(format, args...)})
}

// run opens what the acts need, plays them, and closes it in reverse.
func (p *play) run(ctx context.Context) (report *Report, err error) {
	p.introduce()
	if p.pager, err = newPager(p.paged); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.pager.close(ctx)) }()
	if err = p.openProducer(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.closeProducer(ctx)) }()
	defer func() { err = errors.Join(err, p.crew.dismiss(ctx)) }()
	if err = p.hireAll(ctx); err != nil {
		return nil, err
	}
	stopWatch, err := p.watch(ctx)
	if err != nil {
		return nil, err
	}
	err = p.acts(ctx)
	if err == nil {
		err = p.drain(ctx)
	}
	took := p.since(&p.begun)
	err = errors.Join(err, stopWatch())
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return p.report(took), nil
}

func (p *play) introduce() {
	if p.stage.broker != nil {
		p.tell("broker: embedded, in this process, on %s (set KAFKA_BROKERS to use a real one)", p.stage.called)
	} else {
		p.tell("broker: Kafka at %s; topic and group %s are removed at the end", p.stage.called, p.stage.name)
	}
	p.tell("topic %s has %d partitions: %s tenants, the %d largest on partitions of their own",
		p.stage.name, p.cfg.Partitions, count(uint64(len(p.cfg.Tenants.Tenants))), len(p.cast.whales))
	p.tell("%s", ruleInWords)
}

func (p *play) openProducer() error {
	opts := append(partitioner.ClientOpts(p.table, partitioner.Config{}), kgo.MaxBufferedRecords(50_000), kgo.ProducerLinger(time.Millisecond))
	client, err := kgo.NewClient(append(slices.Clone(p.stage.opts), opts...)...)
	if err != nil {
		return fmt.Errorf("producer: %w", err)
	}
	p.client = client
	p.producer, err = partitioner.NewProducer(client, p.table, partitioner.ProducerConfig{Logger: p.cfg.Logger})
	if err != nil {
		client.Close()
		return err
	}
	return nil
}

func (p *play) closeProducer(ctx context.Context) error {
	defer p.client.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return p.producer.Close(ctx)
}

func (p *play) hireAll(ctx context.Context) error {
	for range p.cfg.Workers {
		if err := p.crew.hire(p.cfg.Import); err != nil {
			return err
		}
	}
	if err := p.settled(ctx); err != nil {
		return err
	}
	p.tell("%d workers share the partitions; each handles a tenant's records one at a time, in order, and many tenants at once", p.cfg.Workers)
	return nil
}

func (p *play) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return p.crew.settled(ctx, p.cfg.Partitions)
}

// watch starts lagwatch.
func (p *play) watch(ctx context.Context) (stop func() error, err error) {
	hook, err := notify.NewWebhook(notify.WebhookConfig{URL: notify.Secret(p.pager.url)})
	if err != nil {
		return nil, err
	}
	fast := rule()
	cfg := lagwatch.Config{
		KafkaOpts: p.stage.opts, Groups: []string{p.stage.name}, Topics: []string{p.stage.name},
		Rule: &fast, Table: p.table, Targets: []notify.Target{hook}, Logger: p.cfg.Logger.Named("lagwatch"),
	}
	if p.cfg.Show != nil {
		cfg.OnEvaluation = func(seen *lagwatch.Evaluation) { p.cfg.Show(p.crew.picture(seen)) }
	}
	watcher, err := lagwatch.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var failed error
	running.Go(func() { failed = watcher.Run(ctx) })
	return func() error {
		cancel()
		running.Wait()
		if failed != nil {
			return fmt.Errorf("lagwatch: %w", failed)
		}
		return nil
	}, nil
}

// paged is called by the webhook's receiver.
func (p *play) paged(alert notify.WebhookAlert) {
	if alert.Status != "firing" {
		p.tell("resolved: %s", alert.Name)
		return
	}
	after := p.since(&p.importBegun)
	p.mu.Lock()
	p.alerts = append(p.alerts, Alert{
		Alert: alert.Name, Partitions: alert.Partitions, Tenant: alert.Tenant, Severity: alert.Severity,
		Summary: alert.Summary, AfterS: seconds(after),
	})
	p.mu.Unlock()
	p.tell("PAGE at the webhook: %s, partitions %v, tenant %q: %s", alert.Name, alert.Partitions, alert.Tenant, alert.Summary)
}

// drain waits until everything that was acknowledged is handled. What is left
// when nothing moves any more counts as lost.
func (p *play) drain(ctx context.Context) error {
	begun := time.Now()
	moved, before := begun, p.crew.handled.Load()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for late := false; ; {
		left := p.crew.checker.Report().Lost
		if now := p.crew.handled.Load(); now > before {
			moved, before = time.Now(), now
		}
		if left == 0 || time.Since(moved) > stalled {
			return nil
		}
		if err := p.crew.err(); err != nil {
			return err
		}
		if !late && time.Since(begun) > time.Second {
			p.tell("the load has ended; %s records are still to be handled, longer than planned: this machine is busy", count(left))
			late = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *play) report(took time.Duration) *Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &Report{Broker: p.stage.kind, Population: len(p.cfg.Tenants.Tenants), Moves: p.moves, Alerts: []Alert{}, SkewByHash: Figure(p.cast.before.MaxMedian)}
	r.take(p.crew.checker.Report())
	r.RecordsPerS = Figure(float64(r.Handled) / took.Seconds())
	drained := time.Unix(0, p.crew.drained.Load())
	r.Import = Import{
		Tenant: p.cast.importer, Records: p.cfg.Import, Partition: p.cast.partition, Neighbors: p.cast.neighbors,
		ProduceS: seconds(p.importTook), DrainS: seconds(drained.Sub(p.importBegun)),
	}
	r.QuietP99.Before = p.crew.latencies.quantile(0.99, p.begun.Add(p.at.quiet), p.importBegun)
	r.QuietP99.During = p.crew.latencies.quantile(0.99, p.importBegun, drained)
	r.SkewMaxMedian = Figure(p.crew.skew(p.cast.spare))
	r.Alerts = append(r.Alerts, p.alerts...)
	return r
}
