package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/load"
)

// MoveConfig says how to measure what live moves cost the tenants that move and
// all others.
type MoveConfig struct {
	// KafkaOpts reach the cluster.
	KafkaOpts []kgo.Opt
	// Population draws the tenants that produce; the tenants that move are drawn
	// from it evenly.
	Population load.Population
	// Rate is all tenants' records a second; 5,000 by default.
	Rate float64
	// Size of their values in bytes; 200 by default.
	Size int
	// Moves a second while moves go on; 1 by default.
	Moves float64
	// Phase is how long each phase lasts; 10 s by default.
	Phase time.Duration
	// Partitions of the topic, 32 by default, and its replicas; 1 by default.
	Partitions int32
	Replicas   int16
	// Producers and Workers are how many clients there are, each with a view of
	// the table of its own; 2 by default.
	Producers, Workers int
	// Runs of a phase without moves and one with; 5 by default.
	Runs int
	// Seed of the draw.
	Seed uint64
	// Progress is told of each run that is done.
	Progress Progress
}

func (c MoveConfig) withDefaults() MoveConfig {
	c.Rate, c.Size, c.Moves = cmp.Or(c.Rate, 5000), cmp.Or(c.Size, 200), cmp.Or(c.Moves, 1)
	c.Phase, c.Partitions, c.Replicas = cmp.Or(c.Phase, 10*time.Second), cmp.Or(c.Partitions, 32), cmp.Or(c.Replicas, 1)
	c.Producers, c.Workers, c.Runs = cmp.Or(c.Producers, 2), cmp.Or(c.Workers, 2), cmp.Or(c.Runs, 5)
	return c
}

func (c MoveConfig) validate() error {
	switch {
	case len(c.Population.Tenants) == 0:
		return errors.New("Population is empty")
	case c.Rate <= 0 || c.Moves <= 0 || c.Phase <= 0:
		return errors.New("Rate, Moves and Phase must be above 0")
	case c.Size < 0 || c.Producers < 1 || c.Workers < 1 || c.Runs < 1 || c.Partitions < 2:
		return errors.New("Producers, Workers and Runs must be at least 1, Partitions at least 2, Size at least 0")
	}
	return nil
}

// MoveReport has the moving tenants' pauses: for how long the producer that was
// slowest to see it held their new records back. Wait is from when such a record
// was due, while its tenant moved, to its promise: the pause and the produce.
// The other tenants' times are medians over the runs of each phase's 99th
// percentile: Produce from due to acknowledged, Handle from due to handled.
type MoveReport struct {
	Moves           int     `json:"moves"`
	Aborted         int     `json:"aborted"`
	PauseP50        float64 `json:"pause_p50_ms"`
	PauseP99        float64 `json:"pause_p99_ms"`
	WaitP50         float64 `json:"wait_p50_ms"`
	WaitP99         float64 `json:"wait_p99_ms"`
	OrderViolations uint64  `json:"order_violations"`
	Lost            uint64  `json:"lost"`
	Produced        uint64  `json:"produced"`

	ProduceP99Without float64 `json:"produce_p99_ms_without"`
	ProduceP99With    float64 `json:"produce_p99_ms_with"`
	ProduceRatio      float64 `json:"produce_ratio"`
	HandleP99Without  float64 `json:"handle_p99_ms_without"`
	HandleP99With     float64 `json:"handle_p99_ms_with"`
	HandleRatio       float64 `json:"handle_ratio"`
}

// Move makes a topic with a table of its own, measures phases without and with
// moves in turns under one load, checks that nothing was lost or handled out of
// order, and deletes what it made.
func Move(ctx context.Context, cfg MoveConfig) (report MoveReport, err error) {
	cfg = cfg.withDefaults()
	if err = cfg.validate(); err != nil {
		return report, fmt.Errorf("bench move: %w", err)
	}
	stage, err := newMoveStage(ctx, cfg)
	if err == nil {
		err = stage.run(ctx)
		err = errors.Join(err, stage.close(ctx))
	}
	if err != nil {
		return report, fmt.Errorf("bench move: %w", err)
	}
	return stage.report(), nil
}

// run lets the load go on while phases alternate.
func (s *moveStage) run(ctx context.Context) error {
	return s.underLoad(ctx, func(ctx context.Context) error {
		if err := s.phase(ctx, nil); err != nil { // warm up
			return err
		}
		for run := range s.cfg.Runs {
			without, with := newMovePhase(), newMovePhase()
			if err := s.phase(ctx, without); err != nil {
				return err
			}
			if err := s.phaseWithMoves(ctx, with); err != nil {
				return err
			}
			s.without, s.with = append(s.without, without), append(s.with, with)
			s.cfg.Progress.tell(run+1, s.cfg.Runs)
		}
		return nil
	})
}

// phase lets a phase's time pass; nil is not counted.
func (s *moveStage) phase(ctx context.Context, p *movePhase) error {
	s.now.Store(p)
	defer s.now.Store(nil)
	return pause(ctx, s.cfg.Phase)
}

// phaseWithMoves moves tenants at an even pace, or as fast as moves go if they
// take longer.
func (s *moveStage) phaseWithMoves(ctx context.Context, p *movePhase) error {
	s.now.Store(p)
	defer s.now.Store(nil)
	begun := time.Now()
	for i := 0; time.Since(begun) < s.cfg.Phase; i++ {
		due := begun.Add(time.Duration(float64(i) / s.cfg.Moves * float64(time.Second)))
		if err := pause(ctx, time.Until(due)); err != nil {
			return err
		}
		tenant := s.cfg.Population.Tenants[s.rng.IntN(len(s.cfg.Population.Tenants))].Tenant
		p.moves(tenant)
		if err := s.move(ctx, tenant, int32(s.rng.IntN(int(s.cfg.Partitions)))); err != nil {
			return err
		}
	}
	return nil
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *moveStage) report() MoveReport {
	checked := s.checker.Report()
	r := MoveReport{
		Moves: len(s.pauses), Aborted: s.aborted,
		OrderViolations: checked.OrderViolations, Lost: checked.Lost, Produced: checked.Produced,
	}
	if len(s.pauses) > 0 {
		r.PauseP50, r.PauseP99 = percentile(s.pauses, 50), percentile(s.pauses, 99)
		r.WaitP50, r.WaitP99 = percentile(s.waits, 50), percentile(s.waits, 99)
	}
	p99 := func(phases []*movePhase, of func(*movePhase) []float64) float64 {
		var each []float64
		for _, p := range phases {
			if times := of(p); len(times) > 0 {
				each = append(each, percentile(times, 99))
			}
		}
		return medianOrZero(each)
	}
	r.ProduceP99Without, r.ProduceP99With = p99(s.without, (*movePhase).produceTimes), p99(s.with, (*movePhase).produceTimes)
	r.HandleP99Without, r.HandleP99With = p99(s.without, (*movePhase).handleTimes), p99(s.with, (*movePhase).handleTimes)
	r.ProduceRatio, r.HandleRatio = r.ProduceP99With/r.ProduceP99Without, r.HandleP99With/r.HandleP99Without
	return r
}

func newMoveRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x6d6f7665)) }
