package main

import (
	"cmp"
	"errors"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func newTableCommand(e *env) *cobra.Command {
	return group("table", "Make, read and change the routing table",
		newTableInitCommand(e), newTableCheckCommand(e), newTableGetCommand(e), newTableSetCommand(e), newTableUnsetCommand(e),
		newTableDiffCommand(e), newTablePushCommand(e), newTableVerifyCommand(e), newTableHistoryCommand(e), newTableRollbackCommand(e), newTablePruneCommand(e))
}

func newTenantCommand(e *env) *cobra.Command {
	return group("tenant", "Act on one tenant everywhere", newTenantForgetCommand(e))
}

// changeFlags is what a command needs that changes a table.
type changeFlags struct {
	table  tableFlags
	kafka  kafkaFlags
	unsafe bool
	settle time.Duration
	await  time.Duration // how long live records may take to be committed
	by     store.Author
	how    opening
}

func (c *changeFlags) register(flags *pflag.FlagSet) {
	c.registerSafe(flags)
	c.registerUnsafe(flags)
}

func (c *changeFlags) registerUnsafe(flags *pflag.FlagSet) {
	flags.BoolVar(&c.unsafe, "unsafe", false, "change the table even if that breaks the order of live tenants")
}

// registerSafe is register for a change that is never unsafe.
func (c *changeFlags) registerSafe(flags *pflag.FlagSet) {
	c.table.register(flags, &c.kafka)
	c.registerEdit(flags)
}

// registerEdit adds what every change takes beside its table.
func (c *changeFlags) registerEdit(flags *pflag.FlagSet) {
	c.kafka.register(flags)
	flags.DurationVar(&c.settle, "settle", 2*time.Second, "how long producers without a session may take to see the new table, before it is checked again")
	flags.StringVar(&c.by.Actor, "actor", "", "who changes the table, for the history of a table in a topic (default: the user)")
	flags.StringVar(&c.by.Reason, "reason", "", "why, for the history of a table in a topic")
}

// edit gives a table's successor.
type edit func(tables tableStore, present *routing.Table) (*routing.Table, error)

// change makes an edit: it refuses what would re-route a live tenant, writes,
// waits until producers have the new table, and looks again. After it has
// written, after is not nil, whatever else goes wrong.
func (c *changeFlags) change(cmd *cobra.Command, args []string, edit edit) (before, after *routing.Table, err error) {
	ctx := cmd.Context()
	c.how.anew = c.unsafe
	life, opened, end := outliving(ctx)
	defer end()
	tables, err := c.table.open(life, zap.NewNop(), c.how)
	if err != nil {
		return nil, nil, cmp.Or(ctx.Err(), err)
	}
	opened()
	defer func() { err = errors.Join(err, tables.Close()) }()
	look, err := c.newLook(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer look.close()
	if c.await > 0 {
		if err = c.awaitDrained(ctx, tables, look, edit); err != nil {
			return nil, nil, err
		}
	}
	after, err = tables.update(ctx, c.author(cmd, args), func(present *routing.Table) (*routing.Table, error) {
		next, wrong := edit(tables, present)
		if wrong != nil {
			return nil, asUsage(wrong)
		}
		before = present
		return next, look.refuseLive(ctx, present, next)
	})
	if err != nil {
		return nil, nil, refused(err)
	}
	if !look.needed() {
		return before, after, nil
	}
	if err := tables.settled(ctx, after.Revision(), c.settle); err != nil {
		return before, after, err
	}
	return before, after, look.again(ctx)
}

// author is who changes the table, and why.
func (c *changeFlags) author(cmd *cobra.Command, args []string) store.Author {
	return authorOf(cmd, args, c.by)
}

// authorOf fills in what a person does not say of who does something and why.
func authorOf(cmd *cobra.Command, args []string, by store.Author) store.Author {
	if by.Actor == "" {
		by.Actor = userName()
	}
	if by.Reason == "" {
		by.Reason = strings.Join(append([]string{cmd.CommandPath()}, args...), " ") // by which command
	}
	return by
}

// userName is who runs this process, or "" where the system does not say.
func userName() string {
	me, err := user.Current()
	if err != nil {
		return ""
	}
	return me.Username
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
	if _, typed := errors.AsType[*exitError](err); typed {
		return err
	}
	if _, content := errors.AsType[*routing.Error](err); content || errors.Is(err, store.ErrRevision) {
		return answerNo("%w", err)
	}
	return err
}
