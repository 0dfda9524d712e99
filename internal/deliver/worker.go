package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenantlane/tenantlane/consumer"
)

// Config says what a Worker consumes and where records go. Consumer and Target
// are required.
type Config struct {
	// Consumer is the runtime's configuration. Its OnAssign and OnCommit are
	// called too.
	Consumer consumer.Config
	// Target takes the records: Discard, NewHTTP, NewExec, or any handler.
	Target consumer.Handler
	// Log, if not nil, takes a JSON line for each handled record.
	Log io.Writer
	// Process names this process in the log. Default: host, pid and time.
	Process string
	// UntilIdle ends Run once no record was handled for so long after the
	// group has assigned partitions, or found none to assign. 0: never.
	UntilIdle time.Duration
	// StatsInterval is the time between calls of OnStats. Default 5 s.
	StatsInterval time.Duration
	// OnStats, if not nil, is called at each interval and once at the end.
	OnStats func(Stats)
}

// Stats is what a worker did, since its start and in the last interval.
type Stats struct {
	Handled       uint64        `json:"handled"` // successfully
	Failed        uint64        `json:"failed"`  // handlings that will be repeated, or were given up
	HandledPerSec float64       `json:"handled_per_s"`
	InFlight      int64         `json:"in_flight"`
	Partitions    int           `json:"partitions"`
	Parked        int           `json:"parked"`             // lanes that wait for an operator
	Unlogged      uint64        `json:"unlogged,omitempty"` // records without a line, since they are not loadgen's
	Elapsed       time.Duration `json:"elapsed_ns"`
}

// Worker delivers records until it is told to stop, or idle.
type Worker struct {
	cfg     Config
	runtime *consumer.Runtime
	log     *Log
	began   time.Time

	handled, failed  atomic.Uint64
	inFlight, active atomic.Int64 // handlings; last activity in Unix nanoseconds, 0 before any assignment
}

// New checks the configuration and begins the log.
func New(cfg Config) (*Worker, error) {
	if cfg.Target == nil {
		return nil, errors.New("deliver.Config: Target is nil")
	}
	if cfg.StatsInterval <= 0 {
		cfg.StatsInterval = 5 * time.Second
	}
	w := &Worker{cfg: cfg}
	handler := cfg.Target
	if cfg.Log != nil {
		log, err := NewLog(cfg.Log, processName(cfg.Process))
		if err != nil {
			return nil, err
		}
		w.log, handler = log, log.Handler(handler)
	}
	cfg.Consumer.OnAssign = w.assigned(cfg.Consumer.OnAssign)
	cfg.Consumer.OnCommit = w.committed(cfg.Consumer.OnCommit)
	rt, err := consumer.New(cfg.Consumer, w.count(handler))
	if err != nil {
		return nil, err
	}
	w.runtime = rt
	return w, nil
}

func processName(given string) string {
	if given != "" {
		return given
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%x", host, os.Getpid(), time.Now().UnixNano())
}

// Runtime is the consumer underneath.
func (w *Worker) Runtime() *consumer.Runtime { return w.runtime }

// StopNow makes Run return soon, without draining.
func (w *Worker) StopNow() { w.runtime.StopNow() }

// Run delivers until ctx ends, then drains; or until it is idle. Its error is
// the runtime's, or that of the log.
func (w *Worker) Run(ctx context.Context) error {
	w.began = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { w.watch(ctx, cancel) })
	err := w.runtime.Run(ctx)
	cancel()
	group.Wait()
	if w.cfg.OnStats != nil {
		w.cfg.OnStats(w.stats(w.handled.Load(), time.Since(w.began)))
	}
	if w.log != nil {
		err = errors.Join(err, w.log.Err())
	}
	return err
}

// watch reports and looks whether nothing comes any more.
func (w *Worker) watch(ctx context.Context, idle func()) {
	stats := time.NewTicker(w.cfg.StatsInterval)
	defer stats.Stop()
	look := time.NewTicker(max(min(w.cfg.UntilIdle/4, time.Second), 10*time.Millisecond))
	defer look.Stop()
	before, at := uint64(0), w.began
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-stats.C:
			if w.cfg.OnStats != nil {
				handled := w.handled.Load()
				w.cfg.OnStats(w.stats(handled-before, now.Sub(at)))
				before, at = handled, now
			}
		case <-look.C:
			if w.idle() || (w.log != nil && w.log.Err() != nil) {
				idle()
			}
		}
	}
}

func (w *Worker) idle() bool {
	active := w.active.Load()
	return w.cfg.UntilIdle > 0 && active != 0 && w.inFlight.Load() == 0 &&
		time.Since(time.Unix(0, active)) >= w.cfg.UntilIdle
}

// stats is what happened since the start, with the rate of the last interval.
func (w *Worker) stats(handled uint64, in time.Duration) Stats {
	s := Stats{
		Handled: w.handled.Load(), Failed: w.failed.Load(), InFlight: w.inFlight.Load(),
		Partitions: w.runtime.Partitions(), Parked: w.runtime.ParkedLanes(), Elapsed: time.Since(w.began),
		HandledPerSec: float64(handled) / max(in.Seconds(), 1e-3),
	}
	if w.log != nil {
		s.Unlogged = w.log.Unlogged()
	}
	return s
}

// count counts handlings and notes activity.
func (w *Worker) count(next consumer.Handler) consumer.Handler {
	return func(ctx context.Context, r *consumer.Record) error {
		w.inFlight.Add(1)
		defer w.inFlight.Add(-1)
		err := next(ctx, r)
		if err != nil {
			w.failed.Add(1)
		} else {
			w.handled.Add(1)
		}
		if w.cfg.UntilIdle > 0 {
			w.active.Store(time.Now().UnixNano())
		}
		return err
	}
}

func (w *Worker) assigned(also func([]consumer.Assigned)) func([]consumer.Assigned) {
	return func(assigned []consumer.Assigned) {
		if w.log != nil {
			w.log.Assigned(assigned)
		}
		w.active.Store(time.Now().UnixNano())
		if also != nil {
			also(assigned)
		}
	}
}

func (w *Worker) committed(also func([]consumer.Committed)) func([]consumer.Committed) {
	return func(done []consumer.Committed) {
		if w.log != nil {
			w.log.Committed(done)
		}
		if also != nil {
			also(done)
		}
	}
}
