package plan_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
)

// figures is the shape of seed_figures.json: figures that the
// project's source documents state.
type figures struct {
	Blake2b32     map[string]int32   `json:"blake2b_partition_of_32"`
	Blake2bShared map[string]int32   `json:"blake2b_shared_range_start_2_count_30"`
	Moved         movedFigures       `json:"moved_of_1000_keys_user-0_to_user-999_when_4_nodes_become_5"`
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
}

type movedFigures struct {
	Hash       string `json:"hash"`
	Modulo     int    `json:"modulo"`
	Ring       int    `json:"ring_100_vnodes"`
	Rendezvous int    `json:"rendezvous"`
}

func readFigures(t *testing.T) figures {
	t.Helper()
	raw, err := os.ReadFile("../../partitioner/routing/testdata/seed_figures.json")
	if err != nil {
		t.Fatal(err)
	}
	var f figures
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// numbered is prefix-0 … prefix-(n−1), each with volume 1.
func numbered(prefix string, n int) []plan.Volume {
	keys := make([]plan.Volume, n)
	for i := range keys {
		keys[i] = plan.Volume{Tenant: prefix + strconv.Itoa(i), Volume: 1}
	}
	return keys
}

func TestFiguresOfPartitionCount(t *testing.T) {
	for _, f := range readFigures(t).Sizes {
		got, err := plan.Size(plan.SizeConfig{
			PeakPerMinute: f.Peak, P50: time.Duration(f.P50 * float64(time.Second)),
			Concurrency: f.Concurrency, Headroom: f.Headroom, Minimum: f.Minimum,
		})
		if err != nil || got.Partitions != f.Partitions {
			t.Errorf("Size(%+v) = %d, %v, want %d", f, got.Partitions, err, f.Partitions)
		}
	}
}

func TestFiguresOfGrowth(t *testing.T) {
	want := readFigures(t).Moved
	hash, err := routing.ParseHash(want.Hash)
	if err != nil {
		t.Fatal(err)
	}
	got, err := plan.Growth(numbered("user-", 1000), plan.GrowthConfig{From: 4, To: 5, Hash: hash})
	if err != nil {
		t.Fatal(err)
	}
	moved := map[string]int{}
	for _, s := range got.Strategies {
		moved[s.Strategy] = s.Keys
	}
	for strategy, n := range map[string]int{"modulo": want.Modulo, "ring": want.Ring, "rendezvous": want.Rendezvous} {
		if moved[strategy] != n {
			t.Errorf("%s moves %d keys, want %d", strategy, moved[strategy], n)
		}
	}
	if n := len(got.Balance.Moves); n != 819 || got.Balance.AtLeast != n {
		t.Errorf("slots: %d moves, at least %d needed, want 819 of 4096 for both", n, got.Balance.AtLeast)
	}
}

func TestFiguresOfHashSkew(t *testing.T) {
	f := readFigures(t)
	hot := append(numbered("user-", 100), plan.Volume{Tenant: "hot-user", Volume: 900})
	r, err := plan.HashSkew(hot, routing.SHA256First64, 4)
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	for _, p := range slices.Sorted(maps.Keys(f.Hot)) {
		want = append(want, f.Hot[p])
	}
	if diff := cmp.Diff(want, r.Counts); diff != "" {
		t.Errorf("counts of the hot user (-want +got):\n%s", diff)
	}
	countries := []plan.Volume{{Tenant: "country-0", Volume: 334}, {Tenant: "country-1", Volume: 333}, {Tenant: "country-2", Volume: 333}}
	for name, keys := range map[string][]plan.Volume{"user-0..user-999": numbered("user-", 1000), "country-0..country-2": countries} {
		r, err := plan.HashSkew(keys, routing.SHA256First64, 8)
		if err != nil || r.HottestShare != f.Hottest[name] {
			t.Errorf("hottest share of %s = %v, %v, want %v", name, r.HottestShare, err, f.Hottest[name])
		}
	}
}

func TestFiguresOfBlake2b(t *testing.T) {
	f := readFigures(t)
	alone := plan.Modulo(routing.Blake2b64, 32)
	var from2to31 []int32
	for p := range int32(30) {
		from2to31 = append(from2to31, 2+p)
	}
	shared := plan.ModuloLayout(30, from2to31)
	for tenant, want := range f.Blake2b32 {
		if got := alone([]byte(tenant)); int32(got) != want {
			t.Errorf("%s: partition %d of 32, want %d", tenant, got, want)
		}
	}
	for tenant, want := range f.Blake2bShared {
		loads := shared.Loads([]plan.Volume{{Tenant: tenant, Volume: 1}}, routing.Blake2b64, 32)
		if loads[want] != 1 {
			t.Errorf("%s: not on partition %d of 2 to 31: %v", tenant, want, loads)
		}
	}
}

func readVolumes(t testing.TB) []plan.Volume {
	t.Helper()
	f, err := os.Open("../../internal/load/tenant_volumes.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	volumes, err := plan.ReadVolumes(f, false)
	if err != nil {
		t.Fatal(err)
	}
	return volumes
}

func TestFiguresOfWhales(t *testing.T) {
	volumes := readVolumes(t)
	tests := []struct {
		spread  routing.Spread
		after   float64 // at most
		split   int
		boundBy string
	}{
		{routing.SpreadRandom, 1.02, 6, ""},
		{routing.SpreadKey, 1.02, 6, ""},
		{routing.SpreadNone, 3.85, 0, "lru-cache"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("spread=%q", test.spread), func(t *testing.T) {
			p, err := plan.Whales(volumes, plan.WhalesConfig{Partitions: 32, Spread: test.spread})
			if err != nil {
				t.Fatal(err)
			}
			if before := math.Round(p.Before.MaxMean*100) / 100; before != 4.03 {
				t.Errorf("max/mean before is %v, want 4.03", before)
			}
			if bound := math.Round(p.Bound*100) / 100; bound != 3.85 {
				t.Errorf("bound without spreading is %v, want 3.85", bound)
			}
			if p.After.MaxMean > test.after {
				t.Errorf("max/mean after is %v, want at most %v", p.After.MaxMean, test.after)
			}
			split := 0
			for _, w := range p.Whales {
				if w.Spread != routing.SpreadNone {
					split++
				}
			}
			if split > test.split || p.BoundBy != test.boundBy {
				t.Errorf("splits %d bound by %q, want at most %d by %q", split, p.BoundBy, test.split, test.boundBy)
			}
		})
	}
}
