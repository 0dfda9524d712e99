package main

import (
	"context"
	"errors"
	"os"
	"runtime/pprof"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/bench"
	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/internal/load"
)

func newBenchCommand(e *env) *cobra.Command {
	cmd := group("bench", "Measure this beside the bare Kafka client, on your machine and your brokers",
		newBenchRouteCommand(e),
		newBenchProduceCommand(e),
		newBenchIsolateCommand(e),
		newBenchConsumeCommand(e),
		newBenchFairCommand(e),
		newBenchLagCommand(e),
		newBenchMoveCommand(e),
	)
	cmd.Long = "Each measurement takes turns with the bare client (or with the same thing undisturbed) in one run, so\n" +
		"that the ratio says what TenantLane costs and not how fast the machine is. Without brokers it runs on\n" +
		"the embedded one, whose work is then in this process and in its processor time. On a real cluster it\n" +
		"makes topics and groups named tenantlane-bench-… and removes them at the end."
	return cmd
}

// benchFlags are what all measurements share.
type benchFlags struct {
	kafka   kafkaFlags
	output  outputFlags
	tenants string
	keys    string
	seed    uint64
	profile string
}

// register adds the flags; a measurement without a broker has no kafka flags,
// and one that draws no tenants none about them.
func (f *benchFlags) register(flags *pflag.FlagSet) {
	f.output.register(flags)
	flags.StringVar(&f.profile, "cpuprofile", "", "file for a processor profile of the run; "+
		"go tool pprof -tagfocus=side=tenantlane shows our turns, but for what timers started")
}

func (f *benchFlags) registerTenants(flags *pflag.FlagSet, keys string) {
	flags.StringVar(&f.tenants, "tenants", "", "file of tenant<TAB>volume lines (default: 4,033 built-in tenants)")
	flags.Uint64Var(&f.seed, "seed", 1, "the same seed draws the same tenants")
	if keys != "" {
		f.keys = keys
		flags.Var(choice(&f.keys, bench.KeysPowerLaw, bench.KeysUniform), "keys", "power-law: by the tenants' volumes; uniform: all tenants alike")
	}
}

func (f *benchFlags) population() (load.Population, error) {
	if f.tenants == "" {
		return load.DefaultPopulation()
	}
	return readTenants(f.tenants, false)
}

const (
	brokerEmbedded = "embedded"
	brokerKafka    = "kafka"
)

// benchBroker is the cluster that is measured on: the one that was named, or
// the embedded one, which runs until stop. It says on stderr which.
func (e *env) benchBroker(ctx context.Context, f *benchFlags) (name string, opts []kgo.Opt, stop func() error, err error) {
	if f.kafka.given() {
		if opts, err = f.kafka.opts(); err != nil {
			return "", nil, nil, err
		}
		var client *kgo.Client
		if client, err = kgo.NewClient(opts...); err != nil {
			return "", nil, nil, usagef("Kafka client: %w", err)
		}
		defer client.Close()
		e.note("on Kafka at %s", strings.Join(f.kafka.brokers, ","))
		return brokerKafka, opts, func() error { return nil }, f.kafka.ping(ctx, client)
	}
	broker, err := embedded.Start(embedded.Config{})
	if err != nil {
		return "", nil, nil, usagef("%w", err)
	}
	e.note("on the embedded broker; --brokers or KAFKA_BROKERS measures on a real one")
	return brokerEmbedded, []kgo.Opt{kgo.SeedBrokers(broker.Addrs()...)}, broker.Close, nil
}

// measured runs a measurement on a broker, with its profile and its bar.
func (e *env) measured(ctx context.Context, f *benchFlags, measure func(broker string, opts []kgo.Opt, told bench.Progress) error) (err error) {
	name, opts, closeBroker, err := e.benchBroker(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBroker()) }()
	return e.profiled(f, func(told bench.Progress) error { return measure(name, opts, told) })
}

// profiled runs a measurement with its profile and its bar.
func (e *env) profiled(f *benchFlags, measure func(told bench.Progress) error) (err error) {
	if f.profile != "" {
		file, err := os.Create(f.profile)
		if err != nil {
			return usagef("--cpuprofile: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return usagef("--cpuprofile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	bar := e.newProgress("turns", 0)
	defer bar.end()
	return measure(func(done, of int) {
		bar.total = int64(of)
		bar.set(int64(done))
	})
}

// printBench prints an answer as JSON, or as text.
func (e *env) printBench(f *benchFlags, answer any, text string) error {
	if f.output.json() {
		return e.printJSON(answer)
	}
	return e.printf("%s", text)
}

const mebibyte = 1 << 20
