package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tenantlane/tenantlane/internal/load"
)

// loaded is a broker whose topic "orders" has n checkable records, and the
// arguments of a worker that handles them all and ends.
func loaded(t *testing.T, n string) (brokers string, worker []string) {
	t.Helper()
	brokers = startBroker(t)
	runArgs(t, "loadgen", "--topic", "orders", "--count", n, "--brokers", brokers).wantDone(t)
	return brokers, []string{"worker", "--topic", "orders", "--group", "g", "--brokers", brokers, "--until-idle", "300ms", "--log-level", "error"}
}

func TestWorkerPostsEachRecordInOrder(t *testing.T) {
	_, worker := loaded(t, "500")
	var mu sync.Mutex
	next, posted := map[string]uint64{}, 0
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		v, decodeErr := load.Decode(body)
		mu.Lock()
		defer mu.Unlock()
		posted++
		if posted == 7 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next[v.Tenant]++
		if err != nil || decodeErr != nil || v.Seq != next[v.Tenant] || r.Header.Get("X-Kafka-Topic") != "orders" {
			t.Errorf("%s after %d: %v, %v", body, next[v.Tenant], err, decodeErr)
		}
	}))
	defer endpoint.Close()
	runArgs(t, append(worker, "--url", endpoint.URL)...).wantDone(t)
	if posted != 501 {
		t.Errorf("%d posts, want one for each record and one more", posted)
	}
}

func TestWorkerRunsACommandForEachRecord(t *testing.T) {
	_, worker := loaded(t, "20")
	out := filepath.Join(t.TempDir(), "out")
	runArgs(t, append(worker, "--exec", "cat >> '"+out+"'; echo \" $TENANT\" >> '"+out+"'", "--concurrency", "1")...).wantDone(t)
	text, err := os.ReadFile(out)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(lines) != 20 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, line := range lines {
		value, tenant, _ := strings.Cut(line, "} ")
		if v, err := load.Decode([]byte(value + "}")); err != nil || v.Tenant != tenant {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestWorkerDeadLettersWhatIsGivenUp(t *testing.T) {
	brokers, worker := loaded(t, "10")
	runArgs(t, "topic", "create", "--topic", "orders.tl-dlq", "--partitions", "8", "--brokers", brokers).wantDone(t)
	runArgs(t, append(worker, "--exec", "exit 65", "--exhausted", "dead-letter")...).wantDone(t)
	empty := tempFile(t, "w.log", "")
	got := runArgs(t, "verify", "--topic", "orders.tl-dlq", "--log", empty, "--brokers", brokers, "--format", "json")
	if got.code != exitNo || !strings.Contains(got.stdout, `"produced":10,`) {
		t.Errorf("%+v", got)
	}
}

func TestWorkerServesMetrics(t *testing.T) {
	brokers, _ := loaded(t, "10")
	ctx, cancel := context.WithCancel(t.Context())
	stdout, stderr := newSyncBuffer(), newSyncBuffer()
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"worker", "--topic", "orders", "--group", "g", "--discard", "--brokers", brokers, "--listen", ":0", "--stats-interval", "10ms"},
			strings.NewReader(""), stdout, stderr)
	}()
	<-stdout.first
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(stderr.String())
	for path, want := range map[string]string{"/metrics": "tenantlane_", "/-/healthy": "ok"} {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v, %d bytes", path, response.Status, err, len(body))
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if code := <-done; code != exitInterrupted {
		t.Errorf("exit code %d (stderr %q)", code, stderr)
	}
}
