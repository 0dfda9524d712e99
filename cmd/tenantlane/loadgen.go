package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// deliveryTimeout bounds how long one record may be on its way, so that a
// cluster that is gone ends the run.
const deliveryTimeout = time.Minute

type loadgenFlags struct {
	kafka   kafkaFlags
	table   tableFlags
	output  outputFlags
	hex     hexFlags
	logs    logFlags
	topic   string
	tenants string
	keys    string
	count   int64
	rate    float64
	size    int
	seed    uint64
	whales  []string
	logFile string
	errors  int64
}

type loadgenAnswer struct {
	Produced  int64   `json:"produced"`
	Errors    int64   `json:"errors"`
	PerSecond float64 `json:"records_per_s"`
	Producer  string  `json:"producer"`
}

func newLoadgenCommand(e *env) *cobra.Command {
	var f loadgenFlags
	cmd := &cobra.Command{
		Use:   "loadgen --topic T --count N",
		Short: "Produce records that `verify` can check",
		Long: "Produces records that carry their tenant, sequence and time, through the partitioner. Tenants\n" +
			"are drawn in proportion to their volumes; a whale's records come on top and are spread over the run.",
		Example: "  tenantlane loadgen --topic orders --count 100000 --log-file produced.log\n" +
			"  tenantlane loadgen --topic orders --table routing.yaml --tenants volumes.tsv --count 1000000 --rate 5000 --whale acme:200000",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.loadgen(cmd.Context(), &f) },
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *loadgenFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.topic, "topic", "", "topic to produce to")
	flags.StringVar(&f.tenants, "tenants", "", "file of tenant<TAB>volume lines (default: 4,033 built-in tenants)")
	f.keys = "power-law"
	flags.Var(choice(&f.keys, "power-law", "uniform"), "keys", "power-law: by the tenants' volumes; uniform: all tenants alike")
	flags.Int64Var(&f.count, "count", 0, "records to produce for the population")
	flags.Float64Var(&f.rate, "rate", 0, "records a second (default: as fast as it goes)")
	flags.IntVar(&f.size, "size", 200, "bytes of a record's value, at least what its fields need")
	flags.Uint64Var(&f.seed, "seed", 1, "the same seed draws the same tenants")
	flags.StringArrayVar(&f.whales, "whale", nil, "NAME:count, records of one tenant besides --count; repeatable")
	flags.StringVar(&f.logFile, "log-file", "", "file to which a line for each acknowledged record is appended")
	flags.Int64Var(&f.errors, "max-errors", load.DefaultMaxErrors, "how many records may fail before the run gives up; -1: no end, each is counted and left out")
	f.kafka.register(flags)
	f.table.register(flags, &f.kafka)
	f.output.register(flags)
	f.hex.register(flags)
	f.logs.register(flags, "warn")
}

// mix is what the flags ask for. drop leaves tenants out.
func (f *loadgenFlags) population() (load.Population, error) {
	population, err := load.DefaultPopulation()
	if f.tenants != "" {
		population, err = readTenants(f.tenants, f.hex.on)
	}
	if err == nil && f.keys == "uniform" {
		population = population.Uniform()
	}
	return population, err
}

func readTenants(path string, hexTenants bool) (load.Population, error) {
	file, err := os.Open(path)
	if err != nil {
		return load.Population{}, usagef("--tenants: %w", err)
	}
	defer file.Close()
	population, err := load.ReadPopulation(path, file, hexTenants)
	if err != nil {
		return load.Population{}, usagef("--tenants: %w", err)
	}
	return population, nil
}

func (f *loadgenFlags) bursts() ([]load.Burst, error) {
	var bursts []load.Burst
	for _, whale := range f.whales {
		at := strings.LastIndexByte(whale, ':')
		if at <= 0 {
			return nil, usagef("--whale %q: want NAME:count", whale)
		}
		count, err := strconv.ParseInt(whale[at+1:], 10, 64)
		if err != nil || count < 0 {
			return nil, usagef("--whale %q: the count is not a number of at least 0", whale)
		}
		tenant, err := f.hex.tenant(whale[:at])
		if err != nil {
			return nil, err
		}
		bursts = append(bursts, load.Burst{Tenant: string(tenant), Count: count})
	}
	return bursts, nil
}

func (f *loadgenFlags) validate() error {
	switch {
	case f.topic == "":
		return usagef("--topic: missing")
	case f.count < 0:
		return usagef("--count: %d is negative", f.count)
	case f.count == 0 && len(f.whales) == 0:
		return usagef("--count: missing; or give --whale NAME:count")
	case f.rate < 0:
		return usagef("--rate: %g is negative", f.rate)
	case f.errors == 0 || f.errors < -1:
		return usagef("--max-errors: %d, want at least 1, or -1 for no end", f.errors)
	case f.size < 0 || f.size > 10<<20:
		return usagef("--size: %d, want 0 to %d bytes", f.size, 10<<20)
	}
	return nil
}

// loadgen checks everything that can be wrong before it produces anything.
func (e *env) loadgen(ctx context.Context, f *loadgenFlags) (err error) {
	if err = f.validate(); err != nil {
		return err
	}
	population, err := f.population()
	if err != nil {
		return err
	}
	bursts, err := f.bursts()
	if err != nil {
		return err
	}
	log := f.logs.logger(e)
	source, closeTable, err := f.source(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeTable()) }()
	recorder := &load.Recorder{Topic: f.topic, Producer: "loadgen-" + strings.ToLower(rand.Text()[:8]), Size: f.size, Table: source}
	if err = recorder.CheckTenants(population); err != nil {
		return usagef("%w", err)
	}
	if population, err = e.stayHere(population, bursts, f, source); err != nil {
		return err
	}
	mix, err := load.NewMix(population, f.count, bursts, f.seed)
	if err != nil {
		return usagef("%w", err)
	}
	return e.produceMix(ctx, f, recorder, source, mix, log)
}

// source is the table that records are routed by: the one given, or a plain
// one with the partitions that the topic has.
func (f *loadgenFlags) source(ctx context.Context, log *zap.Logger) (store.Source, func() error, error) {
	if f.table.given() {
		file, err := f.table.open(ctx, log, opening{})
		if err != nil {
			return nil, nil, err
		}
		if _, err := pickTopic(file.Table(), f.topic); err != nil {
			return nil, nil, errors.Join(err, file.Close())
		}
		return file, file.Close, nil
	}
	client, err := f.kafka.connect(ctx, log)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	partitions, err := topicPartitions(ctx, client, f.topic)
	if err != nil {
		return nil, nil, err
	}
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{f.topic: {Partitions: partitions}}})
	if err != nil {
		return nil, nil, usagef("%w", err)
	}
	return store.Fixed(table), func() error { return nil }, nil
}

// stayHere leaves out tenants that the table sends to another topic: verify
// looks at one topic only.
func (e *env) stayHere(population load.Population, bursts []load.Burst, f *loadgenFlags, source store.Source) (load.Population, error) {
	topic, ok := source.Table().Topic(f.topic)
	if !ok {
		return population, nil
	}
	elsewhere := func(tenant string) bool { return topic.Lookup([]byte(tenant), nil).Topic != "" }
	for _, burst := range bursts {
		if elsewhere(burst.Tenant) {
			return population, usagef("--whale %q: the table places it in another topic", burst.Tenant)
		}
	}
	stay := population.Without(elsewhere)
	if len(stay.Tenants) == 0 && f.count > 0 {
		return population, usagef("the table places every tenant in other topics than %q", f.topic)
	}
	if left := len(population.Tenants) - len(stay.Tenants); left > 0 {
		e.note("%d tenants that the table places in other topics are left out", left)
	}
	return stay, nil
}

func (e *env) produceMix(ctx context.Context, f *loadgenFlags, recorder *load.Recorder, source store.Source, mix *load.Mix, log *zap.Logger) (err error) {
	opts := append(partitioner.ClientOpts(source, partitioner.Config{}), kgo.RecordDeliveryTimeout(deliveryTimeout))
	client, err := f.kafka.connect(ctx, log, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err = topicPartitions(ctx, client, f.topic); err != nil {
		return err
	}
	if err = partitioner.CheckTopics(ctx, client, source.Table()); err != nil {
		return err
	}
	producer, err := partitioner.NewProducer(client, source, partitioner.ProducerConfig{Logger: log})
	if err != nil {
		return err
	}
	acks, closeLog, err := openAckLog(f.logFile)
	if err != nil {
		return errors.Join(err, producer.Close(ctx))
	}
	bar := e.newProgress("produced", mix.Left())
	generator := load.Generator{
		Producer: producer, Recorder: recorder, Rate: f.rate, MaxErrors: f.errors, Acknowledged: acks.Acknowledged, Progress: bar.set,
	}
	result, err := generator.Run(ctx, mix)
	bar.end()
	err = errors.Join(err, closeProducer(ctx, producer), closeLog())
	return e.reportLoad(f, recorder.Producer, result, err)
}

// closeProducer does not wait again for what Run has already waited for.
func closeProducer(ctx context.Context, producer *partitioner.Producer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return producer.Close(ctx)
}

// openAckLog opens the log of acknowledged records for appending; without a
// path the lines go nowhere.
func openAckLog(path string) (*load.AckLog, func() error, error) {
	if path == "" {
		return load.NewAckLog(io.Discard), func() error { return nil }, nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, usagef("--log-file: %w", err)
	}
	acks := load.NewAckLog(file)
	return acks, func() error { return errors.Join(acks.Flush(), file.Close()) }, nil
}

func (e *env) reportLoad(f *loadgenFlags, producer string, result load.Result, err error) error {
	answer := loadgenAnswer{result.Produced, result.Errors, result.PerSecond(), producer}
	var printErr error
	if f.output.json() {
		printErr = e.printJSON(answer)
	} else {
		printErr = e.printf("%d records acknowledged, %d failed, %.0f records/s\n", answer.Produced, answer.Errors, answer.PerSecond)
	}
	switch {
	case err != nil:
		return err
	case result.Errors > 0:
		return &exitError{exitKafka, fmt.Errorf("topic %q: %d records failed, the first: %w", f.topic, result.Errors, result.First)}
	}
	return printErr
}
