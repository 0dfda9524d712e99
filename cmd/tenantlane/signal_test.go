//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/deliver"
)

// asBinary makes this test binary be the command, so that signals come from
// outside to a process of its own.
const asBinary = "TENANTLANE_TEST_AS_BINARY"

// process is the command running on its own.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asBinary+"=1")
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &process{cmd, bufio.NewScanner(stdout)}
}

// untilHandled reads a worker's stats until it has handled n records.
func (p *process) untilHandled(t *testing.T, n uint64) {
	t.Helper()
	for p.lines.Scan() {
		var s deliver.Stats
		if err := json.Unmarshal(p.lines.Bytes(), &s); err != nil {
			t.Fatalf("%q: %v", p.lines.Text(), err)
		}
		if s.Handled >= n {
			return
		}
	}
	t.Fatalf("ended before it handled %d records", n)
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit drains the output and returns the exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	for p.lines.Scan() { // a pipe that is full would block it
	}
	err := p.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}

func TestSignalsEndServicesAndJobs(t *testing.T) {
	brokers := startBroker(t)
	runArgs(t, "loadgen", "--topic", "orders", "--count", "20000", "--brokers", brokers).wantDone(t)
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		want   int
	}{
		{"a worker drains on SIGTERM", syscall.SIGTERM, exitDone},
		{"a worker drains on Ctrl-C", syscall.SIGINT, exitInterrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, "worker", "--topic", "orders", "--group", c.name, "--discard", "--handler-sleep", "1ms", "--brokers", brokers,
				"--stats-interval", "20ms", "--format", "json", "--drain-timeout", "500ms")
			p.untilHandled(t, 10)
			p.signal(t, c.signal)
			if code := p.exit(t); code != c.want {
				t.Errorf("exit code %d, want %d", code, c.want)
			}
		})
	}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run("broker "+s.String(), func(t *testing.T) {
			p := start(t, "broker", "--listen", "127.0.0.1:0")
			p.lines.Scan()
			p.signal(t, s)
			if code, want := p.exit(t), map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitDone}[s]; code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
	t.Run("a second signal stops a worker that drains", func(t *testing.T) {
		p := start(t, "worker", "--topic", "orders", "--group", "stuck", "--discard", "--handler-sleep", "1h", "--brokers", brokers,
			"--stats-interval", "20ms", "--format", "json", "--drain-timeout", "1h")
		p.untilInFlight(t)
		p.signal(t, syscall.SIGTERM)
		p.signal(t, syscall.SIGINT)
		if code := p.exit(t); code != exitInterrupted {
			t.Errorf("exit code %d, want 130", code)
		}
	})
}

func (p *process) untilInFlight(t *testing.T) {
	t.Helper()
	for p.lines.Scan() {
		var s deliver.Stats
		if err := json.Unmarshal(p.lines.Bytes(), &s); err != nil {
			t.Fatalf("%q: %v", p.lines.Text(), err)
		}
		if s.InFlight > 0 {
			return
		}
	}
	t.Fatal("ended before it had anything in flight")
}

// TestAKilledWorkerRepeatsNoMoreThanItMay is the whole promise from outside:
// kill -9, start again, verify.
func TestAKilledWorkerRepeatsNoMoreThanItMay(t *testing.T) {
	brokers := startBroker(t)
	dir := t.TempDir()
	produced, handled := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
	runArgs(t, "loadgen", "--topic", "orders", "--count", "5000", "--brokers", brokers, "--log-file", produced).wantDone(t)
	work := func(more ...string) []string {
		return append([]string{
			"worker", "--topic", "orders", "--group", "g", "--discard", "--brokers", brokers, "--log-file", handled,
			"--session-timeout", "1s", "--stats-interval", "20ms", "--format", "json", "--log-level", "error",
		}, more...)
	}
	p := start(t, work("--handler-sleep", "1ms")...)
	p.untilHandled(t, 1000)
	p.signal(t, syscall.SIGKILL)
	if code := p.exit(t); code != -1 {
		t.Fatalf("exit code %d, want a killed process", code)
	}
	p = start(t, work("--until-idle", "500ms")...)
	if code := p.exit(t); code != exitDone {
		t.Fatalf("exit code %d", code)
	}
	got := runArgs(t, "verify", "--topic", "orders", "--log", handled, "--produced", produced, "--format", "json")
	report := decode[check.Report](t, got)
	if got.code != exitDone || report.Produced != 5000 || report.Handled != 5000 || report.Duplicates == 0 || report.Duplicates > report.DuplicatesAllowed {
		t.Errorf("exit code %d, %+v", got.code, report)
	}
}

// timeout(1) signals its child, then the child's whole group.
func TestTheFirstSignalsEchoIsNoSecondOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		after  time.Duration
		signal syscall.Signal
		want   bool
	}{
		{"the same at once", 0, syscall.SIGTERM, false},
		{"the same a little later", echo, syscall.SIGTERM, false},
		{"the same from a person", echo + time.Millisecond, syscall.SIGTERM, true},
		{"another at once", 0, syscall.SIGINT, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals, done := make(chan os.Signal, 1), make(chan struct{})
				var is bool
				var watcher sync.WaitGroup
				watcher.Go(func() { is = second(signals, syscall.SIGTERM, done) })
				synctest.Wait()
				time.Sleep(c.after) //nolint:forbidigo // virtual
				signals <- c.signal
				synctest.Wait()
				close(done)
				watcher.Wait()
				if is != c.want {
					t.Errorf("counts as a second signal: %v", is)
				}
			})
		})
	}
}
