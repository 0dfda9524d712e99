package lagwatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// Watcher watches one cluster. Use Run or Once, not both at a time.
type Watcher struct {
	cfg      Config
	log      *zap.Logger
	engine   *engine
	inv      *inventory
	notifier *notify.Notifier
	metrics  *metrics
	last     atomic.Pointer[Evaluation]
	heat     *heatMap
	journal  *journal
	web      *web
	// Only the goroutine of Run or Once uses these.
	looksOnce  bool
	wasBlind   bool
	savedAt    time.Time
	stateError error
	told       chan struct{} // a target was told something
	leads      atomic.Bool   // in an election
	share      func(ctx context.Context)

	failingSince  map[string]time.Time // of targets
	watchdogSince time.Time
	beatAt        time.Time
	inflowAt      time.Time
}

// New returns a watcher that has not looked yet. It does not connect; the
// error names a field of cfg that cannot be used.
func New(cfg Config) (*Watcher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("lagwatch: config: %w", err)
	}
	saved, err := loadState(cfg.StateFile)
	if err != nil { // to watch without a memory is better than not to watch
		cfg.Logger.Error("the state cannot be used; alerts may be sent again", zap.Error(err))
	}
	w := &Watcher{cfg: cfg, log: cfg.Logger, inv: newInventory(cfg.literalGroups()), told: make(chan struct{}, 1), share: func(context.Context) {}, failingSince: map[string]time.Time{}}
	w.heat = newHeatMap()
	w.journal = &journal{windows: cfg.Maintenance}
	if w.web, err = newWeb(w.Last, w.heat); err != nil {
		return nil, fmt.Errorf("lagwatch: page: %w", err)
	}
	w.engine = newEngine(&w.cfg)
	var told notify.State
	if saved != nil {
		w.restore(saved)
		w.savedAt, told = saved.SavedAt, saved.Told
	}
	w.notifier, err = notify.New(notify.Config{
		Targets: cfg.Targets, Fallback: cfg.Fallback, Backoff: cfg.Backoff, Logger: cfg.Logger, Registerer: cfg.Registerer,
		OnTold: w.noteTold, Muted: func(a *notify.Alert) bool { return w.journal.mutedBy(a, time.Now()) != "" },
	}, told)
	if err != nil {
		return nil, fmt.Errorf("lagwatch: %w", err)
	}
	if w.metrics, err = newMetrics(cfg.Registerer, w.Last); err != nil {
		return nil, fmt.Errorf("lagwatch: metrics: %w", err)
	}
	return w, nil
}

// Last returns the newest evaluation, nil before the first. Safe for
// concurrent use.
func (w *Watcher) Last() *Evaluation { return w.last.Load() }

// Settle waits until every target was told what fires as of the last
// evaluation, or ctx ends.
func (w *Watcher) Settle(ctx context.Context) error { return w.notifier.Settle(ctx) }

// Run watches until ctx ends, then tells the targets what they have not been
// told, which takes at most 2 seconds. It returns nil, or an error when the
// client or the listener cannot be made.
func (w *Watcher) Run(ctx context.Context) error {
	s, reader, err := w.connect()
	if err != nil {
		return err
	}
	defer s.client.Close()
	serve, err := w.listen()
	if err != nil {
		return err
	}
	aside, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.notifier.Run(aside) }) // returns nil
	wg.Go(func() { serve(aside) })
	endCampaign, err := w.startCampaign(ctx)
	if err != nil {
		stop()
		wg.Wait()
		return err
	}
	w.republish()
	w.loop(ctx, s, reader)
	stop()
	wg.Wait()
	endCampaign()
	w.save(time.Now(), true)
	return nil
}

// republish says again what was open before a restart, before the first look:
// Alertmanager forgets what it does not hear.
func (w *Watcher) republish() {
	open := map[string]notify.Alert{}
	for _, told := range w.notifier.State() {
		for key, e := range told {
			open[key] = e.Alert
		}
	}
	if len(open) > 0 {
		w.notifier.Publish(slices.Collect(maps.Values(open)))
	}
}

// noteTold asks the loop to save: what a target was told must not be told
// again after a crash.
func (w *Watcher) noteTold() {
	select {
	case w.told <- struct{}{}:
	default:
	}
}

// Once looks once, without telling anyone and without saving. It uses the
// state file's past; without a fresh one the parts of the rule that need it
// are skipped, and the evaluation says so. The error is about the client; a cluster that does not answer is an evaluation that is
// Blind.
func (w *Watcher) Once(ctx context.Context) (*Evaluation, error) {
	s, reader, err := w.connect()
	if err != nil {
		return nil, err
	}
	defer s.client.Close()
	w.looksOnce = true
	w.engine.once = time.Since(w.savedAt) > stateFresh
	if w.engine.once {
		clear(w.engine.pairs)
		w.engine.order = nil
	}
	if e := w.look(ctx, s, reader); e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("lagwatch: %w", ctx.Err())
}

func (w *Watcher) connect() (*sampler, *sample.Reader, error) {
	client, err := kgo.NewClient(clientOpts(&w.cfg)...)
	if err != nil {
		return nil, nil, fmt.Errorf("lagwatch: client: %w", err)
	}
	reader, err := sample.NewReader(client, sample.Config{})
	if err != nil {
		client.Close()
		return nil, nil, fmt.Errorf("lagwatch: %w", err)
	}
	return newSampler(&w.cfg, client, w.inv), reader, nil
}

// loop looks at once and then at each interval.
func (w *Watcher) loop(ctx context.Context, s *sampler, reader *sample.Reader) {
	tick := time.NewTicker(w.cfg.Rule.Interval)
	defer tick.Stop()
	for {
		e := w.look(ctx, s, reader)
		if e == nil {
			return
		}
		w.notifier.Publish(e.alerts)
		w.heartbeat(ctx, e)
		if w.cfg.OnEvaluation != nil {
			w.cfg.OnEvaluation(e)
		}
		w.probe(ctx, s, reader)
		w.lookForStale(ctx, s)
		w.followInflow(ctx, s)
		w.save(time.Now(), false)
		if !w.wait(ctx, tick.C) {
			return
		}
	}
}

// wait sleeps until the next round, and saves when a target was told
// something; false when ctx ended.
func (w *Watcher) wait(ctx context.Context, tick <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case <-w.told:
			w.save(time.Now(), true)
			w.share(ctx)
		}
	}
}

// look makes one evaluation: samples, decides, and finds whose records it is
// about. It is nil when ctx ended.
func (w *Watcher) look(ctx context.Context, s *sampler, reader *sample.Reader) *Evaluation {
	begin := time.Now()
	snap := s.sample(ctx, begin)
	if ctx.Err() != nil {
		return nil // what was cut short says nothing
	}
	w.metrics.sampled(time.Since(begin), len(snap.Errors))
	w.engine.observe(snap)
	w.attribute(ctx, reader, begin)
	w.nameProducers(ctx, s.client)
	w.record(snap)
	e := w.engine.evaluate(snap)
	if w.stateError != nil {
		e.StateError = w.stateError.Error()
	}
	if !w.looksOnce {
		w.watchSelf(e)
	}
	w.annotate(e)
	w.heat.add(e, max(heatColumn, w.cfg.Rule.Interval))
	w.last.Store(e)
	w.report(e)
	return e
}

// annotate adds what people told the watcher.
func (w *Watcher) annotate(e *Evaluation) {
	for i := range e.alerts {
		a := &e.alerts[i]
		a.Markers = w.journal.about(a.Group, a.Since)
		if by := w.journal.mutedBy(a, e.At); by != "" {
			if e.Muted == nil {
				e.Muted = map[string]string{}
			}
			e.Muted[a.Key()] = by
		}
	}
	e.Silences, _ = w.journal.list(e.At)
}

// report logs when the sight changes.
func (w *Watcher) report(e *Evaluation) {
	switch {
	case e.Blind && !w.wasBlind:
		w.log.Warn("lagwatch does not see everything", zap.Int("unknown_partitions", e.Unknown), zap.Strings("errors", e.Errors))
	case !e.Blind && w.wasBlind:
		w.log.Info("lagwatch sees everything again")
	}
	w.wasBlind = e.Blind
}

// attribute names the tenants of open alerts, within its own time.
func (w *Watcher) attribute(ctx context.Context, reader *sample.Reader, now time.Time) {
	questions := w.engine.questions(now)
	if len(questions) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, attributeTime)
	defer cancel()
	answers := make([]attribution, len(questions))
	var g errgroup.Group
	g.SetLimit(4)
	for i, q := range questions {
		l := w.engine.layout(q.topic)
		g.Go(func() error {
			var err error
			if answers[i], err = answer(ctx, reader, q, l); err != nil {
				w.log.Warn("cannot read whose records are waiting", zap.String("group", q.group), zap.String("topic", q.topic), zap.Error(err))
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return nil: an alert without a name is still one
	for i, q := range questions {
		if answers[i].tenant != "" {
			w.engine.name(q, answers[i], now)
		}
	}
}

// probeLimit is how many partitions are probed per round.
const probeLimit = 64

// probe probes what the verdict was unsure of, for the next round.
func (w *Watcher) probe(ctx context.Context, s *sampler, reader *sample.Reader) {
	probes := w.engine.probes(probeLimit)
	if len(probes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, attributeTime)
	defer cancel()
	seen := make([]sample.Visible, len(probes))
	errs := make([]error, len(probes))
	var g errgroup.Group
	g.SetLimit(4)
	for i, p := range probes {
		g.Go(func() error {
			seen[i], errs[i] = reader.FirstVisible(ctx, p.topic, p.partition, p.from)
			return nil
		})
	}
	_ = g.Wait() // errors are kept beside
	for i, p := range probes {
		if errs[i] != nil {
			w.log.Warn("cannot see whether anything waits", zap.String("group", p.group), zap.Error(errs[i]))
			continue
		}
		s.visible[p.key()] = visible{commit: p.from, offset: seen[i].Offset, found: seen[i].Found, stable: seen[i].Stable}
	}
}

// record appends the snapshot, and whose records its alerts are about, to the
// recording. A recording that cannot be written does not stop the watcher.
func (w *Watcher) record(snap *Snapshot) {
	if w.cfg.Record == nil {
		return
	}
	line, err := json.Marshal(recorded{Snapshot: snap, Named: w.engine.savedNames()})
	if err == nil {
		_, err = w.cfg.Record.Write(append(line, '\n'))
	}
	if err != nil {
		w.log.Error("cannot record the snapshot", zap.Error(err))
	}
}

// seedAges are the ages at which past ends are asked for when nothing is
// remembered: the thresholds that delays are compared with, newest first.
func seedAges(cfg *Config) []time.Duration {
	ages := []time.Duration{cfg.Rule.MinDelay, 3 * cfg.Rule.MinDelay, cfg.Rule.MaxDelay, 4 * cfg.Rule.MaxDelay}
	ages = slices.DeleteFunc(ages, func(d time.Duration) bool { return d <= 0 })
	slices.Sort(ages)
	return slices.Compact(ages)
}
