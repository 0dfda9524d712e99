package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/live"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

func newTableCommand(e *env) *cobra.Command {
	return group(e, "table", "Make, read and change the routing table",
		newTableInitCommand(e), newTableCheckCommand(e), newTableGetCommand(e), newTableSetCommand(e), newTableUnsetCommand(e),
		newTableDiffCommand(e), newTablePushCommand(e), newTableVerifyCommand(e), newTablePruneCommand(e))
}

func newTenantCommand(e *env) *cobra.Command {
	return group(e, "tenant", "Act on one tenant everywhere", newTenantForgetCommand(e))
}

// changeFlags is what a command needs that changes a table.
type changeFlags struct {
	table  tableFlags
	kafka  kafkaFlags
	unsafe bool
	settle time.Duration
}

func (c *changeFlags) register(flags *pflag.FlagSet) {
	c.table.register(flags)
	c.kafka.register(flags)
	flags.BoolVar(&c.unsafe, "unsafe", false, "change the table even if that breaks the order of live tenants")
	flags.DurationVar(&c.settle, "settle", 2*time.Second, "how long producers may take to see the new table, before it is checked again")
}

// change applies edits to the table: it refuses what would re-route a live
// tenant, writes, waits until producers have the new table, and looks again.
func (c *changeFlags) change(ctx context.Context, edit func(*routing.Table) (*routing.Table, error)) (before, after *routing.Table, err error) {
	file, err := c.table.open(ctx, zap.NewNop(), c.unsafe)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	before = file.Table()
	if after, err = edit(before); err != nil {
		return nil, nil, asUsage(err)
	}
	checks, stop, err := c.checks(ctx, before, after)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	for i := range checks {
		if err := checks[i].refuseLive(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := file.Write(ctx, after); err != nil {
		return nil, nil, refused(err)
	}
	return before, after, c.lookAgain(ctx, checks)
}

// asUsage makes an error that has no exit code yet one of usage.
func asUsage(err error) error {
	if _, typed := errors.AsType[*exitError](err); typed {
		return err
	}
	return usagef("%w", err)
}

// refused makes a store's refusal the answer "no".
func refused(err error) error {
	var content *routing.Error
	if errors.As(err, &content) || errors.Is(err, store.ErrRevision) {
		return answerNo("%w", err)
	}
	return err
}

// liveCheck looks for live records of what a change re-routes in one topic.
type liveCheck struct {
	client        *kgo.Client
	before, after *routing.Topic
	ends          map[int32]int64
}

// checks are one for each topic in which something moves.
func (c *changeFlags) checks(ctx context.Context, before, after *routing.Table) (checks []liveCheck, stop func(), err error) {
	moved := rerouting(before, after)
	if c.unsafe || len(moved) == 0 {
		return nil, func() {}, nil
	}
	if !c.kafka.given() {
		return nil, nil, usagef("this re-routes tenants of topic %q, and without brokers nobody can tell whether they have records under way: give --brokers, or --unsafe", moved[0])
	}
	client, err := c.kafka.connect(ctx, zap.NewNop())
	if err != nil {
		return nil, nil, err
	}
	for _, topic := range moved {
		from, _ := before.Topic(topic)
		to, _ := after.Topic(topic)
		checks = append(checks, liveCheck{client: client, before: from, after: to})
	}
	return checks, client.Close, nil
}

// rerouting lists the topics of which a change moves something.
func rerouting(before, after *routing.Table) (topics []string) {
	for _, d := range routing.Diff(before, after) {
		if !d.Added && !d.Removed && !d.Rehashed {
			topics = append(topics, d.Topic)
		}
	}
	return topics
}

// refuseLive is the answer "no" when a live tenant would be re-routed. A topic
// that does not exist has no records.
func (c *liveCheck) refuseLive(ctx context.Context) error {
	got, err := live.Rerouted(ctx, c.client, c.before, c.after)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil
	}
	if err != nil {
		return kafkaError("looking for live records", err)
	}
	c.ends = got.Ends
	if got.Record == nil {
		return nil
	}
	return answerNo("tenant %q is live: group %q stands at offset %d of partition %d of topic %q and has not committed its record at %d; move it with `%s`, or give --unsafe to break its order",
		picture.Tenant(string(got.Record.Tenant)), got.Record.Group, got.Record.Committed, got.Record.Partition, c.before.Name(), got.Record.Offset,
		moveCommand(c.after, got.Record.Tenant))
}

// moveCommand is what moves a tenant to where a table has it.
func moveCommand(to *routing.Topic, tenant []byte) string {
	name := string(tenant)
	route := to.Lookup(tenant, nil)
	ps := make([]string, len(route.Partitions))
	for i, p := range route.Partitions {
		ps[i] = fmt.Sprint(p)
	}
	if shown := picture.Tenant(name); shown != name {
		name = "--hex " + hex.EncodeToString(tenant)
	}
	return fmt.Sprintf("tenantlane move start %s --topic %s --to %s", name, to.Name(), strings.Join(ps, ","))
}

// lookAgain waits until producers have the new table and names a record that
// came to an old place meanwhile.
func (c *changeFlags) lookAgain(ctx context.Context, checks []liveCheck) error {
	checks = known(checks)
	if len(checks) == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(c.settle):
	}
	for _, check := range checks {
		found, err := live.After(ctx, check.client, check.before, check.after, check.ends)
		if err != nil {
			return kafkaError("looking for records behind the change", err)
		}
		if found != nil {
			return answerNo("the table is changed, but a producer still sent tenant %q to partition %d of topic %q, offset %d: its order may break there",
				picture.Tenant(string(found.Tenant)), found.Partition, check.before.Name(), found.Offset)
		}
	}
	return nil
}

// known are the checks of topics that exist.
func known(checks []liveCheck) []liveCheck {
	var there []liveCheck
	for _, c := range checks {
		if c.ends != nil {
			there = append(there, c)
		}
	}
	return there
}
