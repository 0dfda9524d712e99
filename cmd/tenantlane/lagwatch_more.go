package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/lagwatch"
)

// newLagwatchReplayCommand runs the rule over a recording.
func newLagwatchReplayCommand(e *env) *cobra.Command {
	var rule ruleFlags
	var kafka kafkaFlags
	var table tableFlags
	var output outputFlags
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Run the rule over recorded samples: when would each alert have fired?",
		Long: "Reads a file that `lagwatch --record FILE` wrote, and decides anew with the given thresholds.\n" +
			"With --format json it prints an evaluation per line, else a line when an alert begins or ends.",
		Example: "  tenantlane lagwatch replay samples.jsonl --ratio 5 --for 10m",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			cfg := lagwatch.Config{Rule: &rule.Rule}
			if table.given() {
				file, bad := table.open(cmd.Context(), (&logFlags{level: "warn"}).logger(e), opening{})
				if bad != nil {
					return bad
				}
				defer func() { err = errors.Join(err, file.Close()) }()
				cfg.Table = file
			}
			recording, err := os.Open(args[0])
			if err != nil {
				return usagef("%w", err)
			}
			defer recording.Close()
			var changes lagwatch.Changes
			return lagwatch.Replay(recording, cfg, func(seen *lagwatch.Evaluation) error {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				if output.json() {
					return e.printJSON(seen)
				}
				for _, line := range changes.Lines(seen) {
					if err := e.printf("%s\n", line); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	rule.register(cmd.Flags())
	kafka.register(cmd.Flags())
	table.register(cmd.Flags(), &kafka)
	output.register(cmd.Flags())
	return cmd
}

// newLagwatchExplainCommand says why a partition did or did not page.
func newLagwatchExplainCommand(e *env) *cobra.Command {
	var f lagwatchFlags
	cmd := &cobra.Command{
		Use:   "explain GROUP TOPIC PARTITION",
		Short: "Show each condition of the rule for a partition, and why it did or did not page",
		Long: "Looks once, with the past of the state file of a running lagwatch if --state names it, and shows\n" +
			"each condition with its value and limit. Exit 0 when it does not fire, 1 when it does, 3 unseen.",
		Example: "  tenantlane lagwatch explain billing orders 7 --brokers kafka:9092 --state lagwatch.state",
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			partition, err := strconv.ParseInt(args[2], 10, 32)
			if err != nil || partition < 0 {
				return usagef("partition %q is not a number", args[2])
			}
			f.groups, f.topics = args[:1], args[1:2]
			w, done, err := f.watcher(cmd.Context(), e)
			defer func() { err = errors.Join(err, done()) }()
			if err != nil {
				return err
			}
			if _, err := w.Once(cmd.Context()); err != nil {
				return err
			}
			x, ok := w.Explain(args[0], args[1], int32(partition))
			if !ok {
				return &exitError{exitKafka, fmt.Errorf("partition %d of topic %q, group %q, cannot be seen", partition, args[1], args[0])}
			}
			return e.printExplanation(&f, x)
		},
	}
	f.register(cmd.Flags())
	f.output.register(cmd.Flags())
	return cmd
}

func (e *env) printExplanation(f *lagwatchFlags, x *lagwatch.Explanation) error {
	var err error
	if f.output.json() {
		err = e.printJSON(x)
	} else {
		err = x.WriteText(e.stdout)
	}
	switch {
	case err != nil:
		return err
	case len(x.Firing) > 0:
		return answerNo("partition %d fires", x.Partition)
	case x.Class == "UNKNOWN":
		return &exitError{exitKafka, fmt.Errorf("partition %d could not be seen", x.Partition)}
	}
	return nil
}

// newLagwatchCheckCommand looks whether a watcher with these flags could work.
func newLagwatchCheckCommand(e *env) *cobra.Command {
	var f lagwatchFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that everything can be seen, someone is told, and silence would be noticed",
		Long: "Looks once with the flags of `lagwatch` and sends nothing. It fails (exit 1) when something cannot be\n" +
			"seen, no target is told, or nothing outside would notice that this watcher went silent.",
		Example: "  tenantlane lagwatch check --brokers kafka:9092 --alertmanager-url http://alertmanager:9093 --state lagwatch.state",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			w, done, err := f.watcher(cmd.Context(), e)
			defer func() { err = errors.Join(err, done()) }()
			if err != nil {
				return err
			}
			findings, err := w.Check(cmd.Context())
			if err != nil {
				return err
			}
			return e.printFindings(&f, findings)
		},
	}
	f.register(cmd.Flags())
	f.output.register(cmd.Flags())
	return cmd
}

func (e *env) printFindings(f *lagwatchFlags, findings []lagwatch.Finding) error {
	if f.output.json() {
		if err := e.printJSON(map[string]any{"findings": findings}); err != nil {
			return err
		}
	}
	bad := 0
	for _, finding := range findings {
		word := "ok"
		if !finding.OK {
			word = "FAIL"
			bad++
		}
		if f.output.json() {
			continue
		}
		if err := e.printf("%-4s  %-8s  %s\n", word, finding.Name, finding.Detail); err != nil {
			return err
		}
	}
	if bad > 0 {
		return answerNo("%d of %d checks failed", bad, len(findings))
	}
	return nil
}

// testPageTime bounds a test page.
const testPageTime = 30 * time.Second

// newLagwatchTestPageCommand sends a page that says it is a test.
func newLagwatchTestPageCommand(e *env) *cobra.Command {
	var f lagwatchFlags
	cmd := &cobra.Command{
		Use:     "test-page",
		Short:   "Send a page that says it is a test to every target, and its end",
		Example: "  TENANTLANE_WEBHOOK_URL=https://example.com/hook tenantlane lagwatch test-page --brokers kafka:9092",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, cancel := context.WithTimeout(cmd.Context(), testPageTime)
			defer cancel()
			w, done, err := f.watcher(ctx, e)
			defer func() { err = errors.Join(err, done()) }()
			if err != nil {
				return err
			}
			if f.targets.none() {
				return usagef("no target: give --webhook-url-file, --alertmanager-url, --pagerduty-key-file or --slack-url-file")
			}
			if err := w.TestPage(ctx); err != nil {
				return answerNo("not every target took the test page: %w", err)
			}
			return e.printf("every target took the test page\n")
		},
	}
	f.register(cmd.Flags())
	return cmd
}
