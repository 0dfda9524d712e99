package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

// The modes of a move.
const (
	modeStrict  = rebalance.ModeStrict
	modeStopped = rebalance.ModeStopped
)

// drainPoll is how often a stopped move looks whether its tenant's records are
// committed.
const drainPoll = 500 * time.Millisecond

// moveFlags say what moves, where to, and how long it may take.
type moveFlags struct {
	changeFlags
	logs      logFlags
	tenants   hexFlags
	topic     string
	to        string
	slots     string
	spread    string
	mode      string
	unordered bool
	deadline  time.Duration
	drain     time.Duration
}

func newMoveStartCommand(e *env) *cobra.Command {
	var output outputFlags
	var f moveFlags
	cmd := &cobra.Command{
		Use:   "start TENANT --to N | start --slot N --to M",
		Short: "Move a tenant or slots to other partitions",
		Long: "Strict, the way of a table in a topic, needs nobody to stop: producers hold the unit's records back for some\n" +
			"milliseconds, a fence is written into the old partition, and the table switches. Workers handle what lies before\n" +
			"the fence first. Until the table has switched, anything that goes wrong aborts the move, and nothing has changed.\n" +
			"It needs `producers: wrapped` in the table, which says that every producer of the topic is a partitioner.Producer;\n" +
			"--accept-unordered does without: " + rebalance.UnorderedCost + ".\n\n" +
			"Stopped, the way of a table in a file, is for a tenant whose producers are stopped, or hold it back\n" +
			"(Producer.Pause). It waits until every group of the topic has committed the tenant's records, gives the tenant\n" +
			"its new partitions, waits until producers have the new table, and looks once more: a record that a producer sent\n" +
			"to the old partition all the same is named (exit 1). If the records are not committed in time nothing has changed.",
		Example: "  tenantlane move start acme-corp --topic orders --to 0 --table-topic tenantlane.routing\n" +
			"  tenantlane move start --slot 17,40-43 --topic orders --to 5 --table-topic tenantlane.routing\n" +
			"  tenantlane move start acme-corp --to 0 --table routing.yaml --brokers kafka:9092 --drain-timeout 10m",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.start(cmd, e, args, output.json()) },
	}
	flags := cmd.Flags()
	f.registerSafe(flags)
	f.tenants.register(flags)
	flags.StringVar(&f.topic, "topic", "", "topic whose tenant moves (default: the table's only one)")
	flags.StringVar(&f.to, "to", "", "partition that takes the records, or several with --spread")
	flags.StringVar(&f.slots, "slot", "", "instead of a tenant: slots, like 17 or 17,40-43; tenants with their own placement stay")
	flags.Var(choice(&f.spread, "", "key", "random"), "spread", "how several partitions share the records: key or random")
	flags.Var(choice(&f.mode, "", modeStrict, modeStopped), "mode", "how it moves: strict, or stopped, with the tenant's producers stopped (default: strict with a table in a topic, else stopped)")
	flags.BoolVar(&f.unordered, "accept-unordered", false, "strict: also where the table does not say producers: wrapped, giving up order")
	flags.DurationVar(&f.deadline, "deadline", rebalance.DefaultDeadline, "strict: after how long it is given up")
	flags.DurationVar(&f.drain, "drain-timeout", 300*time.Second, "stopped: how long the tenant's records may take to be committed")
	f.logs.register(flags, "info")
	output.register(flags)
	return cmd
}

func (f *moveFlags) start(cmd *cobra.Command, e *env, args []string, asJSON bool) error {
	if err := f.validate(cmd, args); err != nil {
		return err
	}
	if f.mode == modeStrict {
		return f.strict(cmd, e, args, asJSON)
	}
	return f.stopped(cmd, e, args, asJSON)
}

// validate also chooses the mode where none is given.
func (f *moveFlags) validate(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		if _, err := f.tenants.tenant(args[0]); err != nil {
			return err
		}
	}
	if f.mode == "" {
		f.mode = modeStopped
		if f.table.topic != "" {
			f.mode = modeStrict
		}
	}
	switch {
	case len(args) == 0 && f.slots == "":
		return usagef("needs a tenant, or --slot")
	case len(args) > 0 && f.slots != "":
		return usagef("--slot moves slots and takes no tenant")
	case f.to == "":
		return usagef("needs --to, the partition that takes the records")
	case f.drain < 0:
		return usagef("--drain-timeout: %v is negative", f.drain)
	case f.deadline <= 0:
		return usagef("--deadline: %v, must be above 0", f.deadline)
	case f.slots != "" && (f.mode == modeStopped || f.spread != ""):
		return usagef("--slot moves by --mode strict and without --spread")
	case f.mode == modeStrict && f.table.file != "":
		return errFileMove(f.table.file)
	case !f.kafka.given():
		return usagef("no brokers: give --brokers host:port, or set KAFKA_BROKERS; a move has to see what is committed")
	}
	other := map[string][]string{modeStrict: {"drain-timeout", "settle"}, modeStopped: {"accept-unordered", "deadline"}}
	for _, name := range other[f.mode] {
		if cmd.Flags().Changed(name) {
			return usagef("--%s does nothing for a move by --mode %s", name, f.mode)
		}
	}
	return nil
}

// stopped moves a tenant whose producers are stopped.
func (f *moveFlags) stopped(cmd *cobra.Command, e *env, args []string, asJSON bool) error {
	tenant, err := f.tenants.tenant(args[0])
	if err != nil {
		return err
	}
	m := moveJSON{State: stateAborted, Mode: f.mode, Fence: []fenceJSON{}, WaitingFor: []string{}}
	m.unit(string(tenant), nil)
	began := time.Now()
	f.await = f.drain
	_, after, err := f.change(cmd, args, func(_ tableStore, t *routing.Table) (*routing.Table, error) {
		return f.edit(t, string(tenant), &m)
	})
	m.PauseMS = milliseconds(time.Since(began))
	if after != nil {
		m.State, m.Revision = stateSwitched, after.Revision()
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
	switch {
	case m.State != stateSwitched:
		return nil // the error says it all
	case m.Mode == modeStopped:
		return e.printf("%s: %s moved %s after %v; table revision %d; its producers may go on\n", m.Topic, m.what(), m.way(), m.pause(), m.Revision)
	}
	return e.printf("%s: %s moved %s; its producers waited %v; fence at %s; table revision %d; move %s\n",
		m.Topic, m.what(), m.way(), m.pause(), m.fences(), m.Revision, m.Move)
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
