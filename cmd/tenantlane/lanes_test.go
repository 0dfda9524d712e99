package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// adminWorker is a worker with an admin endpoint, whose target refuses the
// records of one tenant until it is told otherwise.
type adminWorker struct {
	admin  string // its endpoint
	stderr *syncBuffer
	stop   func() int

	mu sync.Mutex
	// guards the fields below
	bad     string
	handled int
}

// startAdminWorker starts one on a broker whose topic has records.
func startAdminWorker(t *testing.T, more ...string) (brokers string, w *adminWorker) {
	t.Helper()
	brokers, args := loaded(t, "200")
	w = &adminWorker{stderr: newSyncBuffer()}
	endpoint := httptest.NewServer(http.HandlerFunc(w.take))
	t.Cleanup(endpoint.Close)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	args = append(args, "--url", endpoint.URL, "--admin", "127.0.0.1:0", "--until-idle", "0s", "--stats-interval", "10ms", "--log-level", "info", "--attempts", "1")
	stdout := newSyncBuffer()
	go func() { done <- run(ctx, append(args, more...), strings.NewReader(""), stdout, w.stderr) }()
	w.stop = sync.OnceValue(func() int {
		cancel()
		return <-done
	})
	t.Cleanup(func() { w.stop() })
	<-stdout.first
	served := regexp.MustCompile(`serving the admin endpoint.*:(\d+)"`).FindStringSubmatch(w.stderr.String())
	if served == nil {
		t.Fatalf("no endpoint in %q", w.stderr)
	}
	w.admin = "127.0.0.1:" + served[1]
	return brokers, w
}

func (w *adminWorker) take(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tenant := r.Header.Get("X-Tenant")
	if w.bad == "" {
		w.bad = tenant
	}
	if tenant == w.bad && r.Header.Get("X-Kafka-Offset") != "" {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	w.handled++
}

func (w *adminWorker) accept() (tenant string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tenant, w.bad = w.bad, "nobody"
	return tenant
}

// lanes lists tenants until ok is true of them.
func (w *adminWorker) lanes(t *testing.T, ok func([]laneRow) bool, args ...string) []laneRow {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		got := runArgs(t, append([]string{"lanes", "list", "--admin", w.admin, "--format", "json"}, args...)...)
		got.wantDone(t)
		var rows []laneRow
		for line := range strings.Lines(got.stdout) {
			var row laneRow
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			rows = append(rows, row)
		}
		if ok(rows) {
			return rows
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %+v", rows)
		}
	}
}

func TestAnOperatorFindsAndSkipsTheRecordThatHoldsATenantUp(t *testing.T) {
	_, w := startAdminWorker(t)
	parked := w.lanes(t, func(rows []laneRow) bool {
		return len(rows) == 1 && rows[0].State == "parked" && len(rows[0].Troubles) == 1 && rows[0].Troubles[0].Error != ""
	}, "--state", "parked")[0]
	bad := parked.Troubles[0]
	if parked.Tenant.Tenant != w.accept() || !strings.Contains(bad.Error, "400") || !bad.Parked {
		t.Errorf("%+v", parked)
	}
	tenant := parked.Tenant.Tenant
	text := runArgs(t, "lanes", "list", tenant, "--admin", w.admin)
	text.wantDone(t)
	if !strings.Contains(text.stdout, "parked at orders/") || !strings.Contains(text.stdout, "TENANT") {
		t.Errorf("%s", text.stdout)
	}
	skip := func(offset int64) []string {
		return []string{"lanes", "skip", tenant, "--topic", "orders", "--partition", itoa(int64(bad.Partition)), "--offset", itoa(offset), "--admin", w.admin, "--actor", "eve", "--reason", "broken"}
	}
	runArgs(t, skip(bad.Offset+1)...).wantError(t, exitNo, "not the first unfinished record", itoa(bad.Offset))
	got := runArgs(t, append(skip(bad.Offset), "--format", "json")...)
	if effect := decode[effectJSON](t, got); !effect.Committed || effect.Lanes != 1 || effect.Tenant != tenant {
		t.Errorf("%+v", effect)
	}
	w.lanes(t, func(rows []laneRow) bool { return len(rows) == 0 }, "--state", "parked")
	if log := w.stderr.String(); !strings.Contains(log, "record skipped") || !strings.Contains(log, "eve") || !strings.Contains(log, "broken") {
		t.Errorf("not logged: %s", log)
	}
	if code := w.stop(); code != exitInterrupted {
		t.Errorf("the worker ended with %d: %s", code, w.stderr)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestTenantsArePausedResumedAndLimitedWhileRunning(t *testing.T) {
	brokers, w := startAdminWorker(t)
	w.lanes(t, func(rows []laneRow) bool { return len(rows) == 1 }, "--state", "parked")
	tenant := w.accept()
	got := runArgs(t, "lanes", "pause", tenant, "--admin", w.admin, "--format", "json")
	if effect := decode[effectJSON](t, got); !effect.Committed || effect.Lanes != 1 {
		t.Errorf("%+v", effect)
	}
	rows := w.lanes(t, func(rows []laneRow) bool { return len(rows) == 1 }, tenant)
	if row := rows[0]; row.State != "paused" || !strings.Contains(row.PausedFor, "lanes pause") || row.PausedBy == "" || row.ETAS != nil {
		t.Errorf("%+v", row)
	}
	runArgs(t, "lanes", "resume", tenant, "--admin", w.admin).wantDone(t)
	w.lanes(t, func(rows []laneRow) bool { return rows[0].State == "idle" }, tenant)

	runArgs(t, "lanes", "limit", "slow", "--rate", "0.001", "--burst", "1", "--admin", w.admin).wantDone(t)
	runArgs(t, "loadgen", "--topic", "orders", "--count", "5", "--tenants", tempFile(t, "tenants.tsv", "slow\t1\n"), "--brokers", brokers).wantDone(t)
	w.lanes(t, func(rows []laneRow) bool { return rows[0].State == "limited" && rows[0].Depth == 4 }, "slow")
	runArgs(t, "lanes", "limit", "slow", "--admin", w.admin, "--format", "json").wantDone(t)
	w.lanes(t, func(rows []laneRow) bool { return rows[0].State == "idle" }, "slow")

	// A tenant that nobody knows is paused all the same, before its import.
	idle := decode[effectJSON](t, runArgs(t, "lanes", "pause", "ff00", "--hex", "--admin", w.admin, "--format", "json"))
	if idle.Lanes != 0 || idle.Committed || idle.Hex != "ff00" {
		t.Errorf("%+v", idle)
	}
}

func TestTheAdminEndpointIsGuardedAndServesProbes(t *testing.T) {
	token := tempFile(t, "token", "s3cret\n")
	_, w := startAdminWorker(t, "--admin", "0.0.0.0:0", "--admin-token-file", token)
	runArgs(t, "lanes", "list", "--admin", w.admin).wantError(t, exitUsage, "token", "--admin-token-file")
	runArgs(t, "lanes", "list", "--admin", w.admin, "--admin-token-file", tempFile(t, "wrong", "S3CRET")).wantError(t, exitUsage, "token")
	runArgs(t, "lanes", "list", "--admin", w.admin, "--admin-token-file", token).wantDone(t)
	for path, want := range map[string]int{"/-/ready": http.StatusOK, "/-/healthy": http.StatusOK, "/metrics": http.StatusUnauthorized} {
		response, err := http.Get("http://" + w.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != want {
			t.Errorf("%s: %s, %v", path, response.Status, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if log := w.stderr.String(); strings.Contains(log, "s3cret") || !strings.Contains(log, "admin request refused") {
		t.Errorf("log: %s", log)
	}
}

func TestUsageOfLanes(t *testing.T) {
	closed := closedPort(t)
	for _, c := range []struct{ args, want string }{
		{"lanes list", "--admin"},
		{"lanes lisst", "list"},
		{"lanes list --admin ftp://x", "--admin"},
		{"lanes list --state weird --admin http://x", "--state"},
		{"lanes list xyz --hex --admin http://x", "hexadecimal"},
		{"lanes list --admin http://x --admin-token-file /does/not/exist", "--admin-token-file"},
		{"lanes pause --admin http://x", "1 arg"},
		{"lanes pause a", "--admin"},
		{"lanes resume a", "--admin"},
		{"lanes limit a", "--admin"},
		{"lanes skip a --admin http://x --partition 0 --offset 0", "--topic"},
		{"lanes skip a --admin http://x --topic t --offset 0", "--partition"},
		{"lanes skip a --admin http://x --topic t --partition 0", "--offset"},
		{"worker --topic t --group g --discard --brokers b:1 --admin 0.0.0.0:0", "--admin-token-file"},
		{"worker --topic t --group g --discard --brokers b:1 --admin nonsense", "--admin"},
		{"worker --topic t --group g --discard --brokers b:1 --admin :0 --admin-token-file " + tempFile(t, "empty", "\n"), "empty"},
	} {
		t.Run(c.args, func(t *testing.T) { runArgs(t, strings.Fields(c.args)...).wantError(t, exitUsage, c.want) })
	}
	runArgs(t, "lanes", "list", "--admin", closed).wantError(t, exitKafka, closed, "--admin", "connection refused")
	runArgs(t, "lanes", "pause", "a", "--admin", closed).wantError(t, exitKafka, closed)
}
