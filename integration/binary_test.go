package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binary is the tenantlane command, built once and when it is first needed.
type binary struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// command returns the path of the built command.
func (b *binary) command(t *testing.T) string {
	t.Helper()
	b.once.Do(b.build)
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

func (b *binary) build() {
	if b.dir, b.err = os.MkdirTemp("", "tenantlane-integration-"); b.err != nil {
		return
	}
	path := filepath.Join(b.dir, "tenantlane")
	args := []string{"build", "-o", path}
	if raceDetector {
		args = append(args, "-race") // as the tests: it is compiled already
	}
	out, err := exec.Command("go", append(args, "../cmd/tenantlane")...).CombinedOutput()
	if err != nil {
		b.err = fmt.Errorf("building the command: %w\n%s", err, out)
		return
	}
	b.path = path
}

func (b *binary) remove() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}
