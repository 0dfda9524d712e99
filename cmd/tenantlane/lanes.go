package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/admin"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func newLanesCommand(e *env) *cobra.Command {
	return group("lanes", "Look at tenants at running workers, and act on one",
		newLanesListCommand(e), newLanesPauseCommand(e), newLanesResumeCommand(e), newLanesSkipCommand(e), newLanesLimitCommand(e))
}

// lanesFlags are the workers to ask, and how they are told who asks.
type lanesFlags struct {
	workers []string
	token   secretFlag
	trust   adminTrust
	output  outputFlags
	hex     hexFlags
	act     consumer.Act
}

func (f *lanesFlags) register(flags *pflag.FlagSet) {
	f.registerWorkers(flags)
	f.hex.register(flags)
	f.output.register(flags)
}

// registerWorkers adds whom to ask, and how.
func (f *lanesFlags) registerWorkers(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.workers, "admin", nil, "admin endpoints of workers, http://host:port; repeat or separate by commas")
	registerAdminToken(flags, &f.token)
	f.trust.register(flags)
}

// registerAct adds who acts, and why.
func (f *lanesFlags) registerAct(flags *pflag.FlagSet) {
	flags.StringVar(&f.act.Actor, "actor", "", "who acts, for the worker's log (default: the user)")
	flags.StringVar(&f.act.Reason, "reason", "", "why, for the worker's log (default: the command)")
}

// actor is who acts: without a reason, by which command.
func (f *lanesFlags) actor(cmd *cobra.Command, args []string) consumer.Act {
	return consumer.Act(authorOf(cmd, args, store.Author(f.act)))
}

// ask calls each worker, also after one has failed.
func (f *lanesFlags) ask(ctx context.Context, call func(worker string, c *admin.Client) error) error {
	if len(f.workers) == 0 {
		return usagef("--admin: missing; name the endpoint that a worker serves with `tenantlane worker --admin`")
	}
	token, err := f.token.optional()
	if err != nil {
		return err
	}
	trust, err := f.trust.config()
	if err != nil {
		return err
	}
	var failed []error
	for _, worker := range f.workers {
		client, err := admin.NewTLSClient(worker, token, trust)
		if err != nil {
			return usagef("--admin: %w", err)
		}
		err = workerError(ctx, worker, call(worker, client))
		client.Close()
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// workerError gives a worker's refusal, or its silence, the exit code that it
// means.
func workerError(ctx context.Context, worker string, err error) error {
	said, refused := errors.AsType[*admin.StatusError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case refused && said.Status == http.StatusUnauthorized:
		return usagef("worker %s: %w; check --admin-token-file", worker, err)
	case refused && (said.Status == http.StatusNotFound || said.Status == http.StatusConflict):
		return answerNo("worker %s: %w", worker, err)
	case refused && said.Status == http.StatusServiceUnavailable:
		return &exitError{exitKafka, fmt.Errorf("worker %s: %w; try again", worker, err)}
	case refused:
		return usagef("worker %s: %w", worker, err)
	}
	return &exitError{exitKafka, fmt.Errorf("cannot reach the worker at %s: %w; does it run with --admin?", worker, err)}
}

// effectJSON is what one worker answered to an act.
type effectJSON struct {
	Worker string `json:"worker"`
	Tenant string `json:"tenant"`
	Hex    string `json:"tenant_hex,omitempty"`
	admin.Effect
}

// printEffect prints an answer, and warns of what would not outlive the worker.
func (e *env) printEffect(f *lanesFlags, worker string, tenant []byte, done string, effect admin.Effect) error {
	name, asHex := tenantText(tenant)
	if effect.Lanes > 0 && !effect.Committed {
		e.note("worker %s: it holds there, but is not in the group's commits yet; look again with `tenantlane lanes list`", worker)
	}
	if f.output.json() {
		return e.printJSON(effectJSON{worker, name, asHex, effect})
	}
	return e.printf("%s: %s, %d of its lanes were concerned\n", worker, done, effect.Lanes)
}

// actOnLanes does something to a tenant's lanes at each worker, and tells that it
// is done.
func (e *env) actOnLanes(cmd *cobra.Command, f *lanesFlags, args []string, done string,
	act func(*admin.Client, context.Context, []byte, consumer.Act) (admin.Effect, error),
) error {
	tenant, err := f.hex.tenant(args[0])
	if err != nil {
		return err
	}
	return f.ask(cmd.Context(), func(worker string, c *admin.Client) error {
		effect, err := act(c, cmd.Context(), tenant, f.actor(cmd, args))
		if err != nil {
			return err
		}
		return e.printEffect(f, worker, tenant, done+" "+args[0], effect)
	})
}

func newLanesPauseCommand(e *env) *cobra.Command {
	var f lanesFlags
	cmd := &cobra.Command{
		Use:   "pause TENANT --admin URL",
		Short: "Begin no more of a tenant's records, until it is resumed",
		Long: "Begins no more handlings of the tenant at the workers named. What runs ends; records wait. The pause is\n" +
			"in the group's commits, and goes along to another worker with the partitions where the tenant has records.\n" +
			"A tenant that has none is paused at these workers only.",
		Example: "  tenantlane lanes pause acme-corp --admin http://127.0.0.1:9400 --reason 'import runs wild'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.actOnLanes(cmd, &f, args, "paused", (*admin.Client).Pause)
		},
	}
	f.register(cmd.Flags())
	f.registerAct(cmd.Flags())
	return cmd
}

func newLanesResumeCommand(e *env) *cobra.Command {
	var f lanesFlags
	cmd := &cobra.Command{
		Use:   "resume TENANT --admin URL",
		Short: "Let a tenant that is paused or parked go on",
		Long: "Ends the tenant's pause, and lets its parked lanes go on, each with the record that it was parked for: that\n" +
			"is tried anew, with all its attempts.",
		Example: "  tenantlane lanes resume acme-corp --admin http://127.0.0.1:9400,http://127.0.0.1:9401",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.actOnLanes(cmd, &f, args, "resumed", (*admin.Client).Resume)
		},
	}
	f.register(cmd.Flags())
	f.registerAct(cmd.Flags())
	return cmd
}

func newLanesSkipCommand(e *env) *cobra.Command {
	var f lanesFlags
	var topic string
	var partition int32
	var offset int64
	cmd := &cobra.Command{
		Use:   "skip TENANT --topic T --partition P --offset O --admin URL",
		Short: "Give up the record that holds up a tenant's lane",
		Long: "Ends one record unhandled, and lets its lane go on with the next. The record must be the first unfinished one\n" +
			"of a lane of the tenant, and parked, failing, or its tenant paused: `tenantlane lanes list` shows where it is.\n" +
			"Nothing else is skipped: a record that is elsewhere by now is an answer of no (exit 1). The record stays in the\n" +
			"topic.",
		Example: "  tenantlane lanes skip acme-corp --topic orders --partition 3 --offset 1712 --admin http://127.0.0.1:9400 --reason 'customer sends it again'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"topic", "partition", "offset"} {
				if !cmd.Flags().Changed(name) {
					return usagef("--%s: missing; a record is named by topic, partition and offset", name)
				}
			}
			tenant, err := f.hex.tenant(args[0])
			if err != nil {
				return err
			}
			at := consumer.Place{Topic: topic, Partition: partition, Offset: offset}
			return e.skipAtOne(cmd.Context(), &f, tenant, at, f.actor(cmd, args))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&topic, "topic", "", "topic of the record")
	flags.Int32Var(&partition, "partition", 0, "its partition")
	flags.Int64Var(&offset, "offset", 0, "its offset")
	f.register(flags)
	f.registerAct(flags)
	return cmd
}

// skipAtOne skips a record at the worker that has it: of several, all others
// say that its partition is not theirs.
func (e *env) skipAtOne(ctx context.Context, f *lanesFlags, tenant []byte, at consumer.Place, act consumer.Act) error {
	elsewhere, skipped := error(nil), false
	err := f.ask(ctx, func(worker string, c *admin.Client) error {
		effect, err := c.Skip(ctx, tenant, at, act)
		said, refused := errors.AsType[*admin.StatusError](err)
		if refused && said.Status == http.StatusNotFound {
			elsewhere = err
			return nil
		}
		if err != nil {
			return err
		}
		skipped = true
		return e.printEffect(f, worker, tenant, "skipped "+at.String(), effect)
	})
	if err == nil && !skipped && elsewhere != nil {
		return answerNo("no worker of --admin has it: %w", elsewhere)
	}
	return err
}

func newLanesLimitCommand(e *env) *cobra.Command {
	var f lanesFlags
	var l consumer.Limits
	cmd := &cobra.Command{
		Use:   "limit TENANT [--rate n] [--concurrency n] [--weight w] --admin URL",
		Short: "Give a tenant limits of its own at a worker, at once",
		Long: "Sets all limits of the tenant: those that are not given are the table's. They hold at the workers named until\n" +
			"these end. What is to stay belongs into the table, whose tiers workers follow while they run.",
		Example: "  tenantlane lanes limit acme-corp --rate 50 --admin http://127.0.0.1:9400\n" +
			"  tenantlane lanes limit acme-corp --admin http://127.0.0.1:9400   # back to the table's",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tenant, err := f.hex.tenant(args[0])
			if err != nil {
				return err
			}
			return f.ask(cmd.Context(), func(worker string, c *admin.Client) error {
				if err := c.Limit(cmd.Context(), tenant, l, f.actor(cmd, args)); err != nil {
					return err
				}
				if f.output.json() {
					name, asHex := tenantText(tenant)
					return e.printJSON(effectJSON{Worker: worker, Tenant: name, Hex: asHex})
				}
				return e.printf("%s: limited %s\n", worker, args[0])
			})
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&l.Rate, "rate", 0, "records a second; negative: no limit, whatever its tier says")
	flags.Float64Var(&l.Burst, "burst", 0, "records at once after a rest (default: one second's)")
	flags.IntVar(&l.Concurrency, "concurrency", 0, "lanes at once; negative: no limit")
	flags.Float64Var(&l.Weight, "weight", 0, "share of handler time within its tier")
	f.register(flags)
	f.registerAct(flags)
	return cmd
}
