package load

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/check"
)

const (
	defaultDrainTimeout = 30 * time.Second
	// DefaultMaxErrors is how many records may fail before a run gives up: one
	// may be bad luck, a hundred are a topic or a cluster that does not work.
	DefaultMaxErrors = 100
)

// Producer is what a Generator produces through: a partitioner.Producer.
type Producer interface {
	Produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error))
	Flush(ctx context.Context) error
}

// Generator produces the records of a Mix.
type Generator struct {
	// Producer and Recorder are required, and are used by Run only.
	Producer Producer
	Recorder *Recorder
	// Rate is records a second, evenly spaced; 0 means as fast as it goes.
	Rate float64
	// DrainTimeout bounds the wait for acknowledgements at the end and after
	// a cancel. Default 30 s.
	DrainTimeout time.Duration
	// MaxErrors is how many records may fail before the run gives up;
	// DefaultMaxErrors by default, negative for no end.
	MaxErrors int64
	// Acknowledged, if not nil, is called for each record that the broker
	// acknowledged. Calls come from the client's goroutine, one at a time. An
	// error ends the run.
	Acknowledged func(h check.Handling, at time.Time) error
	// Progress, if not nil, is called now and then with the records handed in.
	Progress func(handed int64)

	mu     sync.Mutex // guards result and failed
	result Result
	failed error // of Acknowledged
}

// Result is what a run did.
type Result struct {
	Produced int64         // acknowledged
	Errors   int64         // failed for good
	First    error         // the first failure, nil without Errors
	Elapsed  time.Duration // until the last acknowledgement
}

// PerSecond is the acknowledged records a second.
func (r Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Produced) / r.Elapsed.Seconds()
}

// Run produces all of the mix and waits for the acknowledgements. When ctx
// ends it stops, waits for what is in flight, and returns the context's error.
// It also stops after MaxErrors failed records. The Result counts what was
// acknowledged either way.
func (g *Generator) Run(ctx context.Context, mix *Mix) (Result, error) {
	begun := time.Now()
	err := g.produce(ctx, mix, begun)
	flushErr := g.flush(ctx)

	g.mu.Lock()
	defer g.mu.Unlock()
	g.result.Elapsed = time.Since(begun)
	switch {
	case g.failed != nil:
		err = g.failed
	case err == nil && flushErr != nil:
		err = flushErr
	}
	return g.result, err
}

func (g *Generator) flush(ctx context.Context) error {
	timeout := g.DrainTimeout
	if timeout == 0 {
		timeout = defaultDrainTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := g.Producer.Flush(ctx); err != nil {
		return fmt.Errorf("waiting %s for acknowledgements: %w", timeout, err)
	}
	return nil
}

func (g *Generator) produce(ctx context.Context, mix *Mix, begun time.Time) error {
	pace := pacer{rate: g.Rate, begun: begun}
	defer pace.stop()
	for handed := int64(0); ; handed++ {
		tenant, ok := mix.Next()
		if !ok {
			return nil
		}
		if err := pace.wait(ctx, handed); err != nil {
			return err
		}
		if err := g.broken(); err != nil {
			return err
		}
		record, h := g.Recorder.Record(tenant, time.Now())
		g.Producer.Produce(ctx, record, func(r *kgo.Record, err error) { g.promise(h, r, err) })
		if g.Progress != nil && handed%1024 == 0 {
			g.Progress(handed)
		}
	}
}

// broken is why a run has to give up, or nil.
func (g *Generator) broken() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := cmp.Or(g.MaxErrors, DefaultMaxErrors)
	if most > 0 && g.result.Errors >= most {
		return fmt.Errorf("%d records failed, the first: %w", g.result.Errors, g.result.First)
	}
	return g.failed
}

func (g *Generator) promise(h check.Handling, r *kgo.Record, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		if g.result.First == nil {
			g.result.First = err
		}
		g.result.Errors++
		return
	}
	g.result.Produced++
	h.Partition, h.Offset = r.Partition, r.Offset
	if g.Acknowledged == nil || g.failed != nil {
		return
	}
	if err := g.Acknowledged(h, time.Now()); err != nil {
		g.failed = fmt.Errorf("record acknowledged but not logged: %w", err)
	}
}

// pacer spaces records evenly from the begin on. It keeps to the schedule, so
// that a pause is caught up with and the rate holds over the whole run.
type pacer struct {
	rate  float64
	begun time.Time
	timer *time.Timer
}

// wait returns when the record with that number is due, or ctx has ended.
func (p *pacer) wait(ctx context.Context, number int64) error {
	if err := ctx.Err(); err != nil || p.rate <= 0 {
		return err
	}
	due := p.begun.Add(time.Duration(float64(number) / p.rate * float64(time.Second)))
	ahead := time.Until(due)
	if ahead < time.Millisecond {
		return nil // timers are not finer; the next ones make up for it
	}
	if p.timer == nil {
		p.timer = time.NewTimer(ahead)
	} else {
		p.timer.Reset(ahead)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pacer) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
