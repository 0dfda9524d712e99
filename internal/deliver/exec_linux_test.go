package deliver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenantlane/tenantlane/internal/deliver"
)

// workerVariable makes TestExecEndsWithItsWorker the worker's process.
const workerVariable = "TENANTLANE_TEST_WORKER"

// A command that outlived its worker would handle its record beside the worker
// that gets the record next.
func TestExecEndsWithItsWorker(t *testing.T) {
	if pidFile := os.Getenv(workerVariable); pidFile != "" {
		h, err := deliver.NewExec("sh", "-c", `echo $$ > "$0"; exec sleep 60`, pidFile)
		if err != nil {
			t.Fatal(err)
		}
		t.Fatal("the command ended: ", h(t.Context(), aRecord()))
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	worker := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestExecEndsWithItsWorker$")
	worker.Env = append(os.Environ(), workerVariable+"="+pidFile)
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	pid := waitForPid(t, pidFile)
	if err := worker.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = worker.Wait() // it was killed
	mustEnd(t, pid)
}
