package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lateImport fills partition 3 of "orders" with one tenant's old records, which
// group "billing" has not read.
func lateImport(t *testing.T, brokers string, records int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	late := time.Now().Add(-10 * time.Minute)
	for range records {
		client.Produce(t.Context(), &kgo.Record{Partition: 3, Key: []byte("importer"), Timestamp: late}, nil)
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	commits := kadm.Offsets{}
	for p := range int32(8) {
		commits.AddOffset("orders", p, 0, -1)
	}
	if err := kadm.NewClient(client).CommitAllOffsets(t.Context(), "billing", commits); err != nil {
		t.Fatal(err)
	}
}

// onceAnswer is the part of the answer that scripts read.
type onceAnswer struct {
	Groups []struct {
		Group, Topic, Pool string
		Baseline, Skew     float64
		Partitions         []struct {
			Partition int32
			Lag       *int64
			Class     string
			Ratio     *float64
		}
		Firing []struct {
			Alert      string
			Partitions []int32
			Tenant     string
			Share      float64
			Severity   string
		}
	}
}

func TestLagwatchOnceFires(t *testing.T) {
	brokers := startBroker(t)
	lateImport(t, brokers, 5000)
	r := runArgs(t, "lagwatch", "--once", "--format", "json", "--brokers", brokers)
	if r.code != exitNo || !strings.Contains(r.stderr, "alerts fire") {
		t.Fatalf("exit %d, stderr %q", r.code, r.stderr)
	}
	var answer onceAnswer
	if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil || strings.Count(r.stdout, "\n") != 1 {
		t.Fatalf("stdout %q is not one JSON object: %v", r.stdout, err)
	}
	g := answer.Groups[0]
	if g.Group != "billing" || g.Topic != "orders" || len(g.Partitions) != 8 || *g.Partitions[3].Lag != 5000 || g.Partitions[3].Class != "HOT" {
		t.Fatalf("%s", r.stdout)
	}
	if f := g.Firing[0]; f.Alert != "partition_hot" || f.Tenant != "importer" || f.Partitions[0] != 3 {
		t.Fatalf("%s", r.stdout)
	}
	r = runArgs(t, "lagwatch", "--once", "--brokers", brokers)
	if r.code != exitNo || !strings.Contains(r.stdout, "Partition 3 of orders") || !strings.Contains(r.stdout, "importer") {
		t.Fatalf("exit %d, stdout %q", r.code, r.stdout)
	}
}

func TestLagwatchOnceIsFine(t *testing.T) {
	brokers := startBroker(t)
	lateImport(t, brokers, 10)
	r := runArgs(t, "lagwatch", "--once", "--brokers", brokers)
	r.wantDone(t)
	if !strings.Contains(r.stdout, "Nothing fires, and everything was seen.") || r.stderr != "" {
		t.Fatalf("stdout %q stderr %q", r.stdout, r.stderr)
	}
	// The plain threefold rule has no floors.
	r = runArgs(t, "lagwatch", "--once", "--brokers", brokers, "--min-lag", "0", "--min-delay", "0", "--for", "0", "--drain-ok", "0")
	if r.code != exitNo {
		t.Fatalf("exit %d, stdout %q", r.code, r.stdout)
	}
}

func TestLagwatchOnceWithoutABrokerIsBlind(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		r := runArgs(t, "lagwatch", "--once", "--format", format, "--brokers", "127.0.0.1:1", "--group", "billing", "--sample-timeout", "600ms")
		if r.code != exitKafka || strings.Contains(r.stdout, "Nothing fires") || !strings.Contains(r.stderr, "not everything could be seen") {
			t.Fatalf("exit %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
		}
		if format == "text" && !strings.Contains(r.stdout, "BLIND") {
			t.Fatalf("stdout %q", r.stdout)
		}
		if format == "json" && !strings.Contains(r.stdout, `"blind":true`) {
			t.Fatalf("stdout %q", r.stdout)
		}
	}
}

func TestLagwatchOnceNamesAGroupThatDoesNotExist(t *testing.T) {
	r := runArgs(t, "lagwatch", "--once", "--brokers", startBroker(t), "--group", "billign")
	if r.code != exitKafka || !strings.Contains(r.stderr, `group "billign" does not exist`) || strings.Contains(r.stdout, "0 partitions") {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
}

func TestLagwatchRecordReplayExplain(t *testing.T) {
	brokers := startBroker(t)
	lateImport(t, brokers, 5000)
	dir := t.TempDir()
	record, state := filepath.Join(dir, "samples.jsonl"), filepath.Join(dir, "state")
	flags := []string{"--interval", "20ms", "--for", "100ms", "--drain-ok", "0"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := newSyncBuffer()
	code := make(chan int, 1)
	go func() {
		args := append([]string{"lagwatch", "--brokers", brokers, "--log-level", "error", "--record", record, "--state", state}, flags...)
		code <- run(ctx, args, strings.NewReader(""), out, new(strings.Builder))
	}()
	<-out.first // its first line is the page
	cancel()
	if got := <-code; got != exitInterrupted || !strings.Contains(out.String(), "partition_hot") || !strings.Contains(out.String(), "importer") {
		t.Fatalf("exit %d, stdout %q", got, out.String())
	}
	r := runArgs(t, append([]string{"lagwatch", "replay", record}, flags...)...)
	r.wantDone(t)
	if first, _, _ := strings.Cut(out.String(), "\n"); !strings.Contains(r.stdout, first) {
		t.Errorf("live %q, replayed %q", first, r.stdout)
	}
	if r = runArgs(t, append([]string{"lagwatch", "replay", record, "--format", "json", "--min-lag", "100000"}, flags...)...); r.code != exitDone ||
		strings.Contains(r.stdout, "partition_hot") || !strings.Contains(r.stdout, `"group":"billing"`) {
		t.Errorf("exit %d, %q", r.code, r.stdout)
	}
	r = runArgs(t, "lagwatch", "explain", "billing", "orders", "3", "--brokers", brokers, "--state", state, "--interval", "20ms", "--for", "100ms")
	if r.code != exitNo || !strings.Contains(r.stdout, "It fires since") || !strings.Contains(r.stdout, "lag > ratio × baseline") {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
	r = runArgs(t, "lagwatch", "explain", "billing", "orders", "2", "--brokers", brokers, "--format", "json")
	if r.wantDone(t); !strings.Contains(r.stdout, `"verdict":"It is not hot`) {
		t.Errorf("stdout %q", r.stdout)
	}
	runArgs(t, "lagwatch", "explain", "billing", "orders", "99", "--brokers", brokers).wantError(t, exitKafka, "partition 99")
	runArgs(t, "lagwatch", "replay", filepath.Join(dir, "absent")).wantError(t, exitUsage, "absent")
}

func TestLagwatchCheckAndTestPage(t *testing.T) {
	brokers := startBroker(t)
	lateImport(t, brokers, 10)
	taken := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		taken <- string(body)
	}))
	defer func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		hook.Close()
	}()
	t.Setenv("TENANTLANE_WEBHOOK_URL", hook.URL)
	r := runArgs(t, "lagwatch", "test-page", "--brokers", brokers)
	if r.wantDone(t); !strings.Contains(<-taken, "test_page") {
		t.Error("no test page")
	}
	r = runArgs(t, "lagwatch", "check", "--brokers", brokers)
	if r.code != exitNo || !strings.Contains(r.stdout, "FAIL  silence") || !strings.Contains(r.stdout, "ok    sight") {
		t.Errorf("exit %d, stdout %q", r.code, r.stdout)
	}
	t.Setenv("TENANTLANE_HEARTBEAT_URL", hook.URL)
	r = runArgs(t, "lagwatch", "check", "--brokers", brokers, "--state", filepath.Join(t.TempDir(), "state"), "--format", "json")
	if r.wantDone(t); strings.Contains(r.stdout, `"ok":false`) {
		t.Errorf("stdout %q", r.stdout)
	}
	t.Setenv("TENANTLANE_WEBHOOK_URL", "")
	runArgs(t, "lagwatch", "test-page", "--brokers", brokers).wantError(t, exitUsage, "no target")
}

func TestLagwatchUsage(t *testing.T) {
	for args, want := range map[string]string{
		"lagwatch --once":                                   "--brokers",
		"lagwatch --brokers a:1 --ratio 1":                  "ratio",
		"lagwatch --brokers a:1 --group [":                  "Groups",
		"lagwatch --brokers a:1 --once --listen :1":         "--once",
		"lagwatch --brokers a:1 --webhook-secret-file /no":  "--webhook-secret-file",
		"lagwatch --brokers a:1 --table /no/such/file.yaml": "/no/such/file.yaml",
		"lagwatch --brokers a:1 --record /no/such/dir/file": "--record",
		"lagwatch --brokers a:1 --rules /no/such/file":      "--rules",
	} {
		runArgs(t, strings.Fields(args)...).wantError(t, exitUsage, want)
	}
}

func TestLagwatchRunsUntilItIsStopped(t *testing.T) {
	brokers := startBroker(t)
	lateImport(t, brokers, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := newSyncBuffer()
	code := make(chan int, 1)
	go func() {
		args := []string{"lagwatch", "--format", "json", "--interval", "20ms", "--brokers", brokers, "--log-level", "error"}
		code <- run(ctx, args, strings.NewReader(""), out, new(strings.Builder))
	}()
	<-out.first
	cancel()
	if got := <-code; got != exitInterrupted {
		t.Errorf("exit %d", got)
	}
	if !strings.Contains(out.String(), `"group":"billing"`) {
		t.Errorf("stdout %q", out.String())
	}
}

func TestLagwatchSecretsAreNotPrinted(t *testing.T) {
	t.Setenv("TENANTLANE_WEBHOOK_URL", "http://127.0.0.1:1/T0KEN")
	t.Setenv("TENANTLANE_WEBHOOK_SECRET", "hunter2")
	for _, args := range []string{"config print lagwatch", "lagwatch --once --brokers 127.0.0.1:1 --sample-timeout 300ms --log-level debug"} {
		r := runArgs(t, strings.Fields(args)...)
		if text := fmt.Sprint(r); strings.Contains(text, "T0KEN") || strings.Contains(text, "hunter2") {
			t.Errorf("%s prints a secret: %s", args, text)
		}
	}
}
