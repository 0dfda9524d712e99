package bench

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tenantlane/tenantlane/internal/load"
)

func TestRouteComparesBothSidesForEachTable(t *testing.T) {
	report, err := Route(t.Context(), RouteConfig{Tenants: []string{"a", "b", "c"}, Lookups: 1, Runs: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Tables) != 2 || report.Tables[0].Placements != 0 || report.Tables[1].Placements != 10_000 {
		t.Fatalf("tables %+v", report.Tables)
	}
	for _, table := range report.Tables {
		if table.NS <= 0 || table.BareNS <= 0 || table.Ratio != table.NS/table.BareNS || table.Ratio > report.Ratio {
			t.Errorf("table %+v of %+v", table, report)
		}
		if table.Allocs != 0 {
			t.Errorf("a lookup allocates %v times", table.Allocs)
		}
	}
	if report.Tables[0].AllHitNS != 0 || report.Tables[1].AllHitNS <= 0 {
		t.Errorf("all-hit figures %v and %v", report.Tables[0].AllHitNS, report.Tables[1].AllHitNS)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{`"ns":`, `"bare_ns":`, `"ratio":`, `"allocs":`} {
		if !strings.Contains(string(text), name) {
			t.Errorf("%s is missing in %s", name, text)
		}
	}
}

func TestRouteEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Route(ctx, RouteConfig{Tenants: []string{"a"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestRouteConfigNamesTheField(t *testing.T) {
	for want, cfg := range map[string]RouteConfig{
		"Tenants": {},
		"Runs":    {Tenants: []string{"a"}, Runs: -1},
		"slots":   {Tenants: []string{"a"}, Slots: -1},
	} {
		if _, err := Route(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, figures := range map[float64][]float64{2: {3, 1, 2}, 1: {1}, 4: {9, 4}} {
		if got := median(figures); got != want {
			t.Errorf("median of %v is %v, want %v", figures, got, want)
		}
	}
}

// BenchmarkRoute prints what bench route reports, for work on the lookup.
func BenchmarkRoute(b *testing.B) {
	report, err := Route(b.Context(), RouteConfig{Tenants: benchTenants()})
	if err != nil {
		b.Fatal(err)
	}
	for _, table := range report.Tables {
		b.Logf("%+v", table)
	}
	for b.Loop() { // the figures are the report's
	}
}

func benchPopulation() load.Population {
	population, err := load.DefaultPopulation()
	if err != nil {
		panic(err)
	}
	return population
}

func benchTenants() []string {
	population := benchPopulation()
	names := make([]string, len(population.Tenants))
	for i, t := range population.Tenants {
		names[i] = t.Tenant
	}
	return names
}
