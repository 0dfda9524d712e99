package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance/plan"
)

// crew is the workers and what they report.
type crew struct {
	stage     *stage
	table     store.Source
	log       *zap.Logger
	checker   *check.Checker
	cost      *cost
	cast      *cast
	latencies latencies
	handled   atomic.Int64
	imported  atomic.Int64   // of the import
	drained   atomic.Int64   // when the last of the import was handled, Unix ns
	perPart   []atomic.Int64 // background records handled before the move
	moving    atomic.Bool

	ctx     context.Context // of all workers; ends when they shall drain
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex // guards workers and failed
	workers []*consumer.Runtime
	failed  []error
}

func newCrew(ctx context.Context, s *stage, table store.Source, c *cast, cfg Config) *crew {
	w := &crew{
		stage: s, table: table, log: cfg.Logger, cast: c,
		checker: check.New(), cost: newCost(cfg.schedule().cost), perPart: make([]atomic.Int64, cfg.Partitions),
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// hire starts one more worker.
func (w *crew) hire(imports int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := fmt.Sprintf("worker-%d", len(w.workers)+1)
	runtime, err := consumer.New(consumer.Config{
		Group: w.stage.name, Topics: []string{w.stage.name}, Table: w.table,
		KafkaOpts: append(slices.Clone(w.stage.opts), kgo.HeartbeatInterval(500*time.Millisecond)),
		// All of the import may wait in one worker, and must not keep it from
		// fetching other tenants' records.
		MaxRecords: int(imports) + 100_000, MaxBytes: 1 << 30,
		CommitInterval: 250 * time.Millisecond, DrainTimeout: 10 * time.Second,
		OnAssign: func(assigned []consumer.Assigned) { w.assigned(name, assigned) },
		OnCommit: func(done []consumer.Committed) { w.committed(name, done) },
		Logger:   w.log.Named(name),
	}, w.handler(name, imports))
	if err != nil {
		return err
	}
	w.workers = append(w.workers, runtime)
	w.running.Go(func() {
		if err := runtime.Run(w.ctx); err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failed = append(w.failed, fmt.Errorf("%s: %w", name, err))
		}
	})
	return nil
}

// handler takes a record's time and checks it.
func (w *crew) handler(name string, imports int64) consumer.Handler {
	return func(ctx context.Context, r *consumer.Record) error {
		v, err := load.Decode(r.Value)
		if err != nil {
			return consumer.Permanent(err)
		}
		if err := w.cost.pay(ctx, v.Tenant); err != nil {
			return err
		}
		w.checker.Handled(check.Handling{
			Process: name, ID: v.ID, Seq: v.Seq, Partition: r.Partition, Offset: r.Offset,
			Attempt: r.Attempt, Assignment: r.Token.Epoch,
		})
		w.count(v, r, imports)
		return nil
	}
}

func (w *crew) count(v load.Value, r *consumer.Record, imports int64) {
	now := time.Now()
	w.handled.Add(1)
	if v.Producer == importProducer {
		if w.imported.Add(1) >= imports {
			w.drained.CompareAndSwap(0, now.UnixNano())
		}
		return
	}
	if !w.moving.Load() {
		w.perPart[r.Partition].Add(1)
	}
	if v.Tenant != w.cast.importer && !w.cast.isWhale(v.Tenant) {
		w.latencies.add(v.Time, max(0, now.Sub(r.Timestamp))) // broker clocks may differ
	}
}

func (w *crew) assigned(name string, assigned []consumer.Assigned) {
	for _, a := range assigned {
		w.checker.Assigned(name, check.Assignment{Partition: a.Partition, Number: a.Epoch})
	}
}

func (w *crew) committed(name string, done []consumer.Committed) {
	for _, d := range done {
		w.checker.Committed(name, check.Commit{Partition: d.Partition, Offset: d.Offset})
	}
}

// settled waits until every worker has partitions and all have an owner.
func (w *crew) settled(ctx context.Context, partitions int32) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		owned := w.owned()
		sum := 0
		for _, n := range owned {
			sum += n
		}
		if sum == int(partitions) && slices.Min(owned) > 0 {
			return nil
		}
		if err := w.err(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("workers own %v of %d partitions: %w", owned, partitions, ctx.Err())
		}
	}
}

// owned is how many partitions each worker has.
func (w *crew) owned() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	owned := make([]int, len(w.workers))
	for i, worker := range w.workers {
		owned[i] = worker.Partitions()
	}
	return owned
}

// err is why a worker has ended early, or nil.
func (w *crew) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.failed...)
}

// dismiss lets all workers drain, commit and leave; once ctx has ended they
// leave at once.
func (w *crew) dismiss(ctx context.Context) error {
	w.cancel()
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, worker := range w.workers {
			worker.StopNow()
		}
	})
	w.running.Wait()
	stop()
	return w.err()
}

// skew is the handled rate of the busiest partition over the lower median's,
// of the background load before the move, without the spare partition.
func (w *crew) skew(spare int32) float64 {
	var loads []float64
	for i := range w.perPart {
		if int32(i) != spare {
			loads = append(loads, float64(w.perPart[i].Load()))
		}
	}
	return plan.SkewOf(loads).MaxMedian
}
