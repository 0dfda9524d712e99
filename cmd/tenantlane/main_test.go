package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("TENANTLANE_TEST_AS_BINARY") != "" {
		main()
	}
	for _, variable := range os.Environ() { // tests say themselves what is set
		if name, _, _ := strings.Cut(variable, "="); name == "KAFKA_BROKERS" || strings.HasPrefix(name, envPrefix) {
			_ = os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// result is what a run of the command line left behind.
type result struct {
	code           int
	stdout, stderr string
}

// runArgs runs the command line in this process, with no brokers set.
func runArgs(t *testing.T, args ...string) result {
	t.Helper()
	return runContext(t, t.Context(), args...)
}

func runContext(t *testing.T, ctx context.Context, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// wantError requires one line on stderr that holds every part, nothing on
// stdout, and the exit code.
func (r result) wantError(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d (stderr %q)", r.code, code, r.stderr)
	}
	if r.stdout != "" {
		t.Errorf("stdout %q, want nothing", r.stdout)
	}
	if strings.Count(r.stderr, "\n") != 1 || !strings.HasSuffix(r.stderr, "\n") {
		t.Errorf("stderr %q, want one line", r.stderr)
	}
	for _, part := range parts {
		if !strings.Contains(r.stderr, part) {
			t.Errorf("stderr %q does not hold %q", r.stderr, part)
		}
	}
}

func (r result) wantDone(t *testing.T) {
	t.Helper()
	if r.code != exitDone {
		t.Fatalf("exit code %d, want 0 (stdout %q, stderr %q)", r.code, r.stdout, r.stderr)
	}
}

// tempFile writes a file of the test's own and returns its path.
func tempFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
