package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/bench"
)

type benchConsumeAnswer struct {
	Broker string `json:"broker"`
	bench.ConsumeReport
}

func newBenchConsumeCommand(e *env) *cobra.Command {
	var f benchFlags
	var cfg bench.ConsumeConfig
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "What the worker reaches, beside a bare poll loop or beside goroutines that only sleep",
		Long: "Consumes one backlog in turns. A handler that does nothing is compared with a bare poll loop; one\n" +
			"that sleeps with as many goroutines that do nothing but sleep, and with what these would reach on the\n" +
			"backlog's tenants if each had an equal share of them and none more than one (ideal).",
		Example: "  tenantlane bench consume\n" +
			"  KAFKA_BROKERS=localhost:9092 tenantlane bench consume --records 3000000 --handler-sleep 1ms --seconds 10\n" +
			"  tenantlane bench consume --keys uniform --handler-sleep 10ms --records 200000",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.benchConsume(cmd.Context(), &f, cfg) },
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Records, "records", 1_000_000, "records of the backlog")
	flags.IntVar(&cfg.Size, "size", 100, "bytes of a record's value")
	flags.Int32Var(&cfg.Partitions, "partitions", 32, "partitions of the topic")
	flags.DurationVar(&cfg.HandlerSleep, "handler-sleep", 0, "what each handling takes")
	flags.IntVar(&cfg.Concurrency, "concurrency", 100, "handlers at once")
	flags.Float64Var(&cfg.Seconds, "seconds", 10, "longest turn with a handler that sleeps")
	flags.IntVar(&cfg.Runs, "runs", 5, "runs whose median counts")
	above0(flags, "seconds")
	atLeast(flags, 1, "records", "size", "partitions", "concurrency", "runs")
	atLeast(flags, 0, "handler-sleep")
	f.kafka.register(flags)
	f.registerTenants(flags, bench.KeysPowerLaw)
	f.register(flags)
	return cmd
}

func (e *env) benchConsume(ctx context.Context, f *benchFlags, cfg bench.ConsumeConfig) (err error) {
	if cfg.Population, err = f.population(); err != nil {
		return err
	}
	cfg.Keys, cfg.Seed = f.keys, f.seed
	return e.measured(ctx, f, func(broker string, opts []kgo.Opt, told bench.Progress) error {
		cfg.KafkaOpts, cfg.Progress = opts, told
		report, err := bench.Consume(ctx, cfg)
		if err != nil {
			return err
		}
		return e.printBench(f, benchConsumeAnswer{broker, report}, consumeReportText(cfg, report))
	})
}

func consumeReportText(cfg bench.ConsumeConfig, r bench.ConsumeReport) string {
	handler, beside := "handler does nothing", "bare poll loop"
	if cfg.HandlerSleep > 0 {
		handler, beside = fmt.Sprintf("handler takes %v", cfg.HandlerSleep), "sleeping goroutines"
	}
	text := fmt.Sprintf("%d records of %d bytes, %s keys, %s, %d at once, median of %d runs\n\n"+
		"%-22s %12s %16s %16s\n"+
		"%-22s %12.0f %13.3f µs %16.3f\n"+
		"%-22s %12.0f %13.3f µs %16.3f\n"+
		"%-22s %12.2f %16.2f\n",
		r.Records, cfg.Size, r.Keys, handler, r.Concurrency, cfg.Runs,
		"", "records/s", "processor/record", "allocs/record",
		beside, r.BarePerSecond, r.CPUMicros/r.CPURatio, r.AllocsBare,
		"tenantlane", r.PerSecond, r.CPUMicros, r.AllocsPerRec,
		"ratio", r.Ratio, r.CPURatio)
	if cfg.HandlerSleep > 0 {
		text += fmt.Sprintf("%-22s %12.0f\n%-22s %12.2f\n", "ideal fair share", r.IdealPerSecond, "of the ideal", r.IdealRatio)
	}
	return text + fmt.Sprintf("\nread again %.1f MiB, largest heap %.0f MiB\n", float64(r.RereadBytes)/mebibyte, float64(r.PeakHeapBytes)/mebibyte)
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
