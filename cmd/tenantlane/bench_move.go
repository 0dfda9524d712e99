package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/bench"
)

type benchMoveAnswer struct {
	Broker string `json:"broker"`
	bench.MoveReport
}

func newBenchMoveCommand(e *env) *cobra.Command {
	var f benchFlags
	var cfg bench.MoveConfig
	var seconds float64
	cmd := &cobra.Command{
		Use:   "move",
		Short: "How long a live move holds its tenant back, and what others see of it",
		Long: "Moves tenants of a population that produces and is handled meanwhile, each to another partition, and times\n" +
			"how long producers held the tenant's records back. Beside it the other tenants' records are timed, from when\n" +
			"they were due to acknowledged and to handled, in phases with and without moves that take turns.",
		Example: "  tenantlane bench move\n" +
			"  KAFKA_BROKERS=localhost:9092 tenantlane bench move --rate 20000 --moves 10 --seconds 10",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.benchMove(cmd.Context(), &f, cfg, seconds) },
	}
	flags := cmd.Flags()
	flags.Float64Var(&cfg.Rate, "rate", 5000, "all tenants' records a second")
	flags.IntVar(&cfg.Size, "size", 200, "bytes of their values")
	flags.Float64Var(&cfg.Moves, "moves", 1, "moves a second, one after the other; 1 is the pace of move run")
	flags.Float64Var(&seconds, "seconds", 10, "seconds of each phase")
	flags.Int32Var(&cfg.Partitions, "partitions", 32, "partitions of the topic")
	flags.Int16Var(&cfg.Replicas, "replicas", 1, "replicas of the topic and of the table's")
	flags.IntVar(&cfg.Producers, "producers", 2, "producers, each with its own view of the table")
	flags.IntVar(&cfg.Workers, "workers", 2, "workers, each with its own view of the table")
	flags.IntVar(&cfg.Runs, "runs", 5, "pairs of phases; medians count")
	above0(flags, "rate", "moves", "seconds")
	atLeast(flags, 1, "size", "replicas", "producers", "workers", "runs")
	atLeast(flags, 2, "partitions")
	f.kafka.register(flags)
	f.registerTenants(flags, "")
	f.register(flags)
	return cmd
}

func (e *env) benchMove(ctx context.Context, f *benchFlags, cfg bench.MoveConfig, seconds float64) (err error) {
	if cfg.Population, err = f.population(); err != nil {
		return err
	}
	cfg.Phase, cfg.Seed = inSeconds(seconds), f.seed
	return e.measured(ctx, f, func(broker string, opts []kgo.Opt, told bench.Progress) error {
		cfg.KafkaOpts, cfg.Progress = opts, told
		report, err := bench.Move(ctx, cfg)
		if err != nil {
			return err
		}
		if err := e.printBench(f, benchMoveAnswer{broker, report}, moveReportText(cfg, report)); err != nil {
			return err
		}
		return movesVerdict(report)
	})
}

// movesVerdict is the answer "no" when moves broke what they promise.
func movesVerdict(r bench.MoveReport) error {
	if r.Lost+r.OrderViolations == 0 {
		return nil
	}
	return answerNo("the promise was broken: %d records lost, %d out of order", r.Lost, r.OrderViolations)
}

func moveReportText(cfg bench.MoveConfig, r bench.MoveReport) string {
	return fmt.Sprintf("%d moves at %g records/s, %d refused or aborted; %d records, %d lost, %d out of order\n\n"+
		"%-44s %10s %10s\n"+
		"%-44s %7.1f ms %7.1f ms\n"+
		"%-44s %7.1f ms %7.1f ms\n\n"+
		"%-44s %10s %10s %10s\n"+
		"%-44s %7.1f ms %7.1f ms %10.2f\n"+
		"%-44s %7.1f ms %7.1f ms %10.2f\n",
		r.Moves, cfg.Rate, r.Aborted, r.Produced, r.Lost, r.OrderViolations,
		"the tenant that moves", "p50", "p99",
		"held back by its producers", r.PauseP50, r.PauseP99,
		"its record's wait, due to acknowledged", r.WaitP50, r.WaitP99,
		fmt.Sprintf("other tenants' p99, median of %d runs", cfg.Runs), "without", "with moves", "ratio",
		"due to acknowledged", r.ProduceP99Without, r.ProduceP99With, r.ProduceRatio,
		"due to handled", r.HandleP99Without, r.HandleP99With, r.HandleRatio)
}
