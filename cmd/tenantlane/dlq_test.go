package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tenantlane/tenantlane/internal/load"
)

// deadLettered is a broker with n records of topic "orders" in its dead-letter
// topic, all by group "g".
func deadLettered(t *testing.T, n string) (brokers string, worker []string) {
	t.Helper()
	brokers, worker = loaded(t, n)
	runArgs(t, "topic", "create", "--topic", "orders.tl-dlq", "--partitions", "8", "--brokers", brokers).wantDone(t)
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	defer refuse.Close()
	runArgs(t, append(worker, "--exhausted", "dead-letter", "--url", refuse.URL)...).wantDone(t)
	return brokers, worker
}

func letterRows(t *testing.T, r result) []letterJSON {
	t.Helper()
	r.wantDone(t)
	var rows []letterJSON
	for line := range strings.Lines(r.stdout) {
		var row letterJSON
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// The whole way: a target that refuses, dead letters, a fix, a replay, and each
// tenant's records handled in order.
func TestDeadLettersAreReplayedInOrderOnceTheTargetIsWell(t *testing.T) {
	brokers, worker := deadLettered(t, "300")
	rows := letterRows(t, runArgs(t, "dlq", "list", "--topic", "orders", "--brokers", brokers, "--format", "json"))
	if len(rows) != 300 || rows[0].Group != "g" || !strings.Contains(rows[0].Error, "400") || rows[0].Origin.Topic != "orders" || rows[0].Attempts != 1 {
		t.Fatalf("%d letters, the first is %+v", len(rows), rows[0])
	}
	for _, row := range rows {
		if row.Partition != row.Origin.Partition {
			t.Fatalf("a letter is in another partition than its record: %+v", row)
		}
	}
	dry := decode[replayJSON](t, runArgs(t, "dlq", "replay", "--topic", "orders", "--brokers", brokers, "--dry-run", "--format", "json"))
	if dry.Replayed != 300 || !dry.DryRun {
		t.Errorf("%+v", dry)
	}
	tenant := rows[0].Tenant
	some := decode[replayJSON](t, runArgs(t, "dlq", "replay", tenant, "--topic", "orders", "--brokers", brokers, "--format", "json"))
	if some.Tenants != 1 || some.Replayed == 0 || some.Replayed == 300 {
		t.Errorf("%+v", some)
	}
	text := runArgs(t, "dlq", "replay", "--topic", "orders", "--brokers", brokers)
	text.wantDone(t)
	if !strings.Contains(text.stdout, "were before") {
		t.Errorf("%s", text.stdout)
	}
	if left := letterRows(t, runArgs(t, "dlq", "list", "--topic", "orders", "--brokers", brokers, "--format", "json")); len(left) != 0 {
		t.Errorf("%d letters are left", len(left))
	}
	if all := letterRows(t, runArgs(t, "dlq", "list", "--topic", "orders", "--brokers", brokers, "--format", "json", "--all", "--limit", "5")); len(all) != 5 || !all[0].Replayed {
		t.Errorf("%+v", all)
	}

	var mu sync.Mutex
	next, posted := map[string]uint64{}, 0
	well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		v, decodeErr := load.Decode(body)
		mu.Lock()
		defer mu.Unlock()
		posted++
		next[v.Tenant]++
		if err != nil || decodeErr != nil || v.Seq != next[v.Tenant] || r.Header.Get("X-Kafka-Header-tl-replay") == "" {
			t.Errorf("%s after %d: %v, %v (%v)", body, next[v.Tenant]-1, err, decodeErr, r.Header)
		}
	}))
	defer well.Close()
	runArgs(t, append(worker, "--url", well.URL)...).wantDone(t)
	if posted != 300 {
		t.Errorf("%d posts of 300 replayed records", posted)
	}
	// Another group has handled the records: of the replays it skips those that are not its own.
	posted = 0
	clear(next)
	other := []string{"worker", "--topic", "orders", "--group", "other", "--discard", "--brokers", brokers, "--until-idle", "300ms", "--log-level", "error", "--format", "json"}
	got := runArgs(t, other...)
	got.wantDone(t)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if !strings.Contains(lines[len(lines)-1], `"handled":300,`) || !strings.Contains(lines[len(lines)-1], `"failed":300,`) {
		t.Errorf("%s", lines[len(lines)-1])
	}
}

func TestLettersOfAMovedTenantAreLeft(t *testing.T) {
	brokers, _ := deadLettered(t, "100")
	rows := letterRows(t, runArgs(t, "dlq", "list", "--topic", "orders", "--brokers", brokers, "--format", "json"))
	row := rows[0]
	elsewhere := (row.Origin.Partition + 1) % 8
	table := tempFile(t, "routing.yaml", "version: 1\nrevision: 1\ntopics:\n  orders:\n    partitions: 8\n    placements:\n      "+
		strconv.Quote(row.Tenant)+": {partitions: ["+itoa(int64(elsewhere))+"]}\n")
	got := decode[replayJSON](t, runArgs(t, "dlq", "replay", row.Tenant, "--topic", "orders", "--brokers", brokers, "--table", table, "--format", "json"))
	if got.Replayed != 0 || got.Moved == 0 {
		t.Errorf("%+v", got)
	}
}

func TestUsageOfDLQ(t *testing.T) {
	brokers := startBroker(t)
	for _, c := range []struct{ args, want string }{
		{"dlq", "replay"},
		{"dlq list", "--topic"},
		{"dlq list --topic t --limit -1", "--limit"},
		{"dlq list --topic t xyz --hex", "hexadecimal"},
		{"dlq list --topic t", "--brokers"},
		{"dlq replay --topic t --rate -1", "--rate"},
		{"dlq replay --topic t --table /does/not/exist", "exist"},
	} {
		t.Run(c.args, func(t *testing.T) { runArgs(t, strings.Fields(c.args)...).wantError(t, exitUsage, c.want) })
	}
	runArgs(t, "dlq", "list", "--topic", "orders", "--brokers", brokers).wantError(t, exitKafka, `topic "orders.tl-dlq" does not exist`)
	runArgs(t, "dlq", "replay", "--topic", "orders", "--brokers", closedPort(t)).wantError(t, exitKafka, "connection refused")
}
