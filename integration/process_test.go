package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/internal/check"
)

// process is one run of the command.
type process struct {
	name   string
	cmd    *exec.Cmd
	out    bytes.Buffer // stdout
	stderr bytes.Buffer
}

// begin starts the command against the broker. What still runs at the test's
// end is killed.
func (b broker) begin(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{name: "tenantlane " + args[0], cmd: exec.Command(suite.binary.command(t), args...)}
	p.cmd.Env = append(os.Environ(), "KAFKA_BROKERS="+strings.Join(b.addrs, ","))
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("%s said\n%s", p.name, &p.stderr)
		}
	})
	return p
}

// wait returns the exit status.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	late := time.AfterFunc(2*time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%s: %s: %v", p.name, sig, err)
	}
}

// awaitLines waits until a log has that many lines.
func awaitLines(ctx context.Context, t *testing.T, file string, lines int) {
	t.Helper()
	await(ctx, t, filepath.Base(file)+" grows", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && bytes.Count(text, []byte("\n")) >= lines
	})
}

// The load generator, workers and verify as processes, as a user runs them:
// one worker is killed with kill -9 in the middle and started again, another
// is killed and stays dead. verify judges from their logs alone.
func TestWorkerProcessesAreKilled(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b broker) {
		suite.binary.command(t) // takes time of its own
		ctx := deadline(t, 2*time.Minute)
		topic, group, dir := b.topic(t, partitions), unique(t, "group"), t.TempDir()
		produced := filepath.Join(dir, "produced.log")
		logs := []string{filepath.Join(dir, "1.log"), filepath.Join(dir, "2.log"), filepath.Join(dir, "3.log")}
		work := func(log string) *process {
			return b.begin(t, "worker", "--topic", topic, "--group", group, "--discard", "--handler-sleep", "2ms",
				"--log-file", log, "--session-timeout", sessionTimeout.String())
		}
		generator := b.begin(t, "loadgen", "--topic", topic, "--count", "16000", "--rate", "4000", "--log-file", produced, "--format", "json")
		first, second, third := work(logs[0]), work(logs[1]), work(logs[2])
		for _, log := range logs {
			awaitLines(ctx, t, log, share)
		}
		for _, p := range []*process{first, second} {
			p.signal(t, syscall.SIGKILL)
			if code := p.wait(t); code != -1 {
				t.Fatalf("%s ended with %d before it was killed", p.name, code)
			}
		}
		again := work(logs[0])
		if code := generator.wait(t); code != 0 {
			t.Fatalf("loadgen ended with %d", code)
		}
		if err := awaitCommits(ctx, b.client(t), group, topic); err != nil {
			t.Error(err)
		}
		for _, p := range []*process{third, again} {
			p.signal(t, syscall.SIGTERM)
			if code := p.wait(t); code != 0 {
				t.Errorf("%s ended with %d on SIGTERM", p.name, code)
			}
		}
		report := verify(t, b, topic, produced, logs)
		if report.Produced != 16000 || report.Handled < report.Produced {
			t.Errorf("%d records produced, %d handled, want 16000", report.Produced, report.Handled)
		}
	})
}

// verify runs the verify command, which must find nothing wrong. Without a log
// of what was produced it reads the topic.
func verify(t *testing.T, b broker, topic, produced string, logs []string) check.Report {
	t.Helper()
	if produced == "" {
		return verifyAll(t, b, topic, nil, logs)
	}
	return verifyAll(t, b, topic, []string{produced}, logs)
}

// verifyAll is verify of any number of load generators.
func verifyAll(t *testing.T, b broker, topic string, produced, logs []string) check.Report {
	t.Helper()
	args := []string{"verify", "--topic", topic, "--format", "json"}
	for _, log := range produced {
		args = append(args, "--produced", log)
	}
	for _, log := range logs {
		args = append(args, "--log", log)
	}
	judge := b.begin(t, args...)
	code := judge.wait(t)
	var report check.Report
	if err := json.Unmarshal(judge.out.Bytes(), &report); err != nil {
		t.Fatalf("verify ended with %d and printed %q: %v", code, &judge.out, err)
	}
	t.Logf("verify: %s", strings.TrimSpace(judge.out.String()))
	if code != 0 || !report.OK() {
		t.Errorf("verify ended with %d: %s", code, report.Problem())
	}
	return report
}
