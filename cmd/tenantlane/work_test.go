package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/deliver"
)

func TestTopicCreateIsIdempotentOnlyWhenAsked(t *testing.T) {
	brokers := startBroker(t)
	create := func(args ...string) result {
		return runArgs(t, append([]string{"topic", "create", "--brokers", brokers, "--format", "json"}, args...)...)
	}
	if got := decode[topicCreated](t, create("--topic", "new", "--partitions", "3", "--topic-config", "retention.ms=1000")); got != (topicCreated{"new", 3, true}) {
		t.Errorf("%+v", got)
	}
	create("--topic", "new", "--partitions", "3").wantError(t, exitKafka, `"new" already exists`, "--if-not-exists")
	if got := decode[topicCreated](t, create("--topic", "new", "--partitions", "2", "--if-not-exists")); got != (topicCreated{"new", 3, false}) {
		t.Errorf("%+v", got)
	}
	create("--topic", "new", "--partitions", "4", "--if-not-exists").wantError(t, exitKafka, "fewer than 4")

	table := tempFile(t, "routing.yaml", "version: 1\nrevision: 1\ntopics:\n  invoices: {partitions: 5}\n")
	if got := decode[topicCreated](t, create("--table", table)); got != (topicCreated{"invoices", 5, true}) {
		t.Errorf("%+v", got)
	}
	create("--table", table, "--partitions", "4").wantError(t, exitUsage, "--partitions 4")
}

func TestBrokerSaysHowToReachIt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stdout := newSyncBuffer()
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"broker", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--format", "json"}, strings.NewReader(""), stdout, newSyncBuffer())
	}()
	<-stdout.first
	var ready struct{ Brokers []string }
	if err := json.Unmarshal([]byte(stdout.String()), &ready); err != nil || len(ready.Brokers) != 1 {
		t.Fatalf("%q: %v", stdout.String(), err)
	}
	runArgs(t, "topic", "create", "--topic", "t", "--partitions", "1", "--brokers", ready.Brokers[0]).wantDone(t)
	runArgs(t, "broker", "--listen", ready.Brokers[0]).wantError(t, exitUsage, "address already in use")
	cancel(stopSignal{syscall.SIGTERM})
	if code := <-done; code != exitDone {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}

func TestWorkIsVerified(t *testing.T) {
	brokers := startBroker(t)
	dir := t.TempDir()
	produced, handled := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
	table := tempFile(t, "routing.yaml", "version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, shared: 1-7, placements: {lru-cache: {partitions: [0]}}}\n")

	load := decode[loadgenAnswer](t, runArgs(t, "loadgen", "--topic", "orders", "--count", "3000", "--whale", "acme:500", "--table", table,
		"--brokers", brokers, "--log-file", produced, "--format", "json"))
	if load.Produced != 3500 || load.Errors != 0 {
		t.Fatalf("%+v", load)
	}
	for range 2 { // the second run finds nothing left and appends to the log
		got := runArgs(t, "worker", "--topic", "orders", "--group", "g", "--discard", "--table", table, "--brokers", brokers,
			"--log-file", handled, "--until-idle", "300ms", "--format", "json", "--log-level", "error")
		got.wantDone(t)
		lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
		var last deliver.Stats
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Unlogged != 0 {
			t.Errorf("%q: %v", got.stdout, err)
		}
	}
	for _, against := range [][]string{{"--produced", produced}, {"--brokers", brokers}} {
		got := runArgs(t, append([]string{"verify", "--topic", "orders", "--log", handled, "--format", "json"}, against...)...)
		got.wantDone(t)
		report := decode[check.Report](t, got)
		if report.Produced != 3500 || report.Handled != 3500 || report.Duplicates != 0 || !report.OK() {
			t.Errorf("%+v", report)
		}
	}
	text := runArgs(t, "verify", "--topic", "orders", "--log", handled, "--produced", produced)
	text.wantDone(t)
	if !strings.Contains(text.stdout, "the promise was kept") {
		t.Errorf("%s", text.stdout)
	}
}

func TestVerifySaysNo(t *testing.T) {
	line := func(seq uint64, offset string) string {
		return `{"producer":"p","tenant":"acme","sequence":` + string(rune('0'+seq)) + `,"partition":0,"offset":` + offset
	}
	produced := tempFile(t, "a.log", line(1, "0")+"}\n"+line(2, "1")+"}\n"+line(3, "2")+"}\n")
	handled := tempFile(t, "b.log", line(2, "1")+`,"attempt":1}`+"\n"+line(1, "0")+`,"attempt":1}`+"\n"+line(3, "2")[:20])
	got := runArgs(t, "verify", "--topic", "orders", "--log", handled, "--produced", produced)
	if got.code != exitNo || !strings.Contains(got.stderr, "1 lost, 1 out of order") || !strings.Contains(got.stderr, "1 torn lines") {
		t.Errorf("%+v", got)
	}
	for _, part := range []string{"BROKEN", `tenant "acme" of p`, "sequence 1"} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("%s does not hold %q", got.stdout, part)
		}
	}
	runArgs(t, "verify", "--topic", "orders", "--log", produced, "--produced", produced).wantError(t, exitUsage, "a.log:1", "attempt")
	runArgs(t, "verify", "--topic", "orders", "--log", handled, "--produced", handled).wantError(t, exitUsage, "b.log:1", "worker's line")
}

func TestAWorkersLogIsItsOwnAndMended(t *testing.T) {
	path := tempFile(t, "b.log", `{"torn`)
	out, closeLog, err := openWorkerLog(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if _, _, err := openWorkerLog(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("error %v", err)
		}
	})
	if _, err := out.Write([]byte("whole\n")); err != nil {
		t.Error(err)
	}
	if err := closeLog(); err != nil {
		t.Error(err)
	}
	if content, err := os.ReadFile(path); string(content) != "{\"torn\nwhole\n" || err != nil {
		t.Errorf("%q, %v", content, err)
	}
	if _, _, err := openWorkerLog(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "--log-file") {
		t.Errorf("error %v", err)
	}
}

// A worker that is started right after its forerunner was killed finds the log
// still locked.
func TestAWorkersLogIsWaitedForWhileItsForerunnerEnds(t *testing.T) {
	path := tempFile(t, "b.log", "")
	_, closeFirst, err := openWorkerLog(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(2*time.Second, func() {
			if err := closeFirst(); err != nil {
				t.Error(err)
			}
		})
		_, closeSecond, err := openWorkerLog(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if err := closeSecond(); err != nil {
			t.Error(err)
		}
	})
}

func TestALogThatCannotBeOpenedStopsBeforeAnythingHappens(t *testing.T) {
	brokers := startBroker(t)
	runArgs(t, "loadgen", "--topic", "orders", "--count", "10", "--brokers", brokers, "--log-file", t.TempDir()).wantError(t, exitUsage, "--log-file")
	runArgs(t, "worker", "--topic", "orders", "--group", "g", "--discard", "--brokers", brokers, "--log-file", t.TempDir()).wantError(t, exitUsage, "--log-file")
	empty := tempFile(t, "w.log", "")
	got := runArgs(t, "verify", "--topic", "orders", "--log", empty, "--brokers", brokers, "--format", "json")
	if report := decode[check.Report](t, got); report.Produced != 0 {
		t.Errorf("%+v", report)
	}
}

func TestLoadgenKeepsToItsTopic(t *testing.T) {
	brokers := startBroker(t)
	runArgs(t, "topic", "create", "--topic", "vip", "--partitions", "1", "--brokers", brokers).wantDone(t)
	table := tempFile(t, "routing.yaml", "version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, placements: {lru-cache: {topic: vip}}}\n")
	loadgen := []string{"loadgen", "--topic", "orders", "--table", table, "--brokers", brokers}
	got := runArgs(t, append(loadgen, "--count", "300")...)
	got.wantDone(t)
	if !strings.Contains(got.stderr, "1 tenants") {
		t.Errorf("stderr %q", got.stderr)
	}
	runArgs(t, append(loadgen, "--whale", "lru-cache:5")...).wantError(t, exitUsage, "lru-cache", "another topic")
	only := tempFile(t, "tenants.tsv", "lru-cache\t1\n")
	runArgs(t, append(loadgen, "--count", "5", "--tenants", only)...).wantError(t, exitUsage, "every tenant")
}
