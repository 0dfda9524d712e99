package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/internal/demo"
)

type demoFlags struct {
	kafka   kafkaFlags
	output  outputFlags
	logs    logFlags
	tenants string
	move    bool
	live    bool
	cfg     demo.Config
}

func newDemoCommand(e *env) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See the whole system work, in half a minute",
		Long: "Produces a power law of tenants through the partitioner, lets an ordinary tenant import 200,000\n" +
			"records in the middle, handles everything in order while a worker joins and a whale is moved, and\n" +
			"has lagwatch page a local webhook. Then it reports. Without brokers it runs on the embedded one;\n" +
			"on a real cluster it makes topics and a group of its own and removes them at the end.",
		Example: "  tenantlane demo\n" +
			"  KAFKA_BROKERS=localhost:9092 tenantlane demo --duration 30s --format json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.demo(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.cfg.Duration, "duration", 20*time.Second, "how long the load lasts, at least 15s")
	flags.StringVar(&f.tenants, "tenants", "", "file of tenant<TAB>volume lines (default: 4,033 built-in tenants)")
	flags.Int32Var(&f.cfg.Partitions, "partitions", 32, "partitions of the topic")
	flags.IntVar(&f.cfg.Workers, "workers", 2, "workers at the start; one more joins")
	flags.BoolVar(&f.move, "move", true, "move a whale")
	flags.BoolVar(&f.live, "live", true, "on a terminal, draw what goes on; without it a line is printed for each thing that happens")
	f.kafka.register(flags)
	f.output.register(flags)
	f.logs.register(flags, "error")
	return cmd
}

func (e *env) demo(ctx context.Context, f *demoFlags) error {
	cfg := f.cfg
	switch { // the package takes 0 for the default
	case cfg.Duration == 0:
		return usagef("--duration: 0, want at least 15s")
	case cfg.Partitions == 0:
		return usagef("--partitions: 0, want at least 8")
	case cfg.Workers == 0:
		return usagef("--workers: 0, want at least 1")
	}
	cfg.NoMove = !f.move
	cfg.Logger = f.logs.logger(e)
	cfg.Tell = func(line demo.Line) { e.note("%s", line) }
	if f.tenants != "" {
		var err error
		if cfg.Tenants, err = readTenants(f.tenants, false); err != nil {
			return err
		}
	}
	if f.kafka.given() {
		client, err := f.kafka.connect(ctx, cfg.Logger)
		if err != nil {
			return err
		}
		client.Close()
		if cfg.KafkaOpts, err = f.kafka.opts(); err != nil {
			return err
		}
		cfg.Brokers = strings.Join(f.kafka.brokers, ",")
	}
	run := demo.Run
	if f.live && !f.output.json() && isTerminal(e.stdin) && isTerminal(e.stdout) && isTerminal(e.stderr) {
		run = e.liveDemo
	}
	report, err := run(ctx, cfg)
	if report == nil {
		return err
	}
	return errors.Join(e.printDemo(report, f.output.json()), err)
}

func (e *env) printDemo(report *demo.Report, asJSON bool) (err error) {
	if asJSON {
		err = e.printJSON(report)
	} else {
		err = e.printf("\n%s", report)
	}
	if err == nil && report.Problem != "" {
		return answerNo("the promise was broken: %s", report.Problem)
	}
	return err
}
