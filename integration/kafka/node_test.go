package kafka

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process makes a node of any command.
func process(t *testing.T, command ...string) *node {
	t.Helper()
	n := &node{id: 1, java: command, log: filepath.Join(t.TempDir(), "node-1.log")}
	t.Cleanup(func() { _ = n.kill() })
	return n
}

func mustStart(t *testing.T, n *node) {
	t.Helper()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
}

func TestKilledNodeIsGoneAndNotAFailure(t *testing.T) {
	n := process(t, "sleep", "60")
	mustStart(t, n)
	pid := n.pid()
	if err := n.start(); err == nil {
		t.Error("a running node started twice")
	}
	if err := n.kill(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d after kill: %v, want none", pid, err)
	}
	if err := n.failure(); err != nil {
		t.Errorf("a kill counts as failure: %v", err)
	}
	if err := n.kill(); err == nil {
		t.Error("a node that does not run was killed")
	}
	mustStart(t, n)
	if n.pid() == pid {
		t.Error("the restarted node has the old process id")
	}
}

func TestNodeThatEndsByItselfFails(t *testing.T) {
	for _, status := range []string{"0", "3"} {
		n := process(t, "sh", "-c", "echo last words; exit "+status)
		mustStart(t, n)
		n.owner.Wait()
		if err := n.failure(); err == nil || !strings.Contains(err.Error(), "exit status "+status) {
			t.Errorf("exit status %s: failure %v", status, err)
		}
		if log, err := os.ReadFile(n.log); err != nil || string(log) != "last words\n" {
			t.Errorf("log %q %v", log, err)
		}
	}
}

func TestTerminateEndsAPausedNode(t *testing.T) {
	n := process(t, "sleep", "60")
	mustStart(t, n)
	if err := n.signal(syscall.SIGSTOP, false); err != nil {
		t.Fatal(err)
	}
	n.terminate(time.Minute)
	if n.pid() != 0 || n.failure() != nil {
		t.Errorf("pid %d, failure %v after terminate", n.pid(), n.failure())
	}
}

func TestTerminateKillsWhatDoesNotEnd(t *testing.T) {
	n := process(t, "sh", "-c", "trap '' TERM; while :; do sleep 60; done")
	mustStart(t, n)
	n.terminate(time.Millisecond)
	if n.pid() != 0 {
		t.Error("the process still runs")
	}
}

func TestNoBrokerOutlivesItsParent(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	parent := exec.CommandContext(ctx, os.Args[0])
	parent.Env = append(os.Environ(), orphanEnv+"="+filepath.Join(t.TempDir(), "log"))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the parent said %q", line)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed
	await(t, ctx, func() bool { return !alive(child) })
}

// alive tells whether the process runs: one that is dead but not yet reaped by
// whoever adopted it does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func await(t *testing.T, ctx context.Context, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal("waited in vain")
		case <-tick.C:
		}
	}
}
