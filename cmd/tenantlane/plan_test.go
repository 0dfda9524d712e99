package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const volumesFile = "../../internal/load/tenant_volumes.tsv"

// one runs a command with --format json and reads its one object.
func one[T any](t *testing.T, args ...string) T {
	t.Helper()
	got := rows[T](t, runArgs(t, append(args, "--format", "json")...))
	if len(got) != 1 {
		t.Fatalf("%d objects, want 1", len(got))
	}
	return got[0]
}

// seedFigures are figures that the project's source documents state.
func seedFigures(t *testing.T) (f struct {
	Blake2b32     map[string]int32   `json:"blake2b_partition_of_32"`
	Blake2bShared map[string]int32   `json:"blake2b_shared_range_start_2_count_30"`
	Moved         map[string]any     `json:"moved_of_1000_keys_user-0_to_user-999_when_4_nodes_become_5"`
	Hot           map[string]float64 `json:"hot_partition_900_hot-user_plus_user-0_to_user-99_sha256_mod_4"`
	Hottest       map[string]float64 `json:"hottest_share_of_1000_keys_sha256_mod_8"`
	Sizes         []struct {
		Peak        float64 `json:"peak_per_minute"`
		P50         float64 `json:"p50_seconds"`
		Concurrency int     `json:"concurrency_per_partition"`
		Headroom    float64 `json:"headroom"`
		Minimum     int     `json:"minimum"`
		Partitions  int     `json:"partitions"`
	} `json:"partition_count"`
},
) {
	t.Helper()
	raw, err := os.ReadFile(routingData + "seed_figures.json")
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSeedFiguresOfSizes(t *testing.T) {
	for _, f := range seedFigures(t).Sizes {
		got := one[sizeJSON](t, "plan", "size", "--peak-per-minute", fmt.Sprint(f.Peak), "--p50", fmt.Sprintf("%vs", f.P50),
			"--concurrency", strconv.Itoa(f.Concurrency), "--headroom", fmt.Sprint(f.Headroom), "--minimum", strconv.Itoa(f.Minimum))
		if got.Partitions != f.Partitions {
			t.Errorf("%+v: %d partitions", f, got.Partitions)
		}
	}
}

func TestSeedFiguresOfGrowth(t *testing.T) {
	want := seedFigures(t).Moved
	got := one[growthJSON](t, "plan", "growth", "--from", "4", "--to", "5", "--hash", want["hash"].(string))
	for strategy, figure := range map[string]string{"modulo": "modulo", "ring": "ring_100_vnodes", "rendezvous": "rendezvous"} {
		if moved := got.Strategies[strategy]; float64(moved.Moved) != want[figure] || moved.Of != 1000 {
			t.Errorf("%s moves %+v, want %v", strategy, moved, want[figure])
		}
	}
	if len(got.SlotMoves) != 819 || got.AtLeast != 819 || got.Strategies["slots"].Of != 1000 || got.Strategies["jump"].Of != 1000 {
		t.Errorf("%d slot moves, at least %d, strategies %v", len(got.SlotMoves), got.AtLeast, got.Strategies)
	}
}

func TestSeedFiguresOfHash(t *testing.T) {
	f := seedFigures(t)
	users, countries := strings.Builder{}, strings.Builder{}
	for i := range 1000 {
		fmt.Fprintf(&users, "user-%d\n", i)
		fmt.Fprintf(&countries, "country-%d\n", i%3)
	}
	for name, keys := range map[string]string{"user-0..user-999": users.String(), "country-0..country-2": countries.String()} {
		got := one[hashJSON](t, "plan", "hash", "--keys", tempFile(t, "keys", keys), "--hash", "sha256-64", "--partitions", "8")
		if got.HottestShare != f.Hottest[name] {
			t.Errorf("%s: hottest share %v, want %v", name, got.HottestShare, f.Hottest[name])
		}
	}
	hot := strings.Repeat("hot-user\n", 900) + strings.Join(strings.Split(users.String(), "\n")[:100], "\n")
	got := rows[hashJSON](t, runInput(t, hot, "plan", "hash", "--keys", "-", "--hash", "sha256-64", "--partitions", "4", "--format", "json"))
	if want := []float64{f.Hot["0"], f.Hot["1"], f.Hot["2"], f.Hot["3"]}; !cmp.Equal(got[0].Counts, want) {
		t.Errorf("counts %v, want %v", got[0].Counts, want)
	}
}

func TestSeedFiguresOfRoute(t *testing.T) {
	f := seedFigures(t)
	for tenant, want := range f.Blake2b32 {
		if got := one[routeRow](t, "route", "--hash", "blake2b-64", "--partitions", "32", tenant); got.Partition != want {
			t.Errorf("%s goes to %d of 32, want %d", tenant, got.Partition, want)
		}
	}
	for tenant, want := range f.Blake2bShared {
		if got := one[routeRow](t, "route", "--hash", "blake2b-64", "--partitions", "32", "--shared", "2-31", tenant); got.Partition != want {
			t.Errorf("%s goes to %d of 2 to 31, want %d", tenant, got.Partition, want)
		}
	}
}

// readPopulation reads the file of volumes without the planner.
func readPopulation(t *testing.T) (names []string, volumes map[string]float64) {
	t.Helper()
	volumes = map[string]float64{}
	for _, line := range readLines(t, volumesFile) {
		name, number, _ := strings.Cut(line, "\t")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		names, volumes[name] = append(names, name), v
	}
	return names, volumes
}

// routedSkew routes every tenant with a table and sums what partitions get.
func routedSkew(t *testing.T, table string) (maxMean float64) {
	t.Helper()
	names, volumes := readPopulation(t)
	loads, sum := make([]float64, 32), 0.0
	for _, row := range rows[routeRow](t, runInput(t, strings.Join(names, "\n"), "route", "--table", table, "--format", "json", "-")) {
		for _, p := range row.Partitions {
			loads[p] += volumes[row.Tenant] / float64(len(row.Partitions))
		}
		sum += volumes[row.Tenant]
	}
	for _, l := range loads {
		maxMean = max(maxMean, l/(sum/32))
	}
	return maxMean
}

func TestPlanWhalesWritesATableThatRoutesAsPlanned(t *testing.T) {
	for _, c := range []struct {
		name    string
		flags   []string
		spread  string
		split   int
		atMost  float64
		boundBy string
	}{
		{"key", []string{"--tenant-of", "prefix:/"}, "key", 6, 1.02, ""},
		{"random", nil, "random", 6, 1.02, ""},
		{"none", []string{"--no-spread"}, "", 0, 3.85, "lru-cache"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := filepath.Join(t.TempDir(), "routing.yaml")
			got := one[whalesJSON](t, append([]string{"plan", "whales", "--volumes", volumesFile, "--partitions", "32", "--write", table}, c.flags...)...)
			if before := math.Round(100*got.SkewBefore.MaxMean) / 100; before != 4.03 || math.Round(100*got.Bound)/100 != 3.85 {
				t.Errorf("before %v, bound %v, want 4.03 and 3.85", before, got.Bound)
			}
			split := 0
			for _, w := range got.Whales {
				if len(w.Partitions) > 1 {
					split++
					if w.Spread != c.spread || w.Order == "" {
						t.Errorf("whale %+v, want spread %q and its price", w, c.spread)
					}
				}
			}
			if split > c.split || got.SkewAfter.MaxMean > c.atMost {
				t.Errorf("%d split for max/mean %v, want at most %d and %v", split, got.SkewAfter.MaxMean, c.split, c.atMost)
			}
			if routed := routedSkew(t, table); math.Abs(routed-got.SkewAfter.MaxMean) > 1e-9 {
				t.Errorf("routing every tenant gives max/mean %v, the plan says %v", routed, got.SkewAfter.MaxMean)
			}
			if (got.BoundBy == nil) != (c.boundBy == "") || got.BoundBy != nil && *got.BoundBy != c.boundBy {
				t.Errorf("bound by %v, want %q", got.BoundBy, c.boundBy)
			}
		})
	}
}

func TestPlanWhalesStartsFromATable(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	runArgs(t, "plan", "whales", "--volumes", volumesFile, "--partitions", "32", "--write", first).wantDone(t)
	got := one[whalesJSON](t, "plan", "whales", "--volumes", volumesFile, "--table", first, "--write", second)
	if got.SlotsMoved > 40 || got.SkewAfter.MaxMean > 1.02 {
		t.Errorf("planning again moves %d slots to max/mean %v, want next to nothing to move", got.SlotsMoved, got.SkewAfter.MaxMean)
	}
	if skew := routedSkew(t, second); skew > 1.02 {
		t.Errorf("max/mean %v, want at most 1.02", skew)
	}
}

func TestPlanGrowthByVolumeStartsFromATable(t *testing.T) {
	table := filepath.Join(t.TempDir(), "routing.yaml")
	runArgs(t, "plan", "whales", "--volumes", volumesFile, "--partitions", "32", "--write", table).wantDone(t)
	got := one[growthJSON](t, "plan", "growth", "--table", table, "--to", "40", "--keys", volumesFile, "--by-volume")
	if len(got.SlotMoves) < got.AtLeast || got.SkewAfter.MaxMean > 1.4 {
		t.Errorf("%d moves, at least %d needed, to %v", len(got.SlotMoves), got.AtLeast, got.SkewAfter)
	}
	onto := map[int32]int{}
	for _, m := range got.SlotMoves {
		onto[m.To]++
	}
	for p := int32(32); p < 40; p++ {
		if onto[p] == 0 {
			t.Errorf("new partition %d gets nothing: %v", p, onto)
		}
	}
}

func TestPlanPicturesInTextAndSVG(t *testing.T) {
	keys := tempFile(t, "keys", "a\nb\nc\n")
	for name, args := range map[string][]string{
		"size":   {"--peak-per-minute", "12000", "--p50", "400ms"},
		"whales": {"--volumes", volumesFile, "--partitions", "32"},
		"growth": {"--from", "4", "--to", "5"},
		"hash":   {"--keys", keys, "--partitions", "8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("COLUMNS", "60")
			svg := filepath.Join(t.TempDir(), "plan.svg")
			got := runArgs(t, append([]string{"plan", name, "--svg", svg}, args...)...)
			got.wantDone(t)
			if !strings.ContainsAny(got.stdout, "█▓") {
				t.Errorf("no bars in %q", got.stdout)
			}
			drawn, err := os.Open(svg)
			if err != nil {
				t.Fatal(err)
			}
			defer drawn.Close()
			for in := xml.NewDecoder(drawn); ; {
				if _, err := in.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	bad := tempFile(t, "bad.tsv", "acme\t1\nglobex\tmany\n")
	full := tempFile(t, "full.yaml", routeTable)
	for _, c := range []struct {
		args  []string
		code  int
		parts []string
	}{
		{[]string{"size", "--p50", "1s"}, exitUsage, []string{"peak-per-minute"}},
		{[]string{"size", "--peak-per-minute", "-1", "--p50", "1s"}, exitUsage, []string{"PeakPerMinute"}},
		{[]string{"size", "--peak-per-minute", "1", "--p50", "1s", "--concurrency", "0"}, exitUsage, []string{"--concurrency"}},
		{[]string{"whales", "--partitions", "3"}, exitUsage, []string{"--volumes", "--from-topic"}},
		{[]string{"whales", "--volumes", bad, "--partitions", "3"}, exitUsage, []string{"bad.tsv", "line 2", "many"}},
		{[]string{"whales", "--volumes", "/does/not/exist", "--partitions", "3"}, exitUsage, []string{"/does/not/exist"}},
		{[]string{"whales", "--volumes", volumesFile}, exitUsage, []string{"--partitions"}},
		{[]string{"whales", "--volumes", volumesFile, "--partitions", "0"}, exitUsage, []string{"--partitions"}},
		{[]string{"whales", "--volumes", volumesFile, "--partitions", "3", "--target", "0.5"}, exitUsage, []string{"Target"}},
		{[]string{"whales", "--volumes", volumesFile, "--partitions", "3", "--spread", "key"}, exitUsage, []string{"--tenant-of"}},
		{[]string{"whales", "--volumes", volumesFile, "--partitions", "3", "--spread", "random", "--no-spread"}, exitUsage, []string{"exclude"}},
		{[]string{"whales", "--volumes", volumesFile, "--partitions", "3", "--write", full}, exitUsage, []string{"full.yaml exists", "--force"}},
		{[]string{"whales", "--volumes", volumesFile, "--table", full, "--topic", "orders", "--slots", "5"}, exitUsage, []string{"--slots"}},
		{[]string{"whales", "--volumes", volumesFile, "--from-topic", "orders", "--partitions", "3"}, exitUsage, []string{"not from both"}},
		{[]string{"whales", "--from-topic", "orders", "--partitions", "3"}, exitUsage, []string{"KAFKA_BROKERS"}},
		{[]string{"whales", "--from-topic", "orders", "--partitions", "3", "--brokers", "127.0.0.1:1"}, exitKafka, []string{"127.0.0.1:1"}},
		{[]string{"growth", "--to", "5"}, exitUsage, []string{"--from"}},
		{[]string{"growth", "--from", "5", "--to", "4", "--keys", volumesFile}, exitUsage, []string{"cannot lose partitions"}},
		{[]string{"hash", "--keys", volumesFile, "--partitions", "0"}, exitUsage, []string{"partitions"}},
		{[]string{"hash", "--partitions", "8"}, exitUsage, []string{"--keys"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Setenv("KAFKA_BROKERS", "")
			runArgs(t, append([]string{"plan"}, c.args...)...).wantError(t, c.code, c.parts...)
		})
	}
	if got := runArgs(t, "plan", "whales", "--volumes", volumesFile, "--partitions", "3", "--write", full, "--force"); got.code != exitDone {
		t.Errorf("--force: exit code %d, stderr %q", got.code, got.stderr)
	}
}

// A file with blanks for tabs would plan for tenants that nobody has.
func TestPlanSaysWhenNoVolumeFollowsATab(t *testing.T) {
	for content, said := range map[string]bool{
		"acme 3\nglobex 4\n":  true,
		"acme,3\nglobex,4\n":  true,
		"acme 3\nglobex\n":    false,
		"acme 3\t2\nglobex\n": false,
		"acme corp\t3\n":      false,
	} {
		r := runArgs(t, "plan", "whales", "--partitions", "2", "--volumes", tempFile(t, "volumes.tsv", content))
		r.wantDone(t)
		if strings.Contains(r.stderr, "after a tab") != said {
			t.Errorf("%q: stderr %q", content, r.stderr)
		}
	}
}

func TestPlanEndsWhenItIsInterruptedAtStdin(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	in, feed := io.Pipe()
	done := make(chan int, 1)
	var command sync.WaitGroup
	command.Go(func() {
		done <- run(ctx, []string{"plan", "hash", "--keys", "-", "--partitions", "4"}, in, io.Discard, io.Discard)
	})
	if _, err := io.WriteString(feed, "acme\n"); err != nil {
		t.Fatal(err)
	}
	cancel(stopSignal{os.Interrupt})
	command.Wait()
	if code := <-done; code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if err := feed.Close(); err != nil {
		t.Error(err)
	}
}
