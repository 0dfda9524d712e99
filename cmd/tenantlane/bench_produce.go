package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/bench"
)

type benchProduceAnswer struct {
	Broker string `json:"broker"`
	bench.ProduceReport
}

func newBenchProduceCommand(e *env) *cobra.Command {
	var f benchFlags
	var cfg bench.ProduceConfig
	cmd := &cobra.Command{
		Use:   "produce",
		Short: "What the Producer costs, beside the bare client",
		Long: "Produces the same records by the bare client, by the bare client with two headers of the size that\n" +
			"the Producer stamps, and by the Producer, in turns.",
		Example: "  tenantlane bench produce\n" +
			"  KAFKA_BROKERS=localhost:9092 tenantlane bench produce --records 1000000 --size 1000 --format json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.benchProduce(cmd.Context(), &f, cfg) },
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Records, "records", 200_000, "records of each turn")
	flags.IntVar(&cfg.Size, "size", 100, "bytes of a record's value")
	flags.Int32Var(&cfg.Partitions, "partitions", 32, "partitions of the topic")
	flags.IntVar(&cfg.Goroutines, "goroutines", 4, "goroutines that produce")
	flags.IntVar(&cfg.Runs, "runs", 5, "runs whose median counts")
	atLeast(flags, 1, "records", "size", "partitions", "goroutines", "runs")
	f.kafka.register(flags)
	f.registerTenants(flags, bench.KeysPowerLaw)
	f.register(flags)
	return cmd
}

func (e *env) benchProduce(ctx context.Context, f *benchFlags, cfg bench.ProduceConfig) (err error) {
	if cfg.Population, err = f.population(); err != nil {
		return err
	}
	cfg.Keys, cfg.Seed = f.keys, f.seed
	return e.measured(ctx, f, func(broker string, opts []kgo.Opt, told bench.Progress) error {
		cfg.KafkaOpts, cfg.Progress = opts, told
		report, err := bench.Produce(ctx, cfg)
		if err != nil {
			return err
		}
		return e.printBench(f, benchProduceAnswer{broker, report}, produceReportText(cfg, report))
	})
}

func produceReportText(cfg bench.ProduceConfig, r bench.ProduceReport) string {
	return fmt.Sprintf("%d records of %d bytes a turn, %s keys, median of %d runs\n\n"+
		"%-22s %12s %10s %10s\n"+
		"%-22s %12.0f %7.1f ms %7.1f ms\n"+
		"%-22s %12.0f\n"+
		"%-22s %12.0f %7.1f ms %7.1f ms\n\n"+
		"ratio %.2f of the bare client's records/s; processor time %.2f times its, %.2f times that with headers (%.2f µs a record)\n",
		r.Records, r.Size, r.Keys, cfg.Runs,
		"", "records/s", "p50", "p99",
		"bare client", r.BarePerSecond, r.BareP50, r.BareP99,
		"bare, two headers", r.BareHeadersPerSecond,
		"tenantlane", r.PerSecond, r.P50, r.P99,
		r.Ratio, r.CPURatio, r.CPURatioHeaders, r.CPUMicros)
}
