package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Exit codes; doc.go says what each means.
const (
	exitDone        = 0
	exitNo          = 1
	exitUsage       = 2
	exitKafka       = 3
	exitInterrupted = 130
)

// exitError is an error that knows the exit code it ends in.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef is an error in flags, arguments, configuration or a local file: exit 2.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// answerNo says that the command worked and its answer is "no": exit 1.
func answerNo(format string, args ...any) error {
	return &exitError{exitNo, fmt.Errorf(format, args...)}
}

// kafkaError says that Kafka could not be reached, seen or used: exit 3. what
// names the thing that failed, such as `topic "orders"`.
func kafkaError(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return &exitError{exitKafka, fmt.Errorf("%s: %w%s", what, err, advice(err))}
}

// advice is what to do about a Kafka error, or "".
func advice(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "; is the broker running, and are --brokers or KAFKA_BROKERS right?"
	case isDNS(err):
		return "; check the host name in --brokers or KAFKA_BROKERS"
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return "; make it with `tenantlane topic create`"
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "; check --sasl-mechanism, --sasl-user and its secret"
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed),
		errors.Is(err, kerr.ClusterAuthorizationFailed):
		return "; the user lacks an ACL for it"
	case strings.Contains(text, "x509:"), strings.Contains(text, "tls:"):
		return "; check --tls-ca, --tls-server-name and the client certificate"
	case errors.Is(err, context.DeadlineExceeded):
		return "; no answer in time: check --brokers, firewalls, and whether the port wants --tls"
	}
	return ""
}

func isDNS(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns)
}

// stopSignal is the cause of a context that a signal canceled.
type stopSignal struct{ os.Signal }

func (s stopSignal) Error() string { return "stopped by " + s.Signal.String() }

// exitCode decides how the process ends after cmd returned err. started tells
// whether the command itself was reached: before that every error is usage.
func exitCode(ctx context.Context, cmd *cobra.Command, started bool, err error) int {
	stopped := ctx.Err() != nil
	if err == nil {
		if stopped && isService(cmd) && !terminated(ctx) {
			return exitInterrupted
		}
		return exitDone
	}
	if stopped && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return exitInterrupted
	}
	var typed *exitError
	var broker *kerr.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &typed):
		return typed.code
	case !started:
		return exitUsage
	case errors.As(err, &broker), errors.As(err, &dial), isDNS(err),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrClientClosed):
		return exitKafka
	}
	return exitUsage
}

// terminated reports whether ctx ended by SIGTERM, a supervisor's way to stop.
func terminated(ctx context.Context) bool {
	var s stopSignal
	return errors.As(context.Cause(ctx), &s) && s.Signal == syscall.SIGTERM
}

// oneLine squeezes an error into the one line that stderr gets.
func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}
