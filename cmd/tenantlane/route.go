package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenantlane/tenantlane/partitioner/adopt"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

// routeFlags is the table that tenants are routed with: a real one, or one
// described by flags.
type routeFlags struct {
	table      tableFlags
	kafka      kafkaFlags
	topic      string
	key        string
	hash       hashFlag
	slots      int32
	partitions int32
	shared     string
	clients    string
}

func (r *routeFlags) register(flags *pflag.FlagSet) {
	r.table.register(flags, &r.kafka)
	r.kafka.register(flags)
	flags.StringVar(&r.topic, "topic", "", "topic of the table (default: its only one)")
	flags.StringVar(&r.key, "key", "", "record key, for tenants with spread: key")
	flags.Int32Var(&r.partitions, "partitions", 0, "without a table: partitions of the topic")
	r.hash.register(flags)
	flags.Int32Var(&r.slots, "slots", 0, "without a table: number of slots (default: the multiple of the shared partitions from 4096 up)")
	flags.StringVar(&r.shared, "shared", "", "without a table: partitions that slots map to, like 2-31 (default: all)")
	flags.StringVar(&r.clients, "clients", "", "without a table: route like a client's default, "+strings.Join(adopt.Clients(), ", "))
}

// load gives the table, the topic's name in it, and the name to print.
func (r *routeFlags) load(cmd *cobra.Command) (table *routing.Table, topic, shown string, err error) {
	if !r.table.given() && r.partitions == 0 {
		return nil, "", "", usagef("no routing table: give --table FILE or --table-topic NAME, or describe one with --partitions N [--hash H --slots N --shared RANGES | --clients C]")
	}
	if !r.table.given() {
		table, err = r.described(cmd.Flags())
		return table, describedTopic, r.topic, err
	}
	for _, name := range []string{"partitions", "hash", "slots", "shared", "clients"} {
		if cmd.Flags().Changed(name) {
			return nil, "", "", usagef("--%s describes a table and cannot go with --table or --table-topic", name)
		}
	}
	if table, err = r.table.read(cmd.Context()); err != nil {
		return nil, "", "", err
	}
	found, err := pickTopic(table, r.topic)
	if err != nil {
		return nil, "", "", err
	}
	return table, found.Name(), found.Name(), nil
}

// describedTopic is the topic of a table that flags describe.
const describedTopic = "described"

// described makes the table that flags describe.
func (r *routeFlags) described(flags *pflag.FlagSet) (*routing.Table, error) {
	spec := routing.TopicSpec{Partitions: r.partitions, Hash: r.hash.value, Slots: r.slots}
	var err error
	if r.clients != "" {
		if flags.Changed("hash") || r.slots != 0 || r.shared != "" {
			return nil, usagef("--clients already says the hash, the slots and the shared partitions")
		}
		spec, err = adopt.TopicSpec(r.clients, r.partitions)
	} else if r.shared != "" {
		spec.Shared, err = routing.ParsePartitions(r.shared, r.partitions)
	}
	if err != nil {
		return nil, usagef("%w", err)
	}
	if spec.Slots == 0 && r.partitions > 0 && r.partitions <= routing.MaxPartitions {
		n := int32(len(spec.Shared))
		if n == 0 {
			n = r.partitions
		}
		spec.Slots = adopt.Slots(n)
	}
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{describedTopic: spec}})
	if err != nil {
		return nil, usagef("%s", strings.TrimPrefix(err.Error(), "topics."+describedTopic+"."))
	}
	return table, nil
}

// routeRow is one line of the JSON output.
type routeRow struct {
	Tenant     string  `json:"tenant"`
	TenantHex  string  `json:"tenant_hex"`
	Topic      string  `json:"topic"`
	Hash       string  `json:"hash"`
	Slot       int32   `json:"slot"`
	Partition  int32   `json:"partition"`
	Partitions []int32 `json:"partitions"`
	Epoch      uint64  `json:"epoch"`
	Rule       string  `json:"rule"`
}

func newRouteCommand(e *env) *cobra.Command {
	var output outputFlags
	var tenants hexFlags
	var from routeFlags
	cmd := &cobra.Command{
		Use:   "route TENANT… | -",
		Short: "Show where tenants go",
		Long: "Shows the partition of each tenant, and which part of the table decides it. With - tenants are\n" +
			"read from stdin, one per line. A tenant that is spread has partition -1: with spread: key the\n" +
			"record's key decides (see --key) and order holds per tenant and key only; with spread: random\n" +
			"the producer picks and no order is left.",
		Example: "  tenantlane route --table routing.yaml acme-corp globex\n" +
			"  cut -f1 volumes.tsv | tenantlane route --table routing.yaml --format json -\n" +
			"  tenantlane route --clients java --partitions 32 acme-corp",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			table, topic, shown, err := from.load(cmd)
			if err != nil {
				return err
			}
			r := router{table: table, topic: topic, shown: shown, key: []byte(from.key), hex: tenants, out: e.newRows(output.json())}
			if !cmd.Flags().Changed("key") {
				r.key = nil
			}
			return r.run(cmd.Context(), args, e.stdin)
		},
	}
	output.register(cmd.Flags())
	tenants.register(cmd.Flags())
	from.register(cmd.Flags())
	return cmd
}

// router routes tenants and prints them as they come.
type router struct {
	table        *routing.Table
	topic, shown string
	key          []byte
	hex          hexFlags
	out          rowPrinter
}

func (r *router) run(ctx context.Context, args []string, stdin io.Reader) error {
	for _, given := range args {
		var err error
		if given == "-" {
			err = r.lines(ctx, stdin)
		} else {
			err = r.route(given)
		}
		if err != nil {
			return errors.Join(err, r.out.flush())
		}
	}
	return r.out.flush()
}

// lines routes stdin's lines. What is known is printed before waiting for more.
func (r *router) lines(ctx context.Context, stdin io.Reader) error {
	in := bufio.NewReader(interruptible(ctx, stdin))
	for n := 1; ; n++ {
		if in.Buffered() == 0 {
			if err := r.out.flush(); err != nil {
				return err
			}
		}
		line, err := in.ReadString('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return usagef("stdin: %w", err)
		}
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			if failed := r.route(line); failed != nil {
				return fmt.Errorf("line %d: %w", n, failed)
			}
		}
		if last {
			return nil
		}
	}
}

func (r *router) route(given string) error {
	tenant, err := r.hex.tenant(given)
	if err != nil {
		return err
	}
	if len(tenant) == 0 {
		return usagef("an empty tenant has no place")
	}
	route, topic, _ := r.table.Route(r.topic, tenant, r.key)
	if topic == r.topic {
		topic = r.shown
	}
	text, _ := tenantText(tenant)
	row := routeRow{
		Tenant: text, TenantHex: hex.EncodeToString(tenant), Topic: topic, Hash: strconv.FormatUint(route.Hash, 10), Slot: route.Slot,
		Partition: route.Partition, Partitions: route.Partitions, Epoch: route.Epoch, Rule: route.Rule.String(),
	}
	if row.Partitions == nil {
		row.Partitions = []int32{}
	}
	return r.out.print(row, picture.Tenant(string(tenant)), routeNote(route))
}

// routeNote is what a person should know about a route beyond its partition.
func routeNote(route routing.Route) string {
	switch {
	case route.Topic != "":
		return "that topic is not in this table"
	case route.Kind == routing.KindSpreadKey:
		return plan.OrderCost(routing.SpreadKey)
	case route.Kind == routing.KindSpreadRandom:
		return plan.OrderCost(routing.SpreadRandom)
	}
	return ""
}

// rowPrinter prints routes as text or JSON.
type rowPrinter struct {
	e     *env
	json  bool
	text  *tabwriter.Writer
	begun *bool         // a row was printed
	lines *bufio.Writer // where text goes, so that stdin's rows do not cost a write each
}

func (e *env) newRows(asJSON bool) rowPrinter {
	lines := bufio.NewWriter(e.stdout)
	text := tabwriter.NewWriter(lines, 0, 0, 2, ' ', 0)
	return rowPrinter{e: &env{stdout: lines}, json: asJSON, text: text, begun: new(bool), lines: lines}
}

func (p rowPrinter) print(row routeRow, tenant, note string) error {
	if p.json {
		return p.e.printJSON(row)
	}
	if !*p.begun {
		*p.begun = true
		fmt.Fprintln(p.text, "TENANT\tTOPIC\tPARTITION\tRULE\tEPOCH\tSLOT\tHASH\tNOTE")
	}
	at := strconv.Itoa(int(row.Partition))
	if row.Partition < 0 {
		at = routing.FormatPartitions(row.Partitions)
	}
	if at == "" {
		at = "?"
	}
	_, err := fmt.Fprintf(p.text, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", tenant, row.Topic, at, row.Rule, row.Epoch, row.Slot, row.Hash, note)
	return err
}

func (p rowPrinter) flush() error {
	if err := errors.Join(p.text.Flush(), p.lines.Flush()); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}
