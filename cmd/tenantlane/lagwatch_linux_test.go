package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk that is full under the state file: lagwatch goes on paging, says so in
// what it prints, and writes again when there is room.
func TestLagwatchPagesWithAFullDisk(t *testing.T) {
	brokers := startBroker(t)
	paged := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			Alerts []struct{ Alert, Status string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		for _, a := range body.Alerts {
			paged <- a.Alert
		}
	}))
	defer hook.Close()
	t.Setenv("TENANTLANE_WEBHOOK_URL", hook.URL)
	state := filepath.Join(t.TempDir(), "state")
	p := start(t, "lagwatch", "--brokers", brokers, "--group", "billing", "--format", "json", "--interval", "100ms", "--for", "200ms",
		"--drain-ok", "0", "--state", state, "--log-level", "error")
	line := func() string {
		if !p.lines.Scan() {
			t.Fatalf("no more lines: %v", p.lines.Err())
		}
		return p.lines.Text()
	}
	line()
	limit := func(bytes uint64) {
		t.Helper()
		if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(10)
	lateImport(t, brokers, 5000)
	for alert := ""; alert != "partition_hot"; {
		alert = <-paged
	}
	for said := ""; !strings.Contains(said, "state_error"); {
		said = line()
	}
	limit(unix.RLIM_INFINITY)
	for said := "state_error"; strings.Contains(said, "state_error"); {
		said = line()
	}
	text, err := os.ReadFile(state)
	if err != nil || !json.Valid(text) {
		t.Fatalf("the state is not written whole: %v", err)
	}
	p.signal(t, unix.SIGTERM)
	if code := p.exit(t); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}
