package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/mute"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// watcherTokenFlag names the token of a watcher's listener.
const watcherTokenFlag = "api-token"

// watcherFlags are the watchers to tell.
type watcherFlags struct {
	watchers []string
	token    secretFlag
	output   outputFlags
}

func (f *watcherFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.watchers, "watcher", nil, "listeners of lagwatch, http://host:port, all replicas; repeat or separate by commas")
	f.token.register(flags, watcherTokenFlag, "token that a watcher wants")
	f.output.register(flags)
}

// each calls every watcher, also after one has failed: a replica that is not
// told would page when it takes over.
func (f *watcherFlags) each(ctx context.Context, call func(ctx context.Context, at string, c *lagwatch.Client) error) error {
	if len(f.watchers) == 0 {
		return usagef("--watcher: missing; name the address that lagwatch serves with --listen")
	}
	token, err := f.token.optional()
	if err != nil {
		return err
	}
	var failed []error
	for _, at := range f.watchers {
		client, err := lagwatch.NewClient(at, notify.Secret(token))
		if err != nil {
			return usagef("--watcher: %w", err)
		}
		failed = append(failed, watcherError(ctx, at, call(ctx, at, client)))
		client.Close()
	}
	return errors.Join(failed...)
}

func watcherError(ctx context.Context, at string, err error) error {
	said, refused := errors.AsType[*lagwatch.StatusError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case refused && said.Status == http.StatusUnauthorized:
		return usagef("lagwatch at %s: %w; check --api-token-file", at, err)
	case refused && said.Status == http.StatusNotFound && said.Text == "":
		return usagef("lagwatch at %s takes no silences and markers: start it with --api-token-file", at)
	case refused && said.Status == http.StatusNotFound:
		return answerNo("lagwatch at %s: %w", at, err)
	case refused:
		return usagef("lagwatch at %s: %w", at, err)
	}
	return &exitError{exitKafka, fmt.Errorf("cannot reach lagwatch at %s: %w; does it run with --listen?", at, err)}
}

func newLagwatchSilenceCommand(e *env) *cobra.Command {
	return group("silence", "Keep alerts from targets without silences of their own, for a while",
		newSilenceAddCommand(e), newSilenceListCommand(e), newSilenceEndCommand(e))
}

func newSilenceAddCommand(e *env) *cobra.Command {
	var f watcherFlags
	var req lagwatch.SilenceRequest
	var long time.Duration
	cmd := &cobra.Command{
		Use:   "add --watcher URL --for DURATION --reason TEXT",
		Short: "Silence alerts by name, group or topic",
		Long: "Alerts that match do not begin at webhooks and Slack until the silence ends; those that were told stay open,\n" +
			"and their ends are told. Alertmanager and PagerDuty have silences of their own and are told everything.\n" +
			"The watchdog cannot be silenced. The silence is in the watcher's state file and survives its restart.",
		Example: "  tenantlane lagwatch silence add --watcher http://127.0.0.1:9401 --silence-group billing --for 2h --reason 'import until noon'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if req.Match == (mute.Match{}) {
				return usagef("say what to silence: --silence-alert, --silence-group or --silence-topic; --silence-alert '*' is all")
			}
			if req.By == "" {
				req.By = userName()
			}
			req.For = long.String()
			return f.each(cmd.Context(), func(ctx context.Context, at string, c *lagwatch.Client) error {
				s, err := c.Silence(ctx, req)
				if err != nil {
					return err
				}
				if f.output.json() {
					return e.printJSON(s)
				}
				return e.printf("%s: silence %s until %s\n", at, s.ID, s.Until.Format(time.RFC3339))
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Alert, "silence-alert", "", "name of alerts, or a pattern like 'partition_*' (default: any)")
	flags.StringVar(&req.Group, "silence-group", "", "groups, a name or a pattern (default: any)")
	flags.StringVar(&req.Topic, "silence-topic", "", "topics, a name or a pattern (default: any)")
	flags.DurationVar(&long, "for", time.Hour, "how long, at most 30 days")
	flags.StringVar(&req.By, "by", "", "who is responsible (default: the user)")
	flags.StringVar(&req.Reason, "reason", "", "why, required")
	f.register(flags)
	return cmd
}

func newSilenceListCommand(e *env) *cobra.Command {
	var f watcherFlags
	cmd := &cobra.Command{
		Use:     "list --watcher URL",
		Short:   "List silences, and the markers of deploys",
		Example: "  tenantlane lagwatch silence list --watcher http://127.0.0.1:9401",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.each(cmd.Context(), func(ctx context.Context, at string, c *lagwatch.Client) error {
				all, err := c.Journal(ctx)
				if err != nil {
					return err
				}
				if f.output.json() {
					return e.printJSON(all)
				}
				return e.printJournal(at, all)
			})
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (e *env) printJournal(at string, all *lagwatch.Journal) error {
	orAny := func(s string) string {
		if s == "" {
			return "any"
		}
		return s
	}
	if len(all.Silences)+len(all.Markers) == 0 {
		return e.printf("%s: no silences and no markers\n", at)
	}
	var failed []error
	for _, s := range all.Silences {
		failed = append(failed, e.printf("%s: silence %s until %s: alert %s, group %s, topic %s, by %s: %s\n",
			at, s.ID, s.Until.Format(time.RFC3339), orAny(s.Alert), orAny(s.Group), orAny(s.Topic), s.By, s.Reason))
	}
	for _, m := range all.Markers {
		failed = append(failed, e.printf("%s: marker %s: group %s: %s\n", at, m.At.Format(time.RFC3339), orAny(m.Group), m.Text))
	}
	return errors.Join(failed...)
}

func newSilenceEndCommand(e *env) *cobra.Command {
	var f watcherFlags
	cmd := &cobra.Command{
		Use:     "end ID --watcher URL",
		Short:   "End a silence now: what fires is told",
		Example: "  tenantlane lagwatch silence end 5f0c11aa --watcher http://127.0.0.1:9401",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.each(cmd.Context(), func(ctx context.Context, at string, c *lagwatch.Client) error {
				if err := c.EndSilence(ctx, args[0]); err != nil {
					return err
				}
				if f.output.json() {
					return e.printJSON(map[string]string{"ended": args[0]})
				}
				return e.printf("%s: silence %s has ended\n", at, args[0])
			})
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// newLagwatchMarkCommand announces a deploy.
func newLagwatchMarkCommand(e *env) *cobra.Command {
	var f watcherFlags
	var m lagwatch.Marker
	cmd := &cobra.Command{
		Use:   "mark TEXT --watcher URL",
		Short: "Announce a deploy: pages that begin soon afterwards show it",
		Long: "Pages that begin up to an hour later show the newest three markers of their group. A pipeline can do the\n" +
			"same by a POST of {\"text\",\"group\",\"by\"} to /api/v1/markers with the token as a bearer.",
		Example: "  tenantlane lagwatch mark 'billing 2.4.1' --mark-group billing --watcher http://127.0.0.1:9401",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m.Text = args[0]
			if m.By == "" {
				m.By = userName()
			}
			return f.each(cmd.Context(), func(ctx context.Context, at string, c *lagwatch.Client) error {
				marked, err := c.Mark(ctx, m)
				if err != nil {
					return err
				}
				if f.output.json() {
					return e.printJSON(marked)
				}
				return e.printf("%s: marked at %s\n", at, marked.At.Format(time.RFC3339))
			})
		},
	}
	cmd.Flags().StringVar(&m.Group, "mark-group", "", "groups that it concerns, a name or a pattern (default: all)")
	cmd.Flags().StringVar(&m.By, "by", "", "who did it (default: the user)")
	f.register(cmd.Flags())
	return cmd
}
