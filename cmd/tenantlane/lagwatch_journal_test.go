package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/lagwatch"
)

func TestLagwatchSilenceAndMark(t *testing.T) {
	w, err := lagwatch.New(lagwatch.Config{KafkaOpts: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, APIToken: "t0ken"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(w.Handler())
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := []string{"--watcher", server.URL, "--api-token-file", token}
	lagwatchArgs := func(args ...string) []string { return append(append([]string{"lagwatch"}, args...), to...) }

	r := runArgs(t, lagwatchArgs("silence", "add", "--silence-group", "billing", "--for", "2h", "--reason", "import", "--by", "ops", "--format", "json")...)
	r.wantDone(t)
	_, id, _ := strings.Cut(r.stdout, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	r = runArgs(t, lagwatchArgs("mark", "billing 2.4.1", "--mark-group", "billing")...)
	r.wantDone(t)
	r = runArgs(t, lagwatchArgs("silence", "list")...)
	r.wantDone(t)
	for _, want := range []string{"silence " + id, "group billing", "by ops: import", "marker ", "billing 2.4.1"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q lacks %q", r.stdout, want)
		}
	}
	r = runArgs(t, lagwatchArgs("silence", "end", id)...)
	r.wantDone(t)
	runArgs(t, lagwatchArgs("silence", "end", id)...).wantError(t, exitNo, "no such silence")
	runArgs(t, lagwatchArgs("silence", "add", "--reason", "x")...).wantError(t, exitUsage, "--silence-group")
	runArgs(t, lagwatchArgs("silence", "add", "--silence-alert", "gone")...).wantError(t, exitUsage, "reason")

	t.Setenv("TENANTLANE_API_TOKEN", "wr0ng")
	to = []string{"--watcher", server.URL}
	r = runArgs(t, lagwatchArgs("silence", "list")...)
	r.wantError(t, exitUsage, "token is missing or wrong")
	if strings.Contains(r.stdout+r.stderr, "wr0ng") {
		t.Errorf("the token is printed: %q", r.stderr)
	}
	to = []string{"--watcher", "127.0.0.1:1"}
	runArgs(t, lagwatchArgs("silence", "list")...).wantError(t, exitUsage, "--watcher")
	to = []string{"--watcher", "http://127.0.0.1:1"}
	runArgs(t, lagwatchArgs("silence", "list")...).wantError(t, exitKafka, "--listen")
	to = nil
	runArgs(t, lagwatchArgs("silence", "list")...).wantError(t, exitUsage, "--watcher")
}

// A redirect would carry the token, or an alert, to somebody else.
func TestLagwatchClientFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	t.Setenv("TENANTLANE_API_TOKEN", "t0ken")
	r := runArgs(t, "lagwatch", "silence", "list", "--watcher", server.URL)
	if r.code == exitDone {
		t.Errorf("stdout %q", r.stdout)
	}
}

// What pages propose is a command of ours with flags that exist.
func TestCommandsOnPagesParse(t *testing.T) {
	for _, line := range []string{
		"lagwatch explain billing orders 7 --state st --brokers a:1 --table t.yaml",
		"move start importer --topic orders --to 6 --brokers a:1 --table-topic tenantlane.routing",
		"move start ff00 --hex --topic orders --to 6,7 --spread key --brokers a:1 --table-topic tenantlane.routing",
		"stale list --topic orders --brokers a:1 --table-topic tenantlane.routing",
		"plan whales --from-topic orders --brokers a:1 --table t.yaml",
		"table check --brokers a:1 --table t.yaml",
		"lanes list --admin http://WORKER:PORT",
	} {
		if err := parses(strings.Fields(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
