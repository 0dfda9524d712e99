package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// fairLoad is who produces in a phase.
type fairLoad struct{ quiet, whale bool }

// fairPhase is one phase: a topic, a worker, and who produces. Its times are
// since it was made.
//
//	begun ──▶ worker has partitions ──warm-up──▶ burst ──▶ counting ──▶ end ──▶ all quiet records handled
type fairPhase struct {
	cfg          FairConfig
	whale        string
	load         fairLoad
	same, others *load.Sampler
	topic        string
	src          store.Source
	begun        time.Time

	assigned atomic.Int32
	ready    chan struct{} // closed when the worker has all partitions
	whaled   atomic.Int64  // records of the whale that are handled
	drained  chan struct{} // closed when all are
	quiet    quietLog

	burst, counting, end time.Duration // the whale's first Produce, its last promise, the end of the phase
	whaledAtEnd          int64
}

func newFairPhase(b *fairness, l fairLoad, seed uint64) *fairPhase {
	return &fairPhase{
		cfg: b.cfg, whale: b.whale, load: l, begun: time.Now(),
		same: load.NewSampler(b.same, seed), others: load.NewSampler(b.others, seed),
		topic: "tenantlane-bench-" + strconv.FormatUint(rand.Uint64(), 36),
		ready: make(chan struct{}), drained: make(chan struct{}), quiet: quietLog{settled: make(chan struct{}, 1)},
	}
}

func (p *fairPhase) now() time.Duration { return time.Since(p.begun) }

// run makes the topic, measures, and deletes it.
func (p *fairPhase) run(ctx context.Context) (err error) {
	remove, err := makeTopic(ctx, ProduceConfig{KafkaOpts: p.cfg.KafkaOpts, Partitions: p.cfg.Partitions}, -1, p.topic)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	table, err := plainTable(p.topic, p.cfg.Partitions)
	if err != nil {
		return err
	}
	p.src = store.Fixed(table)
	worker, err := consumer.New(consumer.Config{
		Group: p.topic, Topics: []string{p.topic}, Table: p.src, Concurrency: p.cfg.Concurrency,
		KafkaOpts: p.cfg.KafkaOpts, OnAssign: p.onAssign, DrainTimeout: -1,
	}, p.handle)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, gctx := errgroup.WithContext(running)
	g.Go(func() error { return worker.Run(gctx) })
	g.Go(func() error {
		defer worker.StopNow()
		defer stop()
		return p.measure(gctx)
	})
	if err := g.Wait(); err != nil && !(errors.Is(err, context.Canceled) && ctx.Err() == nil) {
		return err
	}
	return ctx.Err()
}

func (p *fairPhase) onAssign(assigned []consumer.Assigned) {
	if n := int32(len(assigned)); n > 0 && p.assigned.Add(n) == p.cfg.Partitions {
		close(p.ready)
	}
}

func (p *fairPhase) handle(_ context.Context, r *consumer.Record) error {
	time.Sleep(p.cfg.HandlerSleep)
	if string(r.Tenant) != p.whale {
		p.quiet.handled(binary.LittleEndian.Uint64(r.Value), p.now())
		return nil
	}
	if p.whaled.Add(1) == int64(p.cfg.Records) {
		close(p.drained)
	}
	return nil
}

// measure produces and waits, while the worker runs.
func (p *fairPhase) measure(ctx context.Context) error {
	if err := wait(ctx, time.Minute, p.ready); err != nil {
		return err
	}
	client, err := p.client()
	if err != nil {
		return err
	}
	defer client.Close()
	stop := make(chan struct{})
	var pacer sync.WaitGroup
	if p.load.quiet {
		pacer.Go(func() { p.pace(ctx, client, stop) })
	}
	err = p.phase(ctx)
	close(stop)
	pacer.Wait()
	if err != nil {
		return err
	}
	return p.quiet.settle(ctx)
}

// phase is warm-up, the whale's burst, and the time that counts.
func (p *fairPhase) phase(ctx context.Context) error {
	length := time.Duration(p.cfg.Seconds * float64(time.Second))
	if err := wait(ctx, min(time.Second, length/2), nil); err != nil {
		return err
	}
	p.burst = p.now()
	if p.load.whale {
		if err := p.produceWhale(ctx); err != nil {
			return err
		}
	}
	p.counting = p.now()
	err := wait(ctx, length, p.drained)
	p.end, p.whaledAtEnd = p.now(), p.whaled.Load()
	return err
}

// wait for the time or the event, whatever comes first.
func wait(ctx context.Context, d time.Duration, event <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// client sends at once: a linger would be part of what is measured.
func (p *fairPhase) client() (*kgo.Client, error) {
	opts := append(slices.Clone(p.cfg.KafkaOpts), partitioner.ClientOpts(p.src, partitioner.Config{})...)
	return kgo.NewClient(append(opts, kgo.ProducerLinger(0))...)
}

// produceWhale is the import: all records at once, by a client of its own.
func (p *fairPhase) produceWhale(ctx context.Context) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	defer client.Close()
	key, value := []byte(p.whale), make([]byte, p.cfg.Size)
	var failed answers
	for range p.cfg.Records {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		client.Produce(ctx, &kgo.Record{Topic: p.topic, Key: key, Value: value}, failed.note)
	}
	return errors.Join(client.Flush(ctx), failed.failed())
}

// pace produces the quiet tenants' records at an even rate until stop. A call
// that is late is counted from when it was due.
func (p *fairPhase) pace(ctx context.Context, client *kgo.Client, stop <-chan struct{}) {
	begun := p.now()
	tick := time.NewTimer(0)
	defer tick.Stop()
	for i := uint64(0); ; i++ {
		due := begun + time.Duration(float64(i)/p.cfg.Rate*float64(time.Second))
		tick.Reset(due - p.now())
		select {
		case <-tick.C:
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
		const neighbors = 4 // one of so many
		tenants, same := p.others, i%neighbors == 0
		if same {
			tenants = p.same
		}
		value := make([]byte, p.cfg.Size)
		binary.LittleEndian.PutUint64(value, i)
		p.quiet.sent(due, same)
		client.Produce(ctx, &kgo.Record{Topic: p.topic, Key: []byte(tenants.Next()), Value: value}, p.quiet.promised)
	}
}

// whaleSeconds is the whale's whole time, by its pace until the end.
func (p *fairPhase) whaleSeconds() float64 {
	return (p.end - p.burst).Seconds() * float64(p.cfg.Records) / float64(max(p.whaledAtEnd, 1))
}

// quietLog has a line for each record of the quiet tenants, by its index.
type quietLog struct {
	mu sync.Mutex
	// guards all below
	lines   []quietLine
	open    int // not handled
	first   error
	settled chan struct{} // of one; has an element when open became 0
}

type quietLine struct {
	sent, took time.Duration // took is 0 until it is handled
	same       bool
}

func (q *quietLog) sent(at time.Duration, same bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(q.lines, quietLine{sent: at, same: same})
	q.open++
}

func (q *quietLog) promised(_ *kgo.Record, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil && q.first == nil {
		q.first = err
	}
}

// handled takes the first handling of a record.
func (q *quietLog) handled(index uint64, at time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if line := &q.lines[index]; line.took == 0 {
		line.took = at - line.sent
		q.close()
	}
}

// close counts one record less. The lock is held.
func (q *quietLog) close() {
	if q.open--; q.open == 0 {
		select {
		case q.settled <- struct{}{}:
		default:
		}
	}
}

// settleTimeout is how long a record may be late without being counted as lost.
const settleTimeout = 30 * time.Second

// settle waits until all records are handled.
func (q *quietLog) settle(ctx context.Context) error {
	late := time.NewTimer(settleTimeout)
	defer late.Stop()
	for {
		q.mu.Lock()
		open, err := q.open, q.first
		q.mu.Unlock()
		if open == 0 || err != nil {
			return err
		}
		select {
		case <-q.settled: // perhaps of an earlier time
		case <-late.C:
			return fmt.Errorf("%d records of quiet tenants were not handled within %v", open, settleTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// between gives the latencies of what was due in [from, to).
func (q *quietLog) between(from, to time.Duration) (l latencies) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, line := range q.lines {
		if line.sent >= from && line.sent < to {
			l.add(line.took, line.same)
		}
	}
	return l
}
