package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// turns is an endpoint that notes whose record came when.
type turns struct {
	mu sync.Mutex
	// guards the fields below
	order   []string
	changed chan struct{} // closed and made anew with each record
}

func newTurns() *turns { return &turns{changed: make(chan struct{})} }

func (s *turns) take(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = append(s.order, r.Header.Get("X-Tenant"))
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits for so many records, and returns how many there are.
func (s *turns) await(t *testing.T, n int) int {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		s.mu.Lock()
		have, changed := len(s.order), s.changed
		s.mu.Unlock()
		if have >= n {
			return have
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%d of %d records came", have, n)
		}
	}
}

// share is a tenant's, of the records from one up to another.
func (s *turns) share(tenant string, from, to int) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, t := range s.order[from:to] {
		if t == tenant {
			n++
		}
	}
	return float64(n) / float64(to-from)
}

// A tenant that `table set` puts into a heavier tier has that tier's share of a
// worker that is running: it is neither restarted nor signaled.
func TestATiersWeightReachesARunningWorker(t *testing.T) {
	brokers := startBroker(t)
	table := tempFile(t, "routing.yaml", "version: 1\nrevision: 1\ntopics:\n  orders:\n    partitions: 8\n    tiers: {gold: {weight: 90}, standard: {weight: 10}}\n")
	tenants := tempFile(t, "tenants.tsv", "acme\t1\nglobex\t1\n")
	runArgs(t, "loadgen", "--topic", "orders", "--count", "40000", "--tenants", tenants, "--table", table, "--brokers", brokers).wantDone(t)
	s := newTurns()
	endpoint := httptest.NewServer(http.HandlerFunc(s.take))
	defer endpoint.Close()
	ctx, cancel := context.WithCancel(t.Context())
	stderr := newSyncBuffer()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		run(ctx, []string{
			"worker", "--topic", "orders", "--group", "g", "--brokers", brokers, "--table", table, "--url", endpoint.URL,
			"--concurrency", "1", "--log-level", "info",
		}, strings.NewReader(""), newSyncBuffer(), stderr)
	})
	s.await(t, 1000)
	if share := s.share("acme", 200, 1000); share < 0.3 || share > 0.7 {
		t.Errorf("acme had %.2f in the tier of both", share)
	}
	runArgs(t, "table", "set", "orders", "acme", "--tier", "gold", "--table", table).wantDone(t)
	n := s.await(t, 1000)
	for !strings.Contains(stderr.String(), "routing table replaced") {
		n = s.await(t, n+1)
	}
	s.await(t, n+1500)
	if share := s.share("acme", n+500, n+1500); share < 0.75 {
		t.Errorf("acme had %.2f in a tier of nine times the weight", share)
	}
}

// The stats line tells of lanes that wait for an operator.
func TestStatsTellOfParkedLanes(t *testing.T) {
	brokers := startBroker(t)
	tenants := tempFile(t, "tenants.tsv", "acme\t1\nglobex\t1\nhooli\t1\n")
	runArgs(t, "loadgen", "--topic", "orders", "--count", "90", "--tenants", tenants, "--brokers", brokers).wantDone(t)
	worker := []string{
		"worker", "--topic", "orders", "--brokers", brokers, "--discard", "--handler-fail", "acme", "--handler-fail", "hooli",
		"--until-idle", "300ms", "--stats-interval", "20ms", "--log-level", "error",
	}
	text := runArgs(t, append(worker, "--group", "text")...)
	text.wantDone(t)
	if !strings.Contains(text.stdout, " partitions, 2 lanes parked\n") {
		t.Errorf("no line tells of two parked lanes: %s", text.stdout)
	}
	got := runArgs(t, append(worker, "--group", "json", "--format", "json")...)
	got.wantDone(t)
	if !strings.Contains(got.stdout, `"parked":2`) {
		t.Errorf("no line tells of two parked lanes: %s", got.stdout)
	}
	fine := runArgs(t, "worker", "--topic", "orders", "--brokers", brokers, "--discard", "--group", "fine", "--until-idle", "300ms", "--log-level", "error")
	if fine.wantDone(t); strings.Contains(fine.stdout, "parked") {
		t.Errorf("parked lanes where there are none: %s", fine.stdout)
	}
}
