package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/dlq"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func newDLQCommand(e *env) *cobra.Command {
	return group("dlq", "Look at dead letters, and write them back", newDLQListCommand(e), newDLQReplayCommand(e))
}

// dlqFlags say which letters of which topic.
type dlqFlags struct {
	kafka  kafkaFlags
	table  tableFlags
	output outputFlags
	logs   logFlags
	hex    hexFlags

	topic, letters, group string
	limit                 int
}

func (f *dlqFlags) register(flags *pflag.FlagSet, limit string) {
	flags.StringVar(&f.topic, "topic", "", "topic whose dead letters are meant")
	flags.StringVar(&f.letters, "dead-letter-topic", "", "where they are (default: the topic with "+consumer.DeadLetterSuffix+" appended)")
	flags.StringVar(&f.group, "group", "", "only letters of this consumer group (default: of any)")
	flags.IntVar(&f.limit, "limit", 0, limit)
	f.hex.register(flags)
	f.kafka.register(flags)
	f.table.register(flags, &f.kafka)
	f.output.register(flags)
	f.logs.register(flags, "warn")
}

func (f *dlqFlags) validate() error {
	switch {
	case f.topic == "":
		return usagef("--topic: missing")
	case f.limit < 0:
		return usagef("--limit: %d is negative", f.limit)
	}
	if f.letters == "" {
		f.letters = f.topic + consumer.DeadLetterSuffix
	}
	return nil
}

// open connects, and reads the table if one is given. The client is closed by
// the caller.
func (f *dlqFlags) open(ctx context.Context, e *env, tenants []string) (*kgo.Client, dlq.Selection, *routing.Topic, error) {
	selection := dlq.Selection{Group: f.group}
	if err := f.validate(); err != nil {
		return nil, selection, nil, err
	}
	for _, given := range tenants {
		name, err := f.hex.tenant(given)
		if err != nil {
			return nil, selection, nil, err
		}
		selection.Tenants = append(selection.Tenants, name)
	}
	table, err := f.routes(ctx)
	if err != nil {
		return nil, selection, nil, err
	}
	if table != nil {
		selection.Rule = table.TenantRule()
	}
	client, err := f.kafka.connect(ctx, f.logs.logger(e), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(maxLetter), kgo.RecordDeliveryTimeout(letterTimeout))
	if err != nil {
		return nil, selection, nil, err
	}
	if _, err := topicPartitions(ctx, client, f.letters); err != nil {
		client.Close()
		return nil, selection, nil, err
	}
	return client, selection, table, nil
}

const (
	// maxLetter leaves it to the broker which letter is too large.
	maxLetter = 16 << 20
	// letterTimeout bounds how long one letter is tried to be written.
	letterTimeout = 30 * time.Second
)

// routes is what a table says of the topic, or nil without a table.
func (f *dlqFlags) routes(ctx context.Context) (*routing.Topic, error) {
	if !f.table.given() {
		return nil, nil
	}
	table, err := f.table.read(ctx)
	if err != nil {
		return nil, err
	}
	return pickTopic(table, f.topic)
}

// letterJSON is one dead letter.
type letterJSON struct {
	Partition int32  `json:"partition"` // in the dead-letter topic
	Offset    int64  `json:"offset"`
	Tenant    string `json:"tenant"`
	Hex       string `json:"tenant_hex,omitempty"`
	Origin    struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Offset    int64  `json:"offset"`
	} `json:"origin"`
	Group    string `json:"group"`
	Error    string `json:"error"`
	Attempts int    `json:"attempts"`
	At       string `json:"at"`
	Replays  int    `json:"replays"`
	Replayed bool   `json:"replayed"`
}

func newDLQListCommand(e *env) *cobra.Command {
	var f dlqFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "list [TENANT…] --topic T",
		Short: "Show dead letters: whose, from where, and why",
		Long: "Shows the dead letters of a topic that were not replayed, in the order in which they were written in each\n" +
			"partition. With a table, tenants are read out of records as it says; without, the key is the tenant.",
		Example: "  tenantlane dlq list --topic orders\n" +
			"  tenantlane dlq list acme-corp --topic orders --all --format json",
		RunE: func(cmd *cobra.Command, args []string) error { return e.listLetters(cmd.Context(), &f, args, all) },
	}
	f.register(cmd.Flags(), "how many to show at most (default: all)")
	cmd.Flags().BoolVar(&all, "all", false, "also those that were replayed")
	return cmd
}

func (e *env) listLetters(ctx context.Context, f *dlqFlags, tenants []string, all bool) error {
	client, selection, _, err := f.open(ctx, e, tenants)
	if err != nil {
		return err
	}
	defer client.Close()
	printer := letterPrinter{e: e, json: f.output.json(), table: tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)}
	foreign, err := dlq.List(ctx, client, f.letters, selection, func(l dlq.Listed) error {
		switch {
		case l.Replayed && !all:
			printer.replayed++
			return nil
		case f.limit > 0 && printer.shown == f.limit:
			printer.more++
			return nil
		}
		return printer.print(l)
	})
	if flushed := printer.table.Flush(); flushed != nil && err == nil {
		err = fmt.Errorf("writing the answer: %w", flushed)
	}
	if err != nil {
		return letterError(f.letters, err)
	}
	e.note("%d letters shown, %d more, %d replayed before, %d records of %s are no letters", printer.shown, printer.more, printer.replayed, foreign, f.letters)
	return nil
}

// letterError names the topic that could not be read or written.
func letterError(topic string, err error) error {
	return kafkaError(fmt.Sprintf("dead letters in %q", topic), err)
}

// letterPrinter prints letters as they come.
type letterPrinter struct {
	e                     *env
	json                  bool
	table                 *tabwriter.Writer
	shown, more, replayed int
}

func (p *letterPrinter) print(l dlq.Listed) error {
	p.shown++
	tenant, asHex := tenantText(l.Tenant)
	if !p.json {
		if p.shown == 1 {
			fmt.Fprintln(p.table, "LETTER\tTENANT\tFROM\tGROUP\tATTEMPTS\tAT\tREPLAYED\tERROR")
		}
		state := strconv.Itoa(l.Replays) + " times"
		if l.Replayed {
			state = "now"
		}
		if asHex != "" {
			tenant = "0x" + asHex
		}
		fmt.Fprintf(p.table, "%d/%d\t%s\t%s\t%s\t%d\t%s\t%s\t%.80q\n", l.Partition, l.Offset, tenant, l.Origin, l.Group, l.Attempts, l.At.UTC().Format(time.RFC3339), state, l.Error)
		return nil
	}
	row := letterJSON{
		Partition: l.Partition, Offset: l.Offset, Tenant: tenant, Hex: asHex, Group: l.Group, Error: l.Error,
		Attempts: l.Attempts, At: l.At.UTC().Format(time.RFC3339Nano), Replays: l.Replays, Replayed: l.Replayed,
	}
	row.Origin.Topic, row.Origin.Partition, row.Origin.Offset = l.Origin.Topic, l.Origin.Partition, l.Origin.Offset
	return p.e.printJSON(row)
}

// replayJSON is what a replay did.
type replayJSON struct {
	Topic    string `json:"topic"`
	Letters  int    `json:"letters"`
	Replayed int    `json:"replayed"`
	Before   int    `json:"replayed_before"`
	Copies   int    `json:"copies"`
	Moved    int    `json:"moved"`
	Refused  int    `json:"refused"`
	Foreign  int    `json:"foreign"`
	Tenants  int    `json:"tenants"`
	DryRun   bool   `json:"dry_run"`
}

func newDLQReplayCommand(e *env) *cobra.Command {
	var f dlqFlags
	var cfg dlq.Config
	cmd := &cobra.Command{
		Use:   "replay [TENANT…] --topic T",
		Short: "Write dead letters back to where they lay",
		Long: "Writes the letters that were not replayed back to the topic and partition that they came from, one tenant's in\n" +
			"their order, with their headers and one more, " + consumer.HeaderReplay + ". It does not wait for workers: what fails again is a new\n" +
			"letter. Every group that reads the topic gets them; `tenantlane worker` skips those of another group's letters.\n\n" +
			"What was replayed is marked in the dead-letter topic. A replay that is interrupted has marked all that it has\n" +
			"done; one that is killed repeats at most " + strconv.Itoa(dlq.MarkEvery) + " letters when it is run again. Run one at a time.\n\n" +
			"With a table, letters of a tenant that does not go to their partition any more are left and counted.",
		Example: "  tenantlane dlq replay --topic orders --dry-run\n" +
			"  tenantlane dlq replay acme-corp --topic orders --table routing.yaml --rate 50",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cfg.Rate < 0 {
				return usagef("--rate: %v is negative", cfg.Rate)
			}
			return e.replayLetters(cmd.Context(), &f, args, cfg)
		},
	}
	f.register(cmd.Flags(), "how many to replay at most (default: all)")
	cmd.Flags().BoolVar(&cfg.DryRun, "dry-run", false, "count, and write nothing")
	cmd.Flags().Float64Var(&cfg.Rate, "rate", 0, "letters a second at most (default: no limit)")
	return cmd
}

func (e *env) replayLetters(ctx context.Context, f *dlqFlags, tenants []string, cfg dlq.Config) error {
	client, selection, table, err := f.open(ctx, e, tenants)
	if err != nil {
		return err
	}
	defer client.Close()
	bar := e.newProgress("letters replayed", 0)
	cfg.Topic, cfg.Selection, cfg.Limit, cfg.Progress = f.letters, selection, f.limit, bar.set
	if table != nil {
		cfg.Moved = movedFrom(table)
	}
	report, err := dlq.Replay(ctx, client, cfg)
	bar.end()
	if printed := e.printReplay(f, &cfg, &report, err != nil); printed != nil && err == nil {
		err = printed
	}
	switch {
	case err != nil:
		return letterError(f.letters, err)
	case report.Refused > 0:
		return letterError(f.letters, fmt.Errorf("%d letters stay: %w", report.Refused, report.First))
	}
	return nil
}

// movedFrom says whether a table sends a letter's tenant elsewhere than where
// the letter lay.
func movedFrom(table *routing.Topic) func(*dlq.Letter, []byte) bool {
	return func(l *dlq.Letter, tenant []byte) bool {
		if l.Origin.Topic != table.Name() {
			return false
		}
		route := table.Lookup(tenant, l.Key)
		here := route.Topic == "" || route.Topic == l.Origin.Topic
		return !here || route.Partition != l.Origin.Partition && !slices.Contains(route.Partitions, l.Origin.Partition)
	}
}

// printReplay prints what was done, after an error as a note.
func (e *env) printReplay(f *dlqFlags, cfg *dlq.Config, r *dlq.Report, failed bool) error {
	if f.output.json() && !failed {
		return e.printJSON(replayJSON{
			Topic: f.letters, Letters: r.Letters, Replayed: r.Replayed, Before: r.Before, Copies: r.Twice,
			Moved: r.Moved, Refused: r.Refused, Foreign: r.Foreign, Tenants: r.Tenants, DryRun: cfg.DryRun,
		})
	}
	did := "replayed"
	if cfg.DryRun {
		did = "would be replayed"
	}
	text := fmt.Sprintf("%d letters of %d tenants %s, %d were before, %d are copies", r.Replayed, r.Tenants, did, r.Before, r.Twice)
	if r.Moved > 0 {
		text += fmt.Sprintf(", %d stay since their tenants have moved", r.Moved)
	}
	if failed {
		if r.Replayed > 0 {
			e.note("%s", text)
		}
		return nil
	}
	return e.printf("%s\n", text)
}
