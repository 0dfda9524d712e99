package main

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

// modeStopped is the move during which the tenant's producers are stopped.
const modeStopped = "stopped"

// drainPoll is how often a stopped move looks whether its tenant's records are
// committed.
const drainPoll = 500 * time.Millisecond

func newMoveCommand(e *env) *cobra.Command {
	return group("move", "Move a tenant without breaking its order", newMoveStartCommand(e))
}

// moveJSON is a move that has ended.
type moveJSON struct {
	Move       string      `json:"move"`
	State      string      `json:"state"`
	Mode       string      `json:"mode"`
	Topic      string      `json:"topic"`
	Tenant     string      `json:"tenant"`
	TenantHex  string      `json:"tenant_hex"`
	From       []int32     `json:"from"`
	To         []int32     `json:"to"`
	Fence      []fenceJSON `json:"fence"`
	PauseMS    float64     `json:"pause_ms"`
	Revision   uint64      `json:"revision"`
	WaitingFor []string    `json:"waiting_for"`
}

type fenceJSON struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// moveFlags say what moves, where to, and how long it may take.
type moveFlags struct {
	changeFlags
	tenants hexFlags
	topic   string
	to      string
	spread  string
	mode    string
	drain   time.Duration
}

func newMoveStartCommand(e *env) *cobra.Command {
	var output outputFlags
	var f moveFlags
	cmd := &cobra.Command{
		Use:   "start TENANT --to N",
		Short: "Move a tenant whose producers are stopped",
		Long: "Waits until every group of the topic has committed the tenant's records, gives the tenant its new\n" +
			"partitions, waits until producers have the new table, and looks once more: a record that a producer\n" +
			"sent to the old partition all the same is named (exit 1). Stop the tenant's producers first, or pause\n" +
			"the tenant in them (Producer.Pause), and start them again afterwards. If the tenant's records are not\n" +
			"committed in time nothing has changed.",
		Example: "  tenantlane move start acme-corp --to 0 --table routing.yaml --brokers kafka:9092\n" +
			"  tenantlane move start acme-corp --topic orders --to 0 --table-topic tenantlane.routing --drain-timeout 10m",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.start(cmd, e, args, output.json()) },
	}
	flags := cmd.Flags()
	f.registerSafe(flags)
	f.tenants.register(flags)
	flags.StringVar(&f.topic, "topic", "", "topic whose tenant moves (default: the table's only one)")
	flags.StringVar(&f.to, "to", "", "partition that takes the records, or several with --spread")
	flags.Var(choice(&f.spread, "", "key", "random"), "spread", "how several partitions share the records: key or random")
	f.mode = modeStopped
	flags.Var(choice(&f.mode, modeStopped), "mode", "how it moves: stopped, with the tenant's producers stopped")
	flags.DurationVar(&f.drain, "drain-timeout", 300*time.Second, "how long the tenant's records may take to be committed")
	output.register(flags)
	return cmd
}

func (f *moveFlags) start(cmd *cobra.Command, e *env, args []string, asJSON bool) error {
	tenant, err := f.tenants.tenant(args[0])
	switch {
	case err != nil:
		return err
	case f.to == "":
		return usagef("needs --to, the partition that takes the tenant's records")
	case f.drain < 0:
		return usagef("--drain-timeout: %v is negative", f.drain)
	case !f.kafka.given():
		return usagef("no brokers: give --brokers host:port, or set KAFKA_BROKERS; a move has to see what is committed")
	}
	m := moveJSON{State: "ABORTED", Mode: f.mode, Fence: []fenceJSON{}, WaitingFor: []string{}}
	m.Tenant, _ = tenantText(tenant)
	m.TenantHex = hex.EncodeToString(tenant)
	began := time.Now()
	f.await = f.drain
	_, after, err := f.change(cmd, args, func(_ tableStore, t *routing.Table) (*routing.Table, error) {
		return f.edit(t, string(tenant), &m)
	})
	m.PauseMS = float64(time.Since(began).Microseconds()) / 1000
	if after != nil {
		m.State, m.Revision = "SWITCHED", after.Revision()
	}
	if m.Topic == "" {
		return err // it was not begun
	}
	if printed := e.printMove(m, asJSON); printed != nil {
		return printed
	}
	return err
}

// edit gives the table that follows t by the move, and notes what moves.
func (f *moveFlags) edit(t *routing.Table, tenant string, m *moveJSON) (*routing.Table, error) {
	topic, err := pickTopic(t, f.topic)
	if err != nil {
		return nil, err
	}
	to, err := routing.ParsePartitions(f.to, topic.Partitions())
	if err != nil {
		return nil, usagef("--to: %w", err)
	}
	route := topic.Lookup([]byte(tenant), nil)
	have, placed := topic.Placement(tenant)
	place := routing.Placement{Partitions: to, Spread: spreadOf(f.spread), Tier: have.Tier}
	if placed && !have.FollowSlot && slices.Equal(have.Partitions, to) && have.Spread == place.Spread {
		return nil, answerNo("tenant %q of topic %q is on partition %s already", picture.Tenant(tenant), topic.Name(), routing.FormatPartitions(to))
	}
	next, err := t.Edit(routing.SetPlacement(topic.Name(), tenant, place))
	if err == nil {
		m.Topic, m.From, m.To = topic.Name(), slices.Clone(route.Partitions), to
		m.Move = topic.Name() + "/" + m.TenantHex
	}
	return next, err
}

func (e *env) printMove(m moveJSON, asJSON bool) error {
	if asJSON {
		return e.printJSON(m)
	}
	if m.State == "ABORTED" {
		return nil // the error says it all
	}
	return e.printf("%s: %s moved from partition %s to %s after %v; table revision %d; its producers may go on\n", m.Topic, picture.Tenant(m.Tenant),
		routing.FormatPartitions(m.From), routing.FormatPartitions(m.To), time.Duration(m.PauseMS*float64(time.Millisecond)).Round(time.Millisecond), m.Revision)
}

// awaitDrained looks until a change re-routes no live tenant, or await is over.
func (c *changeFlags) awaitDrained(ctx context.Context, tables tableStore, look *liveLook, edit edit) error {
	for end := time.Now().Add(c.await); ; {
		present := tables.Table()
		next, err := edit(tables, present)
		if err != nil {
			return asUsage(err)
		}
		err = look.refuseLive(ctx, present, next)
		live, waits := errors.AsType[*liveError](err)
		if !waits {
			return err
		}
		if time.Now().Add(drainPoll).After(end) {
			return answerNo("nothing has changed within --drain-timeout %v, for %s; stop the tenant's producers, and see that the group works", c.await, live.what)
		}
		if err := wait(ctx, drainPoll); err != nil {
			return err
		}
	}
}
