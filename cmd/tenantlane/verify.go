package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/internal/stale"
)

type verifyFlags struct {
	kafka    kafkaFlags
	output   outputFlags
	logs     logFlags
	topic    string
	workers  []string
	produced []string
}

func newVerifyCommand(e *env) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify --topic T --log FILE… [--produced FILE…]",
		Short: "Check that nothing was lost, repeated without need, or handled out of order",
		Long: "Compares what `loadgen` produced with what workers handled. What was produced comes from loadgen's\n" +
			"logs, or, without --produced, from the topic itself, whose every record must then have been handled.\n" +
			"Logs of several workers are merged by their lines' times. Exit code 1 if the promise was broken.",
		Example: "  tenantlane verify --topic orders --log worker-1.log --log worker-2.log --produced produced.log\n" +
			"  tenantlane verify --topic orders --log worker.log --format json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.verify(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "topic that was produced to; with --produced nobody checks that the logs are of it")
	flags.StringArrayVar(&f.workers, "log", nil, "log `file` of a worker (worker --log-file); repeatable")
	flags.StringArrayVar(&f.produced, "produced", nil, "log `file` of a load generator (loadgen --log-file); repeatable (default: read the topic)")
	f.kafka.register(flags)
	f.output.register(flags)
	f.logs.register(flags, "warn")
	return cmd
}

func (e *env) verify(ctx context.Context, f *verifyFlags) error {
	switch {
	case f.topic == "":
		return usagef("--topic: missing")
	case len(f.workers) == 0:
		return usagef("--log: missing; give the log of each worker")
	}
	checker := check.New()
	client, err := e.verifyClient(ctx, f)
	if err != nil {
		return err
	}
	if client != nil {
		defer client.Close()
		if err = e.readQuarantine(ctx, f, client, checker); err != nil {
			return err
		}
	}
	bar := e.newProgress("bytes read", totalSize(append(f.workers, f.produced...)))
	err = e.readLogs(ctx, f, checker, bar)
	bar.end()
	if err == nil && len(f.produced) == 0 {
		err = e.readTopic(ctx, f, client, checker)
	}
	if err != nil {
		return err
	}
	if client == nil {
		e.note("no brokers are given, so the quarantine of topic %q was not looked at", f.topic)
	}
	report := checker.Report()
	if err := e.printVerdict(report, f.output.json()); err != nil {
		return err
	}
	if !report.OK() {
		return answerNo("topic %q: the promise was broken: %s", f.topic, report.Problem())
	}
	return nil
}

// readLogs feeds the checker from all files, and notes torn lines.
func (e *env) readLogs(ctx context.Context, f *verifyFlags, checker *check.Checker, bar *progress) error {
	var files []*os.File
	defer func() {
		for _, file := range files {
			_ = file.Close() // only read
		}
	}()
	input := &meteredReads{ctx: ctx, bar: bar}
	open := func(flag string, paths []string) (logs []*check.Reader, err error) {
		for _, path := range paths {
			file, err := os.Open(path)
			if err != nil {
				return nil, usagef("--%s: %w", flag, err)
			}
			files = append(files, file)
			logs = append(logs, check.NewReader(path, input.of(file)))
		}
		return logs, nil
	}
	produced, err := open("produced", f.produced)
	if err != nil {
		return err
	}
	workers, err := open("log", f.workers)
	if err != nil {
		return err
	}
	for _, log := range produced {
		if err := check.FeedProduced(checker, log); err != nil {
			return fmt.Errorf("--produced: %w", err)
		}
	}
	if err := check.Feed(checker, workers...); err != nil {
		return fmt.Errorf("--log: %w", err)
	}
	for _, log := range append(produced, workers...) {
		if log.Torn() > 0 {
			e.note("%s: %d torn lines left out, as a killed process leaves them", log.Name(), log.Torn())
		}
	}
	return nil
}

// verifyClient connects where the topic is needed, or else where it is known how:
// then the quarantine is looked at too.
func (e *env) verifyClient(ctx context.Context, f *verifyFlags) (*kgo.Client, error) {
	if len(f.produced) > 0 && !f.kafka.given() {
		return nil, nil
	}
	client, err := f.kafka.connect(ctx, f.logs.logger(e))
	if err != nil {
		return nil, err
	}
	if len(f.produced) == 0 {
		if _, err := topicPartitions(ctx, client, f.topic); err != nil {
			client.Close()
			return nil, err
		}
	}
	return client, nil
}

// readTopic tells the checker what the topic holds. What was set aside in
// quarantine need not be handled.
func (e *env) readTopic(ctx context.Context, f *verifyFlags, client *kgo.Client, checker *check.Checker) error {
	bar := e.newProgress("records read", 0)
	read := int64(0)
	foreign, err := load.ReadTopic(ctx, client, f.topic, func(v load.Value, partition int32, offset int64) {
		if !checker.IsQuarantined(partition, offset) {
			checker.Produced(v.ID, v.Seq)
		}
		read++
		bar.set(read)
	})
	bar.end()
	if err == nil && foreign > 0 {
		e.note("topic %q: %d records that are not from loadgen are left out", f.topic, foreign)
	}
	return err
}

// readQuarantine tells the checker which of the topic's records were set aside.
func (e *env) readQuarantine(ctx context.Context, f *verifyFlags, client *kgo.Client, checker *check.Checker) error {
	topic, unread := f.topic+consumer.QuarantineSuffix, 0
	reader, err := sample.NewReader(client, sample.Config{MaxBytes: 4 << 20})
	if err != nil {
		return topicError(topic, err)
	}
	spans, err := reader.Tail(ctx, topic, math.MaxInt64)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil
	}
	for _, span := range spans {
		if err == nil {
			err = reader.Range(ctx, topic, span, func(r *kgo.Record) bool {
				letter, bad := stale.Parse(r)
				switch {
				case stale.IsMark(r):
				case bad != nil || letter.Origin.Topic != f.topic:
					unread++
				default:
					checker.Quarantined(letter.Origin.Partition, letter.Origin.Offset)
				}
				return true
			})
		}
	}
	if err != nil {
		return topicError(topic, err)
	}
	if unread > 0 {
		e.note("topic %q: %d records that are not from topic %q are left out", topic, unread, f.topic)
	}
	return nil
}

func (e *env) printVerdict(r check.Report, asJSON bool) error {
	if asJSON {
		return e.printJSON(r)
	}
	verdict := "the promise was kept"
	if !r.OK() {
		verdict = "the promise was BROKEN"
	}
	table := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\n", verdict)
	fmt.Fprintf(table, "produced\t%d\trecords of %d tenants\n", r.Produced, r.Tenants)
	fmt.Fprintf(table, "handled\t%d\t%d of them without a known acknowledgement\n", r.Handled, r.Unacknowledged)
	fmt.Fprintf(table, "lost\t%d\n", r.Lost)
	fmt.Fprintf(table, "out of order\t%d\n", r.OrderViolations)
	fmt.Fprintf(table, "repeated\t%d\t%d allowed by the commits\n", r.Duplicates, r.DuplicatesAllowed)
	fmt.Fprintf(table, "committed too early\t%d\n", r.EarlyCommits)
	fmt.Fprintf(table, "quarantined\t%d\t%d of them acknowledged\n", r.Quarantined, r.QuarantinedAcknowledged)
	for _, w := range r.Worst {
		fmt.Fprintf(table, "  tenant %q of %s:\t%d lost, %d out of order\t%s\n", w.Tenant, w.Producer, w.Lost, w.OrderViolations, w.Example)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// totalSize is the bytes of the files, as far as they are there.
func totalSize(paths []string) (bytes int64) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// meteredReads moves a bar with what is read, and ends reads when ctx ends.
type meteredReads struct {
	ctx  context.Context
	bar  *progress
	read int64
}

func (m *meteredReads) of(r io.Reader) io.Reader { return meteredReader{m, r} }

type meteredReader struct {
	*meteredReads
	from io.Reader
}

func (m meteredReader) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.from.Read(p)
	m.read += int64(n)
	m.bar.set(m.read)
	return n, err
}
