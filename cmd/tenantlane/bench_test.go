package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/internal/bench"
)

// tiny is each measurement at a size that a test can wait for.
var tiny = map[string]string{
	"route":   "--lookups 10 --runs 1 --placements 0,100",
	"produce": "--records 500 --runs 1 --partitions 4",
	"isolate": "--rate 200 --seconds 0.1 --runs 1 --partitions 4 --flooders 1",
	"consume": "--records 2000 --runs 1 --partitions 4 --keys uniform --handler-sleep 1ms --concurrency 10 --seconds 0.2",
	"fair":    "--records 2000 --rate 400 --runs 1 --partitions 4 --seconds 0.2",
	"lag":     "--groups 3 --partitions 4 --rounds 1",
	"move":    "--rate 200 --moves 10 --seconds 0.3 --runs 1 --partitions 4 --producers 1 --workers 1",
}

func benchArgs(name string, more ...string) []string {
	return slices.Concat([]string{"bench", name}, strings.Fields(tiny[name]), more)
}

func TestBenchPrintsTheFieldsOfItsContract(t *testing.T) {
	for name, fields := range map[string][]string{
		"route":   {"ns", "bare_ns", "ratio", "allocs", "tables"},
		"produce": {"broker", "bare_records_per_s", "tenantlane_records_per_s", "ratio", "cpu_ratio"},
		"isolate": {"broker", "alone_p99_ms", "flood_p99_ms", "flood_ratio"},
		"consume": {
			"broker", "records", "handler_us", "concurrency", "keys", "bare_records_per_s", "tenantlane_records_per_s", "ratio",
			"cpu_ratio", "ideal_records_per_s", "ideal_ratio", "reread_bytes", "peak_heap_bytes",
		},
		"fair": {"broker", "quiet_p99_ms_alone", "quiet_p99_ms_with_whale", "same_partition", "ratio", "whale_total_ratio"},
		"lag":  {"broker", "groups", "sample_ms", "cpu_s", "requests", "unknown_partitions"},
		"move": {"broker", "moves", "aborted", "pause_p50_ms", "pause_p99_ms", "order_violations", "lost", "produced"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runArgs(t, benchArgs(name, "--format", "json")...)
			got.wantDone(t)
			answer := decode[map[string]json.RawMessage](t, got)
			for _, field := range fields {
				if _, ok := answer[field]; !ok {
					t.Errorf("no %q in %s", field, got.stdout)
				}
			}
			if name == "route" {
				return
			}
			if string(answer["broker"]) != `"embedded"` || !strings.Contains(got.stderr, "embedded broker") {
				t.Errorf("does not say that it ran on the embedded broker: %q, stderr %q", answer["broker"], got.stderr)
			}
		})
	}
}

func TestBenchPrintsText(t *testing.T) {
	brokers := startBroker(t)
	for name, want := range map[string]string{
		"route": "all placed", "produce": "bare, two headers", "isolate": "beside the flood", "consume": "ideal fair share",
		"fair": "in the whale's partition", "lag": "requests",
		"move": "held back by its producers",
	} {
		t.Run(name, func(t *testing.T) {
			args := benchArgs(name)
			if name != "route" {
				args = append(args, "--brokers", brokers)
			}
			got := runArgs(t, args...)
			got.wantDone(t)
			if !strings.Contains(got.stdout, want) || strings.Contains(got.stdout, "%!") {
				t.Errorf("stdout %q", got.stdout)
			}
			if name != "route" && !strings.Contains(got.stderr, brokers) {
				t.Errorf("stderr %q does not name %s", got.stderr, brokers)
			}
		})
	}
}

func TestBenchMoveAnswersNoWhenThePromiseIsBroken(t *testing.T) {
	for _, c := range []struct {
		report bench.MoveReport
		code   int
	}{
		{bench.MoveReport{Moves: 9, Aborted: 2}, exitDone},
		{bench.MoveReport{Lost: 1}, exitNo},
		{bench.MoveReport{OrderViolations: 1}, exitNo},
	} {
		if err := movesVerdict(c.report); exitCode(t.Context(), nil, true, err) != c.code {
			t.Errorf("%+v: %v, want exit code %d", c.report, err, c.code)
		}
	}
}

func TestBenchNoopHandlerHasNoIdeal(t *testing.T) {
	got := runArgs(t, "bench", "consume", "--records", "1000", "--runs", "1", "--partitions", "4")
	got.wantDone(t)
	if !strings.Contains(got.stdout, "bare poll loop") || strings.Contains(got.stdout, "ideal") {
		t.Errorf("stdout %q", got.stdout)
	}
}

func TestBenchWritesAProfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpu.prof")
	runArgs(t, benchArgs("route", "--cpuprofile", path)...).wantDone(t)
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("profile: %v, %v", info, err)
	}
	runArgs(t, benchArgs("route", "--cpuprofile", filepath.Join(path, "under-a-file"))...).wantError(t, exitUsage, "--cpuprofile")
}

func TestBenchUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"bench", "consume"},
		{"bench consum", "consume"},
		{"bench route --brokers x", "--brokers"},
		{"bench route --hash md5", "--hash"},
		{"bench route --placements -1", "--placements"},
		{"bench route --slots 1 --partitions 2", "slots"},
		{"bench route --runs 0", "--runs"},
		{"bench route --tenants /does/not/exist", "--tenants"},
		{"bench produce --records 0", "--records"},
		{"bench produce --keys zipf", "--keys"},
		{"bench produce --goroutines 0", "--goroutines"},
		{"bench isolate --rate 0", "--rate"},
		{"bench isolate --seconds -1", "--seconds"},
		{"bench isolate --partitions 1", "--partitions"},
		{"bench isolate --keys uniform", "--keys"},
		{"bench consume --handler-sleep -1s", "--handler-sleep"},
		{"bench consume --concurrency 0", "--concurrency"},
		{"bench consume --seconds 0", "--seconds"},
		{"bench fair --handler-sleep 0s", "--handler-sleep"},
		{"bench fair --size 7", "--size"},
		{"bench fair --partitions 1", "--partitions"},
		{"bench lag --groups 0", "--groups"},
		{"bench lag --replicas 0", "--replicas"},
		{"bench move --moves 0", "--moves"},
		{"bench move --workers 0", "--workers"},
		{"bench move --partitions 1", "--partitions"},
	} {
		t.Run(c.args, func(t *testing.T) {
			runArgs(t, strings.Fields(c.args)...).wantError(t, exitUsage, c.want)
		})
	}
}

func TestBenchNeedsTheBrokersThatItWasGiven(t *testing.T) {
	runArgs(t, benchArgs("consume", "--brokers", closedPort(t))...).wantKafka(t, "connection refused")
	runArgs(t, benchArgs("lag", "--brokers", silentPort(t), "--connect-timeout", "50ms")...).wantKafka(t, "no answer in time")
}

// wantKafka is for commands that have said on stderr where they look.
func (r result) wantKafka(t *testing.T, part string) {
	t.Helper()
	if r.code != exitKafka || r.stdout != "" || !strings.Contains(r.stderr, part) {
		t.Errorf("exit code %d, want %d; stdout %q, stderr %q, want %q", r.code, exitKafka, r.stdout, r.stderr, part)
	}
}

func TestCancelEndsEveryMeasurement(t *testing.T) {
	silent := silentPort(t)
	for _, args := range [][]string{
		{"bench", "route", "--lookups", "1000000000"},
		{"bench", "produce", "--records", "1000000"},
		{"bench", "isolate"},
		{"bench", "consume", "--records", "20000", "--handler-sleep", "1ms"},
		{"bench", "consume"},
		{"bench", "fair"},
		{"bench", "lag"},
		{"bench", "lag", "--brokers", silent},
		{"bench", "move"},
	} {
		for _, after := range []time.Duration{0, 20 * time.Millisecond, 300 * time.Millisecond} {
			t.Run(strings.Join(append(args[1:2:2], after.String(), args[len(args)-1]), " "), func(t *testing.T) {
				running := goleak.IgnoreCurrent()
				ctx, cancel := context.WithCancel(t.Context())
				defer time.AfterFunc(after, cancel).Stop()
				got := runContext(t, ctx, args...)
				if got.code != exitInterrupted || got.stdout != "" {
					t.Errorf("exit code %d, want 130 (stdout %q, stderr %q)", got.code, got.stdout, got.stderr)
				}
				goleak.VerifyNone(t, running)
			})
		}
	}
}
