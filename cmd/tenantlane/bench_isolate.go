package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/bench"
)

type benchIsolateAnswer struct {
	Broker string `json:"broker"`
	bench.IsolationReport
}

func newBenchIsolateCommand(e *env) *cobra.Command {
	var f benchFlags
	var cfg bench.IsolationConfig
	var seconds float64
	cmd := &cobra.Command{
		Use:   "isolate",
		Short: "What one tenant's flood does to the others in the same Producer",
		Long: "Times quiet tenants' records from when they were due to their acknowledgment, alone and while another\n" +
			"tenant produces through the same Producer as fast as it can, in turns.",
		Example: "  tenantlane bench isolate\n" +
			"  KAFKA_BROKERS=localhost:9092 tenantlane bench isolate --rate 5000 --seconds 10",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.benchIsolate(cmd.Context(), &f, cfg, seconds) },
	}
	flags := cmd.Flags()
	flags.Float64Var(&cfg.Rate, "rate", 1000, "the quiet tenants' records a second")
	flags.IntVar(&cfg.Size, "size", 100, "bytes of their values")
	flags.IntVar(&cfg.FloodSize, "flood-size", 1000, "bytes of the flood's values")
	flags.IntVar(&cfg.Flooders, "flooders", 4, "goroutines that flood")
	flags.Float64Var(&seconds, "seconds", 5, "seconds of each phase")
	flags.Int32Var(&cfg.Partitions, "partitions", 32, "partitions of the topic")
	flags.Int16Var(&cfg.Replicas, "replicas", 1, "replicas of the topic")
	flags.IntVar(&cfg.Runs, "runs", 3, "runs whose median counts")
	above0(flags, "rate", "seconds")
	atLeast(flags, 1, "size", "flood-size", "flooders", "replicas", "runs")
	atLeast(flags, 2, "partitions")
	f.kafka.register(flags)
	f.registerTenants(flags, "")
	f.register(flags)
	return cmd
}

func (e *env) benchIsolate(ctx context.Context, f *benchFlags, cfg bench.IsolationConfig, seconds float64) (err error) {
	if cfg.Population, err = f.population(); err != nil {
		return err
	}
	cfg.Phase, cfg.Seed = inSeconds(seconds), f.seed
	return e.measured(ctx, f, func(broker string, opts []kgo.Opt, told bench.Progress) error {
		cfg.KafkaOpts, cfg.Progress = opts, told
		report, err := bench.Isolation(ctx, cfg)
		if err != nil {
			return err
		}
		return e.printBench(f, benchIsolateAnswer{broker, report}, isolateReportText(cfg, report))
	})
}

func isolateReportText(cfg bench.IsolationConfig, r bench.IsolationReport) string {
	return fmt.Sprintf("quiet tenants at %g records/s, a flood of %.0f records/s of %d bytes, median of %d runs\n\n"+
		"%-36s %10s %10s\n"+
		"%-36s %7.1f ms %7.1f ms\n"+
		"%-36s %7.1f ms %7.1f ms\n"+
		"%-36s %10s %7.1f ms\n\n"+
		"ratio of p99 %.2f\n",
		r.Rate, r.FloodPerSecond, cfg.FloodSize, cfg.Runs,
		"due to acknowledged", "p50", "p99",
		"alone", r.AloneP50, r.AloneP99,
		"beside the flood", r.FloodP50, r.FloodP99,
		"beside it, in the flood's partition", "", r.FloodSameP99,
		r.FloodRatio)
}
