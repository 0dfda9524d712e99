package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance"
)

// acts is the story: the background load goes on all the time, the rest comes
// at its moments.
func (p *play) acts(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := p.mark(&p.begun)
	p.tell("%.0f records/s of the population", p.cfg.Rate)

	var running sync.WaitGroup
	act := func(at time.Duration, name string, play func(context.Context) error) {
		running.Go(func() {
			err := until(ctx, begun.Add(at))
			if err == nil {
				err = play(ctx)
			}
			if err != nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	act(0, "background load", p.background)
	act(0, "progress", p.progress)
	act(p.at.join, "worker joins", p.join)
	act(p.at.imports, "import", p.imports)
	if !p.cfg.NoMove {
		act(p.at.move, "move", p.move)
	}
	running.Wait()
	return context.Cause(ctx)
}

// until waits for a moment.
func until(ctx context.Context, moment time.Time) error {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// background produces evenly until the end.
func (p *play) background(ctx context.Context) error {
	mix, err := load.NewMix(p.cfg.Tenants, int64(p.cfg.Rate*p.at.end.Seconds()), nil, 1)
	if err != nil {
		return err
	}
	return p.produce(ctx, backgroundProducer, mix, p.cfg.Rate, nil)
}

// imports produces all of the import as fast as it goes.
func (p *play) imports(ctx context.Context) error {
	begun := p.mark(&p.importBegun)
	p.tell("tenant %q imports %s records; they all go to partition %d, which it shares with %d other tenants",
		p.cast.importer, count(uint64(p.cfg.Import)), p.cast.partition, p.cast.neighbors)
	mix, err := load.NewMix(load.Population{}, 0, []load.Burst{{Tenant: p.cast.importer, Count: p.cfg.Import}}, 2)
	if err != nil {
		return err
	}
	err = p.produce(ctx, importProducer, mix, 0, func(handed int64) {
		if handed > p.cfg.Import/20 { // else the estimate is noise
			// On a slow machine it must not be handled as fast as it is produced.
			p.crew.cost.atLeast(2 * time.Since(begun) / time.Duration(handed))
		}
	})
	p.importTook = time.Since(begun)
	if err == nil {
		p.tell("the import is produced; %s of its records wait in their tenant's lane",
			count(uint64(p.cfg.Import-p.crew.imported.Load())))
	}
	return err
}

func (p *play) produce(ctx context.Context, name string, mix *load.Mix, rate float64, progress func(int64)) error {
	generator := load.Generator{
		Producer: p.producer, Rate: rate, Progress: progress,
		Recorder: &load.Recorder{Topic: p.stage.name, Producer: name, Table: p.table},
		Acknowledged: func(h check.Handling, _ time.Time) error {
			p.crew.checker.Produced(h.ID, h.Seq)
			return nil
		},
	}
	result, err := generator.Run(ctx, mix)
	if err == nil && result.Errors > 0 {
		err = fmt.Errorf("%d records failed, the first: %w", result.Errors, result.First)
	}
	return err
}

// join adds a worker while records flow.
func (p *play) join(ctx context.Context) error {
	p.tell("one more worker joins; it takes partitions over while records flow")
	if err := p.crew.hire(p.cfg.Import); err != nil {
		return err
	}
	if err := p.settled(ctx); err != nil {
		return err
	}
	p.tell("the workers now have %v partitions", p.crew.owned())
	return nil
}

// move gives a whale another partition while its producers and workers go on.
func (p *play) move(ctx context.Context) error {
	coordinator, err := rebalance.NewLiveCoordinator(rebalance.LiveConfig{KafkaOpts: p.stage.opts, Table: p.table, Logger: p.cfg.Logger})
	if err != nil {
		return err
	}
	defer coordinator.Close()
	p.tell("whale %q moves to partition %d while it produces and is handled", p.cast.moving, p.cast.spare)
	p.crew.moving.Store(true)
	done, err := coordinator.Move(ctx, rebalance.LiveMove{
		Topic: p.stage.name, Tenant: p.cast.moving, To: []int32{p.cast.spare}, By: store.Author{Actor: "demo"},
	})
	if err != nil {
		return err
	}
	pause := Figure(done.Pause.Seconds() * 1000)
	p.moves = append(p.moves, Move{Tenant: done.Tenant, From: done.From, To: done.To, Mode: done.Mode, PauseMs: pause})
	p.tell("the move is done: the whale's new records waited %s ms; workers take them once the old partition's are committed", pause)
	return nil
}

// progress says how far things are, every two seconds.
func (p *play) progress(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for p.since(&p.begun) < p.at.end {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := p.crew.err(); err != nil {
			return fmt.Errorf("a worker ended: %w", err)
		}
		p.tell("%s records handled", count(uint64(p.crew.handled.Load())))
	}
	return nil
}
