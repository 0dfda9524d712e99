package load

import (
	"math"
	"strings"
	"testing"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestDefaultPopulationIsThePowerLaw(t *testing.T) {
	p, err := DefaultPopulation()
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Tenants) != 4033 || p.Tenants[0].Tenant != "lru-cache" || math.Abs(p.Share(0)-0.12) > 0.001 {
		t.Errorf("%d tenants, largest %q with %.3f", len(p.Tenants), p.Tenants[0].Tenant, p.Share(0))
	}
}

func TestPopulationErrorsNameFileAndLine(t *testing.T) {
	for text, want := range map[string]string{
		"a\t1\nb\tmany\n": "my.tsv: line 2",
		"a\t-1\n":         "my.tsv: line 1",
		"\t5\n":           "my.tsv: line 1",
		"":                "my.tsv: no tenant",
		"a\t0\nb\t0\n":    "my.tsv: no tenant has a volume above 0",
	} {
		if _, err := ReadPopulation("my.tsv", strings.NewReader(text), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// TestSamplerFollowsTheVolumes allows five standard deviations; the seed is
// fixed, so the test gives the same answer each time.
func TestSamplerFollowsTheVolumes(t *testing.T) {
	p := NewPopulation([]routing.Volume{{Tenant: "a", Volume: 700}, {Tenant: "b", Volume: 200}, {Tenant: "c", Volume: 99}, {Tenant: "d", Volume: 1}, {Tenant: "none", Volume: 0}})
	for _, p := range []Population{p, p.Uniform()} {
		const n = 200_000
		s := NewSampler(p, 42)
		counts := map[string]float64{}
		for range n {
			counts[s.Next()]++
		}
		for i, v := range p.Tenants {
			want := p.Share(i) * n
			if sigma := math.Sqrt(want * (1 - p.Share(i))); math.Abs(counts[v.Tenant]-want) > 5*sigma {
				t.Errorf("%s drawn %.0f times, want about %.0f", v.Tenant, counts[v.Tenant], want)
			}
		}
	}
}

func TestMixGivesExactCountsSpreadOverTheRun(t *testing.T) {
	p := NewPopulation([]routing.Volume{{Tenant: "a", Volume: 3}, {Tenant: "b", Volume: 1}})
	draw := func() []string {
		m, err := NewMix(p, 6000, []Burst{{"whale", 4000}, {"none", 0}}, 7)
		if err != nil || m.Left() != 10_000 {
			t.Fatalf("%d left, %v", m.Left(), err)
		}
		var drawn []string
		for tenant, ok := m.Next(); ok; tenant, ok = m.Next() {
			drawn = append(drawn, tenant)
		}
		return drawn
	}
	drawn, again := draw(), draw()
	if strings.Join(drawn, " ") != strings.Join(again, " ") {
		t.Error("the same seed gave other tenants")
	}
	counts := map[string]int{}
	for i, tenant := range drawn {
		counts[tenant]++
		if i == 4999 && (counts["whale"] < 1800 || counts["whale"] > 2200) {
			t.Errorf("%d of the whale's 4000 in the first half", counts["whale"])
		}
	}
	if len(drawn) != 10_000 || counts["whale"] != 4000 || counts["none"] != 0 || counts["a"] < counts["b"] {
		t.Errorf("%d drawn: %v", len(drawn), counts)
	}
}

func TestMixRefusesNonsense(t *testing.T) {
	p := NewPopulation([]routing.Volume{{Tenant: "a", Volume: 1}})
	if _, err := NewMix(p, -1, nil, 1); err == nil {
		t.Error("a negative count is taken")
	}
	for _, b := range []Burst{{"", 1}, {"a", -1}} {
		if _, err := NewMix(p, 1, []Burst{b}, 1); err == nil {
			t.Errorf("%+v is taken", b)
		}
	}
}

func TestWithoutLeavesTenantsOut(t *testing.T) {
	p := NewPopulation([]routing.Volume{{Tenant: "a", Volume: 3}, {Tenant: "b", Volume: 1}})
	if p = p.Without(func(tenant string) bool { return tenant == "a" }); len(p.Tenants) != 1 || p.Share(0) != 1 {
		t.Errorf("%+v", p)
	}
}

func BenchmarkSampler(b *testing.B) {
	p, err := DefaultPopulation()
	if err != nil {
		b.Fatal(err)
	}
	s := NewSampler(p, 1)
	b.ReportAllocs()
	for b.Loop() {
		s.Next()
	}
}
