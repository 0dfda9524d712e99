package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // zones of maintenance windows, also where the system has none

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/mute"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// lagwatchFlags are what to watch, by which rule, and whom to tell.
type lagwatchFlags struct {
	kafka   kafkaFlags
	table   tableFlags
	output  outputFlags
	logs    logFlags
	rule    ruleFlags
	targets targetFlags
	groups  []string
	topics  []string
	cluster string
	once    bool
	record  string
	listen  string
	state   string
	rules   string
	windows string
	token   secretFlag

	election lagwatch.Election
	hide     bool
	timeout  time.Duration
}

func newLagwatchCommand(e *env) *cobra.Command {
	var f lagwatchFlags
	cmd := &cobra.Command{
		Use:   "lagwatch [--once]",
		Short: "Page when one partition falls behind its peers, naming the tenant",
		Long: "Watches consumer groups. A partition fires when its lag is far above its peers' and it is late;\n" +
			"the page names the tenant whose records wait. What the cluster does not answer is unknown: it\n" +
			"never counts as well, and is reported. With --once it looks once: exit 0 when all was seen and\n" +
			"nothing fires, 1 when something fires, 3 when it could not see everything.",
		Example: "  tenantlane lagwatch --once --brokers kafka:9092 --group billing\n" +
			"  tenantlane lagwatch --brokers kafka:9092 --table routing.yaml --webhook-url-file hook.url --listen :9401\n" +
			"  tenantlane lagwatch --once --format json --min-lag 0 --min-delay 0   # the plain threefold rule",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.once {
				return e.lagwatchOnce(cmd.Context(), &f)
			}
			return e.lagwatchRun(cmd.Context(), &f)
		},
	}
	f.register(cmd.Flags())
	f.output.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.once, "once", false, "look once, print what was seen, and tell nobody")
	cmd.Flags().StringVar(&f.election.Group, "election-group", "", "with replicas: group that decides which one tells the targets")
	cmd.Flags().StringVar(&f.election.Topic, "election-topic", "", "with replicas: topic whose partition 0 the one that tells holds, like tenantlane.routing")
	cmd.Flags().StringVar(&f.record, "record", "", "`file` to which each sample is appended, for lagwatch replay")
	cmd.Flags().StringVar(&f.listen, "listen", "", "address for the page, /metrics and health; without a host it is loopback (default: none)")
	f.token.register(cmd.Flags(), watcherTokenFlag, "token that lets its holders add silences and markers at --listen")
	service(cmd)
	cmd.AddCommand(newLagwatchReplayCommand(e), newLagwatchExplainCommand(e), newLagwatchCheckCommand(e), newLagwatchTestPageCommand(e),
		newLagwatchSilenceCommand(e), newLagwatchMarkCommand(e))
	return cmd
}

// register adds what all commands that judge a cluster have.
func (f *lagwatchFlags) register(flags *pflag.FlagSet) {
	f.registerSight(flags)
	flags.StringVar(&f.state, "state", "", "file that keeps what must survive a restart (default: none)")
	flags.BoolVar(&f.hide, "hash-tenants", false, "tenants leave this process only as hashes")
	f.targets.register(flags)
	f.logs.register(flags, "info")
}

// registerSight adds what is looked at, and by which rule it is judged.
func (f *lagwatchFlags) registerSight(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.groups, "group", nil, "groups to watch, names or patterns like 'billing-*' (default: all)")
	flags.StringSliceVar(&f.topics, "topic", nil, "topics to watch, names or patterns (default: all that the groups read)")
	flags.StringVar(&f.cluster, "cluster", "", "name of the cluster in alerts (default: its id)")
	flags.DurationVar(&f.timeout, "sample-timeout", 0, "how long a round of questions may take (default: the interval, 3s to 30s)")
	flags.StringVar(&f.rules, "rules", "", "YAML file with other thresholds and owners for some groups and topics")
	flags.StringVar(&f.windows, "maintenance", "", "YAML file of maintenance windows, for targets that have no silences of their own")
	f.rule.register(flags)
	f.kafka.register(flags)
	f.table.register(flags, &f.kafka)
}

// ruleFlags are the thresholds; zero means off.
type ruleFlags struct{ lag.Rule }

func (r *ruleFlags) register(flags *pflag.FlagSet) {
	d := lag.Defaults()
	flags.DurationVar(&r.Interval, "interval", d.Interval, "time between samples")
	flags.Float64Var(&r.Ratio, "ratio", d.Ratio, "how many times its peers' baseline a hot partition's lag is")
	flags.Float64Var(&r.CriticalRatio, "critical-ratio", d.CriticalRatio, "ratio from which a page is critical")
	flags.Int64Var(&r.MinLag, "min-lag", d.MinLag, "least lag, in records, that is hot")
	flags.DurationVar(&r.MinDelay, "min-delay", d.MinDelay, "least delay that is hot")
	flags.DurationVar(&r.MaxDelay, "max-delay", d.MaxDelay, "delay from which a whole pool is behind")
	flags.DurationVar(&r.For, "for", d.For, "how long a partition is hot before it fires")
	flags.DurationVar(&r.KeepFiring, "keep-firing-for", d.KeepFiring, "how long it is clear before it resolves")
	flags.DurationVar(&r.TxnHanging, "txn-hanging", d.TxnHanging, "how long a transaction may hold readers back")
	flags.DurationVar(&r.DrainOK, "drain-ok", d.DrainOK, "hold the page while the lag is gone within this time")
}

// config is what the flags say. The returned function closes what it opened.
func (f *lagwatchFlags) config(ctx context.Context, e *env) (cfg lagwatch.Config, done func() error, err error) {
	done = func() error { return nil }
	opts, err := f.kafka.opts()
	if err != nil {
		return cfg, done, err
	}
	heartbeat, err := f.targets.heartbeat.optional()
	if err != nil {
		return cfg, done, err
	}
	targets, fallback, err := f.targets.targets()
	if err != nil {
		return cfg, done, err
	}
	log := f.logs.logger(e)
	cfg = lagwatch.Config{
		KafkaOpts: opts, Cluster: f.cluster, Groups: f.groups, Topics: f.topics, Rule: &f.rule.Rule,
		HashTenants: f.hide, Targets: targets, Fallback: fallback, HeartbeatURL: notify.Secret(heartbeat), RunbookURL: f.targets.runbooks,
		CommandFlags: f.commandFlags(), SampleTimeout: f.timeout, Listen: f.listen, StateFile: f.state, Logger: log,
	}
	if f.rules != "" {
		text, err := os.ReadFile(f.rules)
		if err == nil {
			cfg.Overrides, err = lagwatch.ParseOverrides(text, f.rule.Rule)
		}
		if err != nil {
			return cfg, done, usagef("--rules: %w", err)
		}
	}
	if f.windows != "" {
		text, err := os.ReadFile(f.windows)
		if err == nil {
			cfg.Maintenance, err = mute.ParseWindows(text)
		}
		if err != nil {
			return cfg, done, usagef("--maintenance: %w", err)
		}
	}
	if f.table.given() {
		table, err := f.table.open(ctx, log, opening{})
		if err != nil {
			return cfg, done, err
		}
		cfg.Table, done = table, table.Close
	}
	return cfg, done, nil
}

// commandFlags are what a command on a page needs beside its own words.
// Whoever needs TLS or SASL has them in the environment: pages leave.
func (f *lagwatchFlags) commandFlags() (flags []string) {
	if len(f.kafka.brokers) > 0 {
		flags = append(flags, "--brokers", strings.Join(f.kafka.brokers, ","))
	}
	switch {
	case f.table.topic != "":
		flags = append(flags, "--table-topic", f.table.topic)
	case f.table.file != "":
		flags = append(flags, "--table", f.table.file)
	}
	return flags
}

// watcher is a watcher that looks once.
func (f *lagwatchFlags) watcher(ctx context.Context, e *env) (w *lagwatch.Watcher, done func() error, err error) {
	cfg, done, err := f.config(ctx, e)
	if err != nil {
		return nil, done, err
	}
	if w, err = lagwatch.New(cfg); err != nil {
		return nil, done, usagef("%w", err)
	}
	return w, done, nil
}

// lagwatchOnce prints one evaluation; something that fires beats blindness.
func (e *env) lagwatchOnce(ctx context.Context, f *lagwatchFlags) (err error) {
	if f.record != "" || f.listen != "" {
		return usagef("--once: cannot go with --record or --listen")
	}
	w, done, err := f.watcher(ctx, e)
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return err
	}
	seen, err := w.Once(ctx)
	if err != nil {
		return err
	}
	if err := e.printEvaluation(f, seen); err != nil {
		return err
	}
	switch {
	case seen.Fires():
		return answerNo("%d alerts fire", len(seen.Alerts()))
	case seen.Blind:
		return &exitError{exitKafka, fmt.Errorf("not everything could be seen: %s", blindness(seen))}
	}
	return nil
}

// blindness is a group that is not there, or the first thing that could not be
// asked.
func blindness(seen *lagwatch.Evaluation) string {
	for i := range seen.Groups {
		if g := &seen.Groups[i]; g.State == "Dead" {
			return fmt.Sprintf("group %q does not exist", g.Group)
		}
	}
	if len(seen.Errors) > 0 {
		return seen.Errors[0]
	}
	return fmt.Sprintf("%d partitions are unknown", seen.Unknown)
}

func (e *env) printEvaluation(f *lagwatchFlags, seen *lagwatch.Evaluation) error {
	if f.output.json() {
		return e.printJSON(seen)
	}
	return seen.WriteText(e.stdout)
}

// lagwatchRun watches until it is stopped. With --format json it prints an
// evaluation per line, else a line when an alert begins or ends.
func (e *env) lagwatchRun(ctx context.Context, f *lagwatchFlags) (err error) {
	cfg, done, err := f.config(ctx, e)
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return err
	}
	if f.election != (lagwatch.Election{}) {
		cfg.Election = &f.election
	}
	token, err := f.token.optional()
	if err != nil {
		return err
	}
	cfg.APIToken = notify.Secret(token)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg.Registerer = registry
	if f.record != "" {
		file, bad := os.OpenFile(f.record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if bad != nil {
			return usagef("--record: %w", bad)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		cfg.Record = file
	}
	var changes lagwatch.Changes
	cfg.OnEvaluation = func(seen *lagwatch.Evaluation) {
		if f.output.json() {
			_ = e.printJSON(seen) // a reader that went away does not end the watch
			return
		}
		for _, line := range changes.Lines(seen) {
			_ = e.printf("%s\n", line)
		}
	}
	w, err := lagwatch.New(cfg)
	if err != nil {
		return usagef("%w", err)
	}
	if err := w.Run(ctx); err != nil {
		return usagef("%w", err)
	}
	return nil
}
