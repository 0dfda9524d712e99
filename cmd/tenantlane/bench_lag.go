package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/bench"
)

type benchLagAnswer struct {
	Broker string `json:"broker"`
	bench.LagReport
}

func newBenchLagCommand(e *env) *cobra.Command {
	var f benchFlags
	var cfg bench.LagConfig
	cmd := &cobra.Command{
		Use:   "lag",
		Short: "What a round of lagwatch costs it and the cluster",
		Long: "Makes a topic and groups that commit every partition of it, and measures rounds of lagwatch: time,\n" +
			"processor time, requests and bytes.",
		Example: "  tenantlane bench lag\n" +
			"  KAFKA_BROKERS=localhost:9092 tenantlane bench lag --groups 500 --partitions 100",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.benchLag(cmd.Context(), &f, cfg) },
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Groups, "groups", 200, "groups to watch")
	flags.Int32Var(&cfg.Partitions, "partitions", 320, "partitions of the topic that they all read")
	flags.IntVar(&cfg.Rounds, "rounds", 11, "rounds whose median counts")
	flags.Int16Var(&cfg.Replicas, "replicas", -1, "replicas of the topic; -1: the cluster's default")
	atLeast(flags, 1, "groups", "partitions", "rounds")
	atLeast(flags, -1, "replicas")
	f.kafka.register(flags)
	f.register(flags)
	return cmd
}

func (e *env) benchLag(ctx context.Context, f *benchFlags, cfg bench.LagConfig) error {
	if cfg.Replicas == 0 {
		return usagef("--replicas: %d, want at least 1, or -1", cfg.Replicas)
	}
	return e.measured(ctx, f, func(broker string, opts []kgo.Opt, told bench.Progress) error {
		cfg.KafkaOpts, cfg.Progress = opts, told
		report, err := bench.Lag(ctx, cfg)
		if err != nil {
			return err
		}
		return e.printBench(f, benchLagAnswer{broker, report}, lagReportText(report))
	})
}

func lagReportText(r bench.LagReport) string {
	text := fmt.Sprintf("%d groups on %d partitions, %d series; medians of a round\n\n"+
		"ask the cluster %.0f ms, decide %.0f ms, processor time %.3f s\n"+
		"%d requests, %.2f MiB read, live heap %.0f MiB\n",
		r.Groups, r.Partitions, r.Series, r.SampleMillis, r.DecideMillis, r.CPUSeconds,
		r.Requests, float64(r.Bytes)/mebibyte, float64(r.HeapBytes)/mebibyte)
	if r.Unknown > 0 {
		text += fmt.Sprintf("%d partitions were not seen: the figures are of a cluster half seen\n", r.Unknown)
	}
	return text
}
