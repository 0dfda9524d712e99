package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/stale"
	"github.com/tenantlane/tenantlane/partitioner"
)

func newStaleCommand(e *env) *cobra.Command {
	return group("stale", "Look at records that came too late to a partition, and send them to where they belong",
		newStaleListCommand(e), newStaleReplayCommand(e), newStaleDropCommand(e))
}

// staleFlags say which records of which topic's quarantine.
type staleFlags struct {
	kafka  kafkaFlags
	table  tableFlags
	output outputFlags
	logs   logFlags
	hex    hexFlags

	topic, letters string
}

func (f *staleFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.topic, "topic", "", "topic whose quarantine is meant")
	flags.StringVar(&f.letters, "quarantine-topic", "", "where it is (default: the topic with "+consumer.QuarantineSuffix+" appended)")
	f.hex.register(flags)
	f.kafka.register(flags)
	f.table.register(flags, &f.kafka)
	f.output.register(flags)
	f.logs.register(flags, "warn")
}

// open connects and says which letters are meant; with a table their tenants
// are read as it says. The client is closed by the caller.
func (f *staleFlags) open(ctx context.Context, e *env, tenants []string) (*kgo.Client, stale.Config, error) {
	var cfg stale.Config
	if f.topic == "" {
		return nil, cfg, usagef("--topic: missing")
	}
	if f.letters == "" {
		f.letters = f.topic + consumer.QuarantineSuffix
	}
	cfg.Topic = f.letters
	for _, given := range tenants {
		name, err := f.hex.tenant(given)
		if err != nil {
			return nil, cfg, err
		}
		cfg.Tenants = append(cfg.Tenants, name)
	}
	if f.table.given() {
		table, err := f.table.read(ctx)
		if err != nil {
			return nil, cfg, err
		}
		topic, err := pickTopic(table, f.topic)
		if err != nil {
			return nil, cfg, err
		}
		cfg.Table, cfg.Rule = table, topic.TenantRule()
	}
	client, err := f.kafka.connect(ctx, f.logs.logger(e), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordDeliveryTimeout(letterTimeout))
	if err != nil {
		return nil, cfg, err
	}
	if _, err := topicPartitions(ctx, client, f.topic); err != nil {
		client.Close()
		return nil, cfg, err
	}
	return client, cfg, nil
}

// empty tells whether there is no quarantine topic, which workers make when they
// need it.
func (f *staleFlags) empty(ctx context.Context, client *kgo.Client) (bool, error) {
	details, err := kadm.NewClient(client).ListTopics(ctx, f.letters)
	if err != nil {
		return false, kafkaError("listing topics", err)
	}
	return errors.Is(details[f.letters].Err, kerr.UnknownTopicOrPartition), nil
}

// staleJSON is what one producer's session has in quarantine of one tenant.
type staleJSON struct {
	Tenant    string   `json:"tenant"`
	Hex       string   `json:"tenant_hex"`
	Session   string   `json:"session"` // empty: it came around partitioner.Producer
	Reason    string   `json:"reason"`
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"` // where they lay
	Move      string   `json:"move"`
	Fence     int64    `json:"fence"`
	Count     int      `json:"count"`
	Done      int      `json:"done"`
	FirstSeq  uint64   `json:"first_seq"`
	LastSeq   uint64   `json:"last_seq"`
	FirstAt   string   `json:"first_at"`
	LastAt    string   `json:"last_at"`
	Offsets   [2]int64 `json:"offsets"`
}

func newStaleListCommand(e *env) *cobra.Command {
	var f staleFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "list [TENANT…] --topic T",
		Short: "Show what is in quarantine: whose, of which producer, and how much",
		Long: "Sums up, by tenant and producer's session, the records that workers found behind the fence of a move in the\n" +
			"tenant's old partition, and set aside. None of them was acknowledged to the application from there, or it came\n" +
			"around partitioner.Producer: such rows have no session. With a table, tenants are read out of records as it says.",
		Example: "  tenantlane stale list --topic orders --table-topic tenantlane.routing\n" +
			"  tenantlane stale list acme-corp --topic orders --all --format json",
		RunE: func(cmd *cobra.Command, args []string) error { return e.listStale(cmd.Context(), &f, args, all) },
	}
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "also those that were replayed, found to be in their new place, or dropped")
	return cmd
}

func (e *env) listStale(ctx context.Context, f *staleFlags, tenants []string, all bool) error {
	client, cfg, err := f.open(ctx, e, tenants)
	if err != nil {
		return err
	}
	defer client.Close()
	var rows []stale.Row
	var foreign int
	empty, err := f.empty(ctx, client)
	if err == nil && !empty {
		rows, foreign, err = stale.List(ctx, client, f.letters, cfg.Selection)
	}
	if err != nil {
		return staleError(f.letters, err)
	}
	if err := e.printStale(rows, all, f.output.json()); err != nil {
		return err
	}
	left, done := 0, 0
	for _, r := range rows {
		left, done = left+r.Count-r.Done, done+r.Done
	}
	e.note("%d records in quarantine, %d more dealt with, %d records of %s are none of ours", left, done, foreign, f.letters)
	return nil
}

// printStale prints rows, without all only those that are not dealt with.
func (e *env) printStale(rows []stale.Row, all, asJSON bool) error {
	shown := 0
	table := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		if r.Done == r.Count && !all {
			continue
		}
		j := toStaleJSON(&r)
		if shown == 0 && !asJSON {
			fmt.Fprintln(table, "TENANT\tSESSION\tREASON\tFROM\tMOVE\tRECORDS\tDONE\tSEQUENCES\tFIRST\tLAST")
		}
		shown++
		if asJSON {
			if err := e.printJSON(j); err != nil {
				return err
			}
			continue
		}
		tenant, asHex := tenantText(r.Tenant)
		if asHex != "" {
			tenant = "0x" + asHex
		}
		sequences := "-"
		if j.Session != "" {
			sequences = strconv.FormatUint(j.FirstSeq, 10) + "-" + strconv.FormatUint(j.LastSeq, 10)
		}
		fmt.Fprintf(table, "%s\t%.8s\t%s\t%s/%d\t%s\t%d\t%d\t%s\t%s\t%s\n", tenant, orDash(j.Session), j.Reason, j.Topic, j.Partition, j.Move,
			j.Count, j.Done, sequences, j.FirstAt, j.LastAt)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func toStaleJSON(r *stale.Row) staleJSON {
	tenant, _ := tenantText(r.Tenant)
	return staleJSON{
		Tenant: tenant, Hex: fmt.Sprintf("%x", r.Tenant), Session: r.Session, Reason: r.Reason, Topic: r.Topic, Partition: r.Partition,
		Move: r.Move, Fence: r.Fence, Count: r.Count, Done: r.Done, FirstSeq: r.Seqs[0], LastSeq: r.Seqs[1], Offsets: r.Offsets,
		FirstAt: r.Times[0].UTC().Format(time.RFC3339), LastAt: r.Times[1].UTC().Format(time.RFC3339),
	}
}

// staleError names the topic that could not be read or written.
func staleError(topic string, err error) error {
	if _, typed := errors.AsType[*exitError](err); typed {
		return err
	}
	return kafkaError(fmt.Sprintf("stale records in %q", topic), err)
}

// staleReplayJSON is what a replay or a drop did.
type staleReplayJSON struct {
	Topic    string `json:"topic"`
	Records  int    `json:"records"`
	Replayed int    `json:"replayed"`
	Present  int    `json:"present"` // in their tenant's home already, so not sent
	Dropped  int    `json:"dropped"`
	Before   int    `json:"done_before"`
	Copies   int    `json:"copies"`
	Foreign  int    `json:"foreign"`
	Tenants  int    `json:"tenants"`
	Scanned  int64  `json:"scanned"` // records of homes that were read for it
	DryRun   bool   `json:"dry_run"`
}

func newStaleReplayCommand(e *env) *cobra.Command {
	var f staleFlags
	var limit int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "replay [TENANT…] --topic T (--table FILE | --table-topic NAME)",
		Short: "Send records from quarantine to where their tenants are now",
		Long: "Reads the partitions that the tenants have had since the fence, from an hour before it, and sends the records whose\n" +
			"session and sequence are not there; the others were sent again by their producers, and are only marked. A record\n" +
			"that is sent keeps its session and sequence. Workers handle it after what the tenant has in its new place by now:\n" +
			"where younger records make it wrong, drop it instead.\n\n" +
			"What is dealt with is marked in the quarantine topic. Run one at a time.",
		Example: "  tenantlane stale replay --topic orders --dry-run --table-topic tenantlane.routing\n" +
			"  tenantlane stale replay acme-corp --topic orders --table-topic tenantlane.routing",
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.replayStale(cmd.Context(), &f, args, limit, dryRun)
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().IntVar(&limit, "limit", 0, "how many to send at most (default: all)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "look and count, and write nothing")
	return cmd
}

func (e *env) replayStale(ctx context.Context, f *staleFlags, tenants []string, limit int, dryRun bool) error {
	switch {
	case limit < 0:
		return usagef("--limit: %d is negative", limit)
	case !f.table.given():
		return usagef("a replay needs the table, which says where tenants are: --table FILE or --table-topic NAME")
	}
	return e.onStale(ctx, f, tenants, func(client *kgo.Client, cfg stale.Config) (report stale.Report, err error) {
		cfg.Limit, cfg.DryRun = limit, dryRun
		if dryRun {
			return stale.Replay(ctx, client, cfg)
		}
		sender, done, err := f.sender(ctx, e)
		if err != nil {
			return report, err
		}
		defer func() { err = errors.Join(err, done()) }()
		cfg.Sender = sender
		return stale.Replay(ctx, client, cfg)
	}, staleText, dryRun)
}

// sender is a Producer by the table as it goes on, and what ends it.
func (f *staleFlags) sender(ctx context.Context, e *env) (stale.Sender, func() error, error) {
	log := f.logs.logger(e)
	tables, err := f.table.open(ctx, log, opening{})
	if err != nil {
		return nil, nil, err
	}
	client, err := f.kafka.connect(ctx, log, append(partitioner.ClientOpts(tables, partitioner.Config{}),
		kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(letterTimeout))...)
	if err != nil {
		return nil, nil, errors.Join(err, tables.Close())
	}
	p, err := partitioner.NewProducer(client, tables, partitioner.ProducerConfig{Logger: log})
	if err != nil {
		client.Close()
		return nil, nil, errors.Join(usagef("%w", err), tables.Close())
	}
	return p, func() error {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), letterTimeout)
		defer cancel()
		err := p.Close(ending)
		client.Close()
		return errors.Join(err, tables.Close())
	}, nil
}

func newStaleDropCommand(e *env) *cobra.Command {
	var f staleFlags
	var all, dryRun bool
	cmd := &cobra.Command{
		Use:     "drop (TENANT… | --all) --topic T",
		Short:   "Mark records in quarantine as not wanted",
		Long:    "They stay in the quarantine topic until its retention takes them; `stale list --all` shows them.",
		Example: "  tenantlane stale drop acme-corp --topic orders --table-topic tenantlane.routing",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) != all {
				return usagef("name tenants, or give --all")
			}
			ctx := cmd.Context()
			return e.onStale(ctx, &f, args, func(client *kgo.Client, cfg stale.Config) (stale.Report, error) {
				cfg.DryRun = dryRun
				return stale.Drop(ctx, client, cfg)
			}, dropText, dryRun)
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "those of all tenants")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count, and write nothing")
	return cmd
}

// onStale does something to what is in quarantine and prints what was done.
func (e *env) onStale(ctx context.Context, f *staleFlags, tenants []string, do func(*kgo.Client, stale.Config) (stale.Report, error),
	text func(r *stale.Report, did string) string, dryRun bool,
) error {
	client, cfg, err := f.open(ctx, e, tenants)
	if err != nil {
		return err
	}
	defer client.Close()
	var report stale.Report
	empty, err := f.empty(ctx, client)
	if err == nil && !empty {
		bar := e.newProgress("records dealt with", 0)
		cfg.Progress = bar.set
		report, err = do(client, cfg)
		bar.end()
	}
	if err != nil {
		if report.Replayed+report.Present+report.Dropped > 0 {
			e.note("%s", text(&report, wouldBe(dryRun)))
		}
		return staleError(f.letters, err)
	}
	if f.output.json() {
		return e.printJSON(staleReplayJSON{
			f.letters, report.Letters, report.Replayed, report.Present, report.Dropped, report.Before, report.Copies, report.Foreign,
			report.Tenants, report.Scanned, dryRun,
		})
	}
	return e.printf("%s\n", text(&report, wouldBe(dryRun)))
}

func wouldBe(dryRun bool) string {
	if dryRun {
		return "would be "
	}
	return ""
}

// staleText says what was replayed, for people.
func staleText(r *stale.Report, did string) string {
	return fmt.Sprintf("%d records of %d tenants %ssent, %d are in their new place already, %d were dealt with before; %d records of new places were read for that",
		r.Replayed, r.Tenants, did, r.Present, r.Before, r.Scanned)
}

// dropText says what was dropped, for people.
func dropText(r *stale.Report, did string) string {
	return fmt.Sprintf("%d records of %d tenants %sdropped, %d were dealt with before", r.Dropped, r.Tenants, did, r.Before)
}
