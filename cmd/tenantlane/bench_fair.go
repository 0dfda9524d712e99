package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/bench"
)

type benchFairAnswer struct {
	Broker string `json:"broker"`
	bench.FairReport
}

func newBenchFairCommand(e *env) *cobra.Command {
	var f benchFlags
	var cfg bench.FairConfig
	cmd := &cobra.Command{
		Use:   "fair",
		Short: "What a whale's backlog does to quiet tenants, also in its own partition",
		Long: "Times quiet tenants' records from their append to the end of their handling, in turns: without a\n" +
			"whale, and while a whale's backlog lies in one of the partitions. A quarter of the quiet tenants'\n" +
			"records share that partition. Then the whale alone, to see what neighbors cost it.",
		Example: "  tenantlane bench fair\n" +
			"  KAFKA_BROKERS=localhost:9092 tenantlane bench fair --records 500000 --rate 2000 --handler-sleep 5ms --format json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.benchFair(cmd.Context(), &f, cfg) },
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Records, "records", 200_000, "records of the whale")
	flags.Float64Var(&cfg.Rate, "rate", 1000, "the quiet tenants' records a second")
	flags.IntVar(&cfg.Size, "size", 100, "bytes of a record's value, at least 8")
	flags.Int32Var(&cfg.Partitions, "partitions", 32, "partitions of the topic")
	flags.DurationVar(&cfg.HandlerSleep, "handler-sleep", time.Millisecond, "what each handling takes")
	flags.IntVar(&cfg.Concurrency, "concurrency", 100, "handlers at once")
	flags.Float64Var(&cfg.Seconds, "seconds", 5, "longest part of each phase that counts")
	flags.IntVar(&cfg.Runs, "runs", 3, "runs whose median counts")
	above0(flags, "seconds", "rate", "handler-sleep")
	atLeast(flags, 1, "records", "concurrency", "runs")
	atLeast(flags, 2, "partitions")
	atLeast(flags, 8, "size")
	f.kafka.register(flags)
	f.registerTenants(flags, bench.KeysUniform)
	f.register(flags)
	return cmd
}

func (e *env) benchFair(ctx context.Context, f *benchFlags, cfg bench.FairConfig) (err error) {
	if cfg.Population, err = f.population(); err != nil {
		return err
	}
	cfg.Keys, cfg.Seed = f.keys, f.seed
	return e.measured(ctx, f, func(broker string, opts []kgo.Opt, told bench.Progress) error {
		cfg.KafkaOpts, cfg.Progress = opts, told
		report, err := bench.Fair(ctx, cfg)
		if err != nil {
			return err
		}
		return e.printBench(f, benchFairAnswer{broker, report}, fairReportText(cfg, report))
	})
}

func fairReportText(cfg bench.FairConfig, r bench.FairReport) string {
	return fmt.Sprintf("quiet tenants at %g records/s, %s keys; a whale of %d records; handler takes %v, %d at once; median of %d runs\n\n"+
		"%-28s %10s %10s %10s %10s %8s\n"+
		"%-28s %7.1f ms %7.1f ms %7.1f ms %7.1f ms %8.2f\n"+
		"%-28s %7.1f ms %7.1f ms %7.1f ms %7.1f ms %8.2f\n\n"+
		"while the whale produced (%.1f s): p99 %.1f ms, in its partition %.1f ms\n"+
		"the whale takes %.0f s alone, %.0f s with neighbors: %.2f times\n",
		r.Rate, r.Keys, r.Records, cfg.HandlerSleep, r.Concurrency, cfg.Runs,
		"append to handled", "alone p50", "p99", "whale p50", "p99", "p99 ratio",
		"all quiet tenants", r.AloneP50, r.AloneP99, r.WhaleP50, r.WhaleP99, r.Ratio,
		"in the whale's partition", r.Same.AloneP50, r.Same.AloneP99, r.Same.WhaleP50, r.Same.WhaleP99, r.Same.Ratio,
		r.Import.Seconds, r.Import.P99, r.Import.SameP99,
		r.WhaleSecondsAlone, r.WhaleSecondsBeside, r.WhaleTotalRatio)
}
