package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/tenantlane/tenantlane/rebalance"
)

// probeEvery is the time between two records of a tenant that moves.
const probeEvery = 2 * time.Millisecond

// probeValue tells such a record from those that are checked.
const probeValue = "probe"

// move moves one tenant and notes its pause.
func (s *moveStage) move(ctx context.Context, tenant string, to int32) error {
	topic, _ := s.producers[0].table.Table().Topic(s.name)
	if topic.Partition([]byte(tenant), nil) == to {
		to = (to + 1) % s.cfg.Partitions
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var watch errgroup.Group
	held := make([]time.Duration, len(s.producers))
	for i, p := range s.producers {
		watch.Go(func() error {
			held[i] = p.held(watching, s.name, tenant)
			return nil
		})
	}
	probe := &probe{stage: s, tenant: tenant}
	watch.Go(func() error { return probe.run(watching) })
	_, err := s.coordinator.Move(ctx, rebalance.LiveMove{Topic: s.name, Tenant: tenant, To: []int32{to}})
	if err == nil {
		err = s.seen(ctx, tenant, to)
	}
	stop()
	err = errors.Join(err, watch.Wait())
	if refused := (*rebalance.RefusedError)(nil); errors.As(err, &refused) {
		s.aborted++
		return nil
	}
	if err != nil {
		return err
	}
	longest := time.Duration(0)
	for _, d := range held {
		longest = max(longest, d)
	}
	s.pauses, s.waits = append(s.pauses, milliseconds(longest)), append(s.waits, milliseconds(probe.longest))
	return nil
}

// seen waits until each producer routes by the new placement.
func (s *moveStage) seen(ctx context.Context, tenant string, to int32) error {
	for _, p := range s.producers {
		for {
			changed := p.table.Changed()
			topic, _ := p.table.Table().Topic(s.name)
			if topic.Partition([]byte(tenant), nil) == to {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// held is how long this producer's table held a tenant back, until ctx ends.
func (p *moveProducer) held(ctx context.Context, topic, tenant string) (d time.Duration) {
	var since time.Time
	for {
		changed := p.table.Changed()
		t, _ := p.table.Table().Topic(topic)
		open := t.OpenMove([]byte(tenant), -1, 0) != nil
		switch {
		case open && since.IsZero():
			since = time.Now()
		case !open && !since.IsZero():
			return time.Since(since)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return d
		}
	}
}

// probe is a tenant's own records while it moves.
type probe struct {
	stage   *moveStage
	tenant  string
	answers sync.WaitGroup

	mu sync.Mutex
	// guards both
	longest time.Duration
	first   error
}

// run produces until ctx ends, and waits for the answers.
func (p *probe) run(ctx context.Context) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		due := time.Now()
		p.answers.Add(1)
		record := &kgo.Record{Topic: p.stage.name, Key: []byte(p.tenant), Value: []byte(probeValue)}
		p.stage.producers[0].producer.Produce(context.WithoutCancel(ctx), record, func(_ *kgo.Record, err error) { p.answered(due, err) })
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.answers.Wait()
			return p.first
		}
	}
}

func (p *probe) answered(due time.Time, err error) {
	defer p.answers.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, time.Since(due))
	if err != nil && p.first == nil {
		p.first = err
	}
}
