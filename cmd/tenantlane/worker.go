package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/deliver"
	"github.com/tenantlane/tenantlane/partitioner"
)

type workerFlags struct {
	kafka        kafkaFlags
	table        tableFlags
	output       outputFlags
	logs         logFlags
	topic        string
	group        string
	discard      bool
	sleep        time.Duration
	start        string
	logFile      string
	untilIdle    time.Duration
	stats        time.Duration
	drainTimeout time.Duration
	session      time.Duration
	concurrency  int
}

func newWorkerCommand(e *env) *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker --topic T --group G --discard",
		Short: "Deliver each record, every tenant's in order",
		Long: "Consumes a topic as a member of a group and delivers each record to a target: one tenant's records\n" +
			"one at a time and in order, many tenants at once. On SIGTERM it finishes what it has, commits and\n" +
			"leaves the group within --drain-timeout; a second signal stops it at once.",
		Example: "  tenantlane worker --topic orders --group billing --discard --handler-sleep 5ms --concurrency 100\n" +
			"  tenantlane worker --topic orders --group check --discard --log-file worker.log --until-idle 10s",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.work(cmd.Context(), &f) },
	}
	f.register(cmd.Flags())
	service(cmd)
	return cmd
}

func (f *workerFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.topic, "topic", "", "topic to consume")
	flags.StringVar(&f.group, "group", "", "consumer group to join")
	flags.BoolVar(&f.discard, "discard", false, "target: nothing; records are only counted (and logged)")
	flags.DurationVar(&f.sleep, "handler-sleep", 0, "with --discard: how long each record takes")
	flags.IntVar(&f.concurrency, "concurrency", 16, "records handled at once, each of another tenant")
	f.start = "earliest"
	flags.Var(choice(&f.start, "earliest", "latest"), "start", "where a group without commits begins: earliest or latest")
	flags.StringVar(&f.logFile, "log-file", "", "file to which a line for each handled record and each commit is appended, for `verify`")
	flags.DurationVar(&f.untilIdle, "until-idle", 0, "end with 0 when nothing came for that long (default: run until stopped)")
	flags.DurationVar(&f.stats, "stats-interval", 5*time.Second, "time between stats lines")
	flags.DurationVar(&f.drainTimeout, "drain-timeout", 20*time.Second, "how long a stop waits for records in the worker")
	flags.DurationVar(&f.session, "session-timeout", 45*time.Second, "how long the group waits for a worker that died before it gives its partitions away")
	f.kafka.register(flags)
	f.table.register(flags, &f.kafka)
	f.output.register(flags)
	f.logs.register(flags, "info")
}

func (f *workerFlags) validate() error {
	switch {
	case f.topic == "":
		return usagef("--topic: missing")
	case f.group == "":
		return usagef("--group: missing")
	case !f.discard:
		return usagef("no target: give --discard")
	case f.concurrency < 1:
		return usagef("--concurrency: %d, want at least 1", f.concurrency)
	case f.sleep < 0:
		return usagef("--handler-sleep: %s is negative", f.sleep)
	case f.untilIdle < 0:
		return usagef("--until-idle: %s is negative", f.untilIdle)
	case f.stats <= 0:
		return usagef("--stats-interval: %s, want more than 0", f.stats)
	case f.drainTimeout <= 0:
		return usagef("--drain-timeout: %s, want more than 0", f.drainTimeout)
	case f.session < time.Second:
		return usagef("--session-timeout: %s, want at least 1s", f.session)
	}
	return nil
}

// work checks what can be wrong before it joins the group.
func (e *env) work(ctx context.Context, f *workerFlags) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	log := f.logs.logger(e)
	cfg, closeTable, err := f.consumer(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeTable()) }()
	out, closeLog, err := openWorkerLog(f.logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	worker, err := deliver.New(deliver.Config{
		Consumer: cfg, Target: deliver.Discard(f.sleep), Log: out,
		UntilIdle: f.untilIdle, StatsInterval: f.stats, OnStats: func(s deliver.Stats) { e.workerStats(f, s) },
	})
	if err != nil {
		return usagef("%w", err)
	}
	if err := worker.Run(ctx); err != nil {
		return fmt.Errorf("topic %q, group %q: %w", f.topic, f.group, err)
	}
	return nil
}

// consumer fills the runtime's configuration, having seen that the brokers
// answer, that the topic exists, and that the table fits it.
func (f *workerFlags) consumer(ctx context.Context, log *zap.Logger) (cfg consumer.Config, closeTable func() error, err error) {
	closeTable = func() error { return nil }
	client, err := f.kafka.connect(ctx, log)
	if err != nil {
		return cfg, nil, err
	}
	defer client.Close()
	if _, err := topicPartitions(ctx, client, f.topic); err != nil {
		return cfg, nil, err
	}
	opts, err := f.kafka.opts()
	if err != nil {
		return cfg, nil, err
	}
	cfg = consumer.Config{
		Group: f.group, Topics: []string{f.topic}, Concurrency: f.concurrency,
		DrainTimeout: f.drainTimeout, RebalanceTimeout: max(time.Minute, 2*f.drainTimeout),
		KafkaOpts: append(opts, sessionOpts(f.session)...), Logger: log,
	}
	if f.start == "latest" {
		cfg.Start = consumer.StartLatest
	}
	if !f.table.given() {
		return cfg, closeTable, nil
	}
	file, err := f.table.open(ctx, log, opening{})
	if err != nil {
		return cfg, nil, err
	}
	_, err = pickTopic(file.Table(), f.topic)
	if err == nil {
		err = partitioner.CheckTopics(ctx, client, file.Table())
	}
	if err != nil {
		return cfg, nil, errors.Join(err, file.Close())
	}
	cfg.Table = file
	return cfg, file.Close, nil
}

// sessionOpts sets the session with the usual three heartbeats in it, and no
// more heartbeats than one in three seconds.
func sessionOpts(session time.Duration) []kgo.Opt {
	return []kgo.Opt{kgo.SessionTimeout(session), kgo.HeartbeatInterval(min(3*time.Second, session/3))}
}

// workerStats prints one line. A reader that is gone is no reason to stop.
func (e *env) workerStats(f *workerFlags, s deliver.Stats) {
	if f.output.json() {
		_ = e.printJSON(s)
		return
	}
	_ = e.printf("%7s  %d handled, %.0f/s now, %d in flight, %d failed attempts, %d partitions\n",
		s.Elapsed.Truncate(time.Second), s.Handled, s.HandledPerSec, s.InFlight, s.Failed, s.Partitions)
}

// openWorkerLog opens the log of one worker for appending, and ends a line
// that a killed worker left torn. Two workers cannot share one: their lines
// could not be told apart.
func openWorkerLog(path string) (io.Writer, func() error, error) {
	if path == "" {
		return nil, func() error { return nil }, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, usagef("--log-file: %w", err)
	}
	err = lockFile(file)
	if err == nil {
		err = endLine(file)
	}
	if err != nil {
		return nil, nil, usagef("--log-file %s: %w", path, errors.Join(err, file.Close()))
	}
	return file, file.Close, nil
}

// endLine appends a newline to a file that does not end in one.
func endLine(file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.WriteString("\n")
	return err
}
