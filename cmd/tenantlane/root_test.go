package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestUsageErrorsAreOneLineAndExit2(t *testing.T) {
	for _, c := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"verison"}, []string{`unknown command "verison"`, "version"}},
		{[]string{"config"}, []string{"needs one of", "print"}},
		{[]string{"config", "prnt"}, []string{`unknown command "prnt"`, "print"}},
		{[]string{"version", "--nope"}, []string{"--nope", "tenantlane version --help"}},
		{[]string{"version", "extra"}, []string{"extra"}},
		{[]string{"version", "--format", "xml"}, []string{"--format", "text", "json"}},
		{[]string{"completion", "tcsh"}, []string{"tcsh"}},
		{[]string{"completion"}, []string{"accepts 1 arg", "usage: tenantlane completion bash|zsh|"}},
		{[]string{"config", "print", "--sasl-password", "x"}, []string{"visible", "TENANTLANE_SASL_PASSWORD", "--sasl-password-file"}},
		{[]string{"config", "print", "--", "nope"}, []string{"nope"}},
		{[]string{"config", "print", "--", "version", "--nope"}, []string{"--nope"}},
		{[]string{"version", "--config", "/does/not/exist.yaml"}, []string{"--config", "no such file"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			runArgs(t, c.args...).wantError(t, exitUsage, c.parts...)
		})
	}
}

func TestHelpHasAnExampleForEveryCommand(t *testing.T) {
	root := newRootCommand(&env{getenv: os.LookupEnv})
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() && cmd.Name() != "help" && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		if cmd.Short == "" {
			t.Errorf("%s has no short text", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); strings.ContainsAny(value, " -") {
				t.Errorf("%s: help names the value of --%s %q", cmd.CommandPath(), f.Name, value)
			}
		})
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(root)

	got := runArgs(t, "version", "--help")
	got.wantDone(t)
	if !strings.Contains(got.stdout, "Examples:") || got.stderr != "" {
		t.Errorf("help on stdout %q, stderr %q", got.stdout, got.stderr)
	}
}

func TestVersionPrintsOneJSONObject(t *testing.T) {
	got := runArgs(t, "version", "--format", "json")
	got.wantDone(t)
	var info versionInfo
	if err := json.Unmarshal([]byte(got.stdout), &info); err != nil || info.Go == "" {
		t.Errorf("stdout %q: %v", got.stdout, err)
	}
}

func TestCompletionForEachShell(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := runArgs(t, "completion", shell)
		got.wantDone(t)
		if !strings.Contains(got.stdout, "tenantlane") {
			t.Errorf("%s: no script in %d bytes", shell, len(got.stdout))
		}
	}
}

func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(stopSignal{os.Interrupt})
	terminated, cancel := context.WithCancelCause(t.Context())
	cancel(stopSignal{syscall.SIGTERM})
	job, daemon := &cobra.Command{}, &cobra.Command{}
	service(daemon)
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}

	for _, c := range []struct {
		name    string
		ctx     context.Context
		cmd     *cobra.Command
		started bool
		err     error
		want    int
	}{
		{"done", t.Context(), job, true, nil, exitDone},
		{"job that ended just before the signal was seen", interrupted, job, true, nil, exitDone},
		{"job interrupted", interrupted, job, true, fmt.Errorf("x: %w", context.Canceled), exitInterrupted},
		{"job terminated", terminated, job, true, context.Canceled, exitInterrupted},
		{"service drained on Ctrl-C", interrupted, daemon, true, nil, exitInterrupted},
		{"service drained on SIGTERM", terminated, daemon, true, nil, exitDone},
		{"no", t.Context(), job, true, answerNo("3 lost"), exitNo},
		{"no beats the signal", interrupted, job, true, answerNo("3 lost"), exitNo},
		{"usage", t.Context(), job, true, usagef("x"), exitUsage},
		{"cobra's own errors", t.Context(), job, false, errors.New("unknown flag"), exitUsage},
		{"kafka", t.Context(), job, true, kafkaError("topic", kerr.UnknownTopicOrPartition), exitKafka},
		{"raw kafka", t.Context(), job, true, fmt.Errorf("x: %w", kerr.GroupAuthorizationFailed), exitKafka},
		{"raw dial", t.Context(), job, true, fmt.Errorf("x: %w", refused), exitKafka},
		{"a local file", t.Context(), job, true, os.ErrPermission, exitUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := exitCode(c.ctx, c.cmd, c.started, c.err); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
		})
	}
}

func TestKafkaErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "--brokers"},
		{&net.DNSError{Name: "kafak"}, "host name"},
		{kerr.TopicAuthorizationFailed, "ACL"},
		{kerr.SaslAuthenticationFailed, "--sasl-user"},
		{errors.New("tls: failed to verify certificate: x509: unknown authority"), "--tls-ca"},
		{context.DeadlineExceeded, "firewalls"},
		{kerr.UnknownTopicOrPartition, "topic create"},
	} {
		if got := kafkaError("it", c.err).Error(); !strings.Contains(got, c.want) {
			t.Errorf("%q does not hold %q", got, c.want)
		}
	}
	if got := oneLine(errors.Join(errors.New("a"), errors.New("b"))); got != "a; b" {
		t.Errorf("oneLine: %q", got)
	}
}
