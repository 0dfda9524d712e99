//go:build unix

package deliver_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/internal/deliver"
	"github.com/tenantlane/tenantlane/internal/testkit"
)

// A command that outlived its attempt would handle its record beside the next
// attempt, or beside the tenant's next record.
func TestExecLeavesNothingOfAFailedAttemptRunning(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"its shell waits for it", `sleep 60 & echo $! > "$0"; wait`},
		{"its shell has failed", `sleep 60 & echo $! > "$0"; exit 1`},
		{"its shell has ended well", `sleep 60 & echo $! > "$0"`},
		{"nobody reads what it says", `sleep 60 2>/dev/null & echo $! > "$0"; exit 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			pidFile := filepath.Join(t.TempDir(), "pid")
			h, err := deliver.NewExec("sh", "-c", c.script, pidFile)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var child sync.WaitGroup
			var pid int
			child.Go(func() { // the attempt's deadline comes when its child runs
				defer cancel()
				pid = waitForPid(t, pidFile)
			})
			err = h(ctx, aRecord())
			child.Wait()
			if err == nil {
				t.Error("the attempt counts as done while its child runs")
			}
			mustEnd(t, pid)
		})
	}
}

func waitForPid(t *testing.T, file string) (pid int) {
	testkit.Await(t.Context(), t, "the command's child", func() bool {
		text, _ := os.ReadFile(file)
		line, whole := strings.CutSuffix(string(text), "\n")
		pid, _ = strconv.Atoi(line)
		return whole && pid > 0
	})
	return pid
}

func mustEnd(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if !testkit.Poll(ctx, func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) }) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Error("the command's child outlived the attempt")
	}
}

// zombie says that a process has ended but that nobody has asked how, as in a
// container whose first process does not.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
