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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance"
)

// moveStage is a topic with its table, clients and load, on which tenants move.
type moveStage struct {
	cfg         MoveConfig
	name        string
	checker     *check.Checker
	rng         *rand.Rand
	coordinator *rebalance.LiveCoordinator
	producers   []*moveProducer
	workers     []store.Source // their views of the table
	undo        []func(context.Context) error

	now atomic.Pointer[movePhase] // nil: not counted

	// Of the goroutine that plays the phases.
	without, with []*movePhase
	pauses, waits []float64
	aborted       int
}

// moveProducer is one producer with its own view of the table.
type moveProducer struct {
	table    *store.Topic
	producer *partitioner.Producer
}

// movePhase collects a phase's times in milliseconds.
type movePhase struct {
	mu sync.Mutex
	// guards all below
	moving          map[string]bool // tenants that move in this phase, which do not count
	produce, handle []float64
}

func newMovePhase() *movePhase { return &movePhase{moving: map[string]bool{}} }

func (p *movePhase) moves(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moving[tenant] = true
}

// acknowledged and handled note how long that took since a record was due. A
// nil phase takes nothing.
func (p *movePhase) acknowledged(tenant string, due time.Time) {
	if p != nil {
		p.add(&p.produce, tenant, due)
	}
}

func (p *movePhase) handled(tenant string, due time.Time) {
	if p != nil {
		p.add(&p.handle, tenant, due)
	}
}

func (p *movePhase) add(times *[]float64, tenant string, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.moving[tenant] {
		*times = append(*times, milliseconds(time.Since(due)))
	}
}

func (p *movePhase) produceTimes() []float64 { return p.produce }
func (p *movePhase) handleTimes() []float64  { return p.handle }

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// newMoveStage makes the topics and the clients.
func newMoveStage(ctx context.Context, cfg MoveConfig) (_ *moveStage, err error) {
	s := &moveStage{
		cfg: cfg, name: "tenantlane-bench-" + strconv.FormatUint(rand.Uint64(), 36),
		checker: check.New(), rng: newMoveRand(cfg.Seed),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	remove, err := makeTopic(ctx, ProduceConfig{KafkaOpts: cfg.KafkaOpts, Partitions: cfg.Partitions}, cfg.Replicas, s.name)
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, func(context.Context) error { return remove() })
	s.undo = append(s.undo, s.removeTableTopics)
	table, err := s.makeTable(ctx)
	if err != nil {
		return s, err
	}
	s.coordinator, err = rebalance.NewLiveCoordinator(rebalance.LiveConfig{KafkaOpts: cfg.KafkaOpts, Table: table})
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, func(context.Context) error { s.coordinator.Close(); return nil })
	for range cfg.Producers {
		if err := s.addProducer(ctx); err != nil {
			return s, err
		}
	}
	for range cfg.Workers {
		view, err := s.openTable(ctx, store.TopicConfig{})
		if err != nil {
			return s, err
		}
		s.workers = append(s.workers, view)
	}
	return s, nil
}

// prefix of the topics that hold the table.
func (s *moveStage) prefix() string { return s.name + "." }

// makeTable puts the table into its topics. Tenants are where they hash to.
func (s *moveStage) makeTable(ctx context.Context) (*store.Topic, error) {
	table, err := s.openTable(ctx, store.TopicConfig{Create: true, Empty: true, Replicas: s.cfg.Replicas})
	if err != nil {
		return nil, err
	}
	_, err = table.Update(ctx, store.Author{Actor: "bench"}, func(present *routing.Table) (*routing.Table, error) {
		return present.Edit(routing.SetTopic(s.name, routing.TopicSpec{Partitions: s.cfg.Partitions, Wrapped: true}))
	})
	return table, err
}

func (s *moveStage) openTable(ctx context.Context, cfg store.TopicConfig) (*store.Topic, error) {
	cfg.KafkaOpts, cfg.Prefix = s.cfg.KafkaOpts, s.prefix()
	// Once it is open the view outlives ctx: how a change ended that ctx's end
	// interrupts is read from it.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	bound := context.AfterFunc(ctx, end)
	view, err := store.OpenTopic(life, cfg)
	bound()
	if err != nil {
		end()
		return nil, cmp.Or(ctx.Err(), err)
	}
	s.undo = append(s.undo, func(context.Context) error {
		defer end()
		return view.Close()
	})
	return view, nil
}

func (s *moveStage) addProducer(ctx context.Context) error {
	view, err := s.openTable(ctx, store.TopicConfig{})
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(slices.Clone(s.cfg.KafkaOpts), append(partitioner.ClientOpts(view, partitioner.Config{}), kgo.ProducerLinger(0))...)...)
	if err != nil {
		return err
	}
	producer, err := partitioner.NewProducer(client, view, partitioner.ProducerConfig{})
	if err != nil {
		client.Close()
		return err
	}
	s.producers = append(s.producers, &moveProducer{view, producer})
	s.undo = append(s.undo, func(ctx context.Context) error {
		defer client.Close()
		return producer.Close(ctx)
	})
	return nil
}

func (s *moveStage) removeTableTopics(ctx context.Context) error {
	client, err := kgo.NewClient(s.cfg.KafkaOpts...)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kadm.NewClient(client).DeleteTopics(ctx, s.prefix()+"routing", s.prefix()+"sessions", s.prefix()+"history")
	return err
}

// close undoes what was made, the last first, also after ctx has ended.
func (s *moveStage) close(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	for _, undo := range slices.Backward(s.undo) {
		err = errors.Join(err, undo(ctx))
	}
	return err
}

// underLoad plays while all produce and workers handle, and returns when
// everything that was produced is handled, or nothing moves any more.
func (s *moveStage) underLoad(ctx context.Context, play func(context.Context) error) error {
	working, stopWork := context.WithCancel(ctx)
	defer stopWork()
	loading, stopLoad := context.WithCancel(ctx)
	defer stopLoad()
	work, load := errgroup.Group{}, errgroup.Group{}
	for _, view := range s.workers {
		worker, err := s.worker(view)
		if err != nil {
			return err
		}
		work.Go(func() error { return worker.Run(working) })
	}
	for i, p := range s.producers {
		load.Go(func() error { return s.produce(loading, i, p) })
	}
	err := play(ctx)
	stopLoad()
	err = errors.Join(err, load.Wait())
	if err == nil {
		err = s.drained(ctx)
	}
	stopWork()
	return errors.Join(err, work.Wait())
}

func (s *moveStage) worker(view store.Source) (*consumer.Runtime, error) {
	process := strconv.Itoa(rand.Int())
	return consumer.New(consumer.Config{
		Group: s.name, Topics: []string{s.name}, Table: view, KafkaOpts: s.cfg.KafkaOpts,
		OnAssign: func(assigned []consumer.Assigned) {
			for _, a := range assigned {
				s.checker.Assigned(process, check.Assignment{Partition: a.Partition, Number: a.Epoch})
			}
		},
		OnCommit: func(done []consumer.Committed) {
			for _, d := range done {
				s.checker.Committed(process, check.Commit{Partition: d.Partition, Offset: d.Offset})
			}
		},
	}, func(_ context.Context, r *consumer.Record) error {
		if string(r.Value) == probeValue {
			return nil
		}
		v, err := load.Decode(r.Value)
		if err != nil {
			return consumer.Permanent(err)
		}
		s.checker.Handled(check.Handling{
			Process: process, ID: v.ID, Seq: v.Seq, Partition: r.Partition, Offset: r.Offset, Attempt: r.Attempt, Assignment: r.Token.Epoch,
		})
		s.now.Load().handled(v.Tenant, v.Time)
		return nil
	})
}

// produce sends a producer's share of the load until ctx ends.
func (s *moveStage) produce(ctx context.Context, number int, p *moveProducer) error {
	mix, err := load.NewMix(s.cfg.Population, 1<<40, nil, s.cfg.Seed+uint64(number))
	if err != nil {
		return err
	}
	generator := load.Generator{
		Producer: &timely{p.producer, s}, Rate: s.cfg.Rate / float64(s.cfg.Producers), MaxErrors: 1,
		Recorder: &load.Recorder{Topic: s.name, Producer: fmt.Sprint("bench-", number), Size: s.cfg.Size, Table: p.table},
		Acknowledged: func(h check.Handling, _ time.Time) error {
			s.checker.Produced(h.ID, h.Seq)
			return nil
		},
	}
	_, err = generator.Run(ctx, mix)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// timely notes how long each record takes.
type timely struct {
	*partitioner.Producer
	stage *moveStage
}

// Produce is the producer's.
func (t *timely) Produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	due := time.Now()
	t.Producer.Produce(ctx, r, func(r *kgo.Record, err error) {
		t.stage.now.Load().acknowledged(string(r.Key), due)
		promise(r, err)
	})
}

// drained waits until everything is handled; after 30 s without progress the
// rest counts as lost.
func (s *moveStage) drained(ctx context.Context) error {
	last, since := s.checker.Report(), time.Now()
	for {
		now := s.checker.Report()
		if now.Lost == 0 || time.Since(since) > 30*time.Second {
			return nil
		}
		if now.Lost != last.Lost {
			last, since = now, time.Now()
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
