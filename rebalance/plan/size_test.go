package plan_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/rebalance/plan"
)

func TestSizeWarns(t *testing.T) {
	const crowded, few = "more than 64", "one per 40 tenants"
	tests := []struct {
		name   string
		config plan.SizeConfig
		want   int
		warns  []string
	}{
		{"small", plan.SizeConfig{PeakPerMinute: 100, P50: time.Second}, 8, nil},
		{"exact decimals", plan.SizeConfig{PeakPerMinute: 600, P50: time.Second, Headroom: 1.1, Minimum: 1}, 11, nil},
		{"many partitions", plan.SizeConfig{PeakPerMinute: 12000, P50: 400 * time.Millisecond}, 120, []string{crowded, "concurrency 2, 60 partitions"}},
		{"few tenants", plan.SizeConfig{PeakPerMinute: 12000, P50: 400 * time.Millisecond, Concurrency: 8, Tenants: 400}, 15, []string{few, "concurrency 12, 10 partitions"}},
		{"minimum above the tenants", plan.SizeConfig{PeakPerMinute: 1, P50: time.Second, Tenants: 40}, 8, []string{few, "minimum of 8"}},
		{"both", plan.SizeConfig{PeakPerMinute: 12000, P50: 400 * time.Millisecond, Minimum: 1, Tenants: 80}, 120, []string{crowded, few, "concurrency 60, 2 partitions"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := plan.Size(test.config)
			if err != nil || got.Partitions != test.want {
				t.Fatalf("Size = %+v, %v, want %d", got, err, test.want)
			}
			said := strings.Join(got.Warnings, "\n")
			if len(test.warns) == 0 && said != "" {
				t.Errorf("warns %q, want nothing", said)
			}
			for _, w := range test.warns {
				if !strings.Contains(said, w) {
					t.Errorf("warns %q, want %q in it", said, w)
				}
			}
		})
	}
}

func TestSizeRefuses(t *testing.T) {
	good := plan.SizeConfig{PeakPerMinute: 100, P50: time.Second}
	for field, change := range map[string]func(*plan.SizeConfig){
		"PeakPerMinute": func(c *plan.SizeConfig) { c.PeakPerMinute = math.NaN() },
		"P50":           func(c *plan.SizeConfig) { c.P50 = -1 },
		"Concurrency":   func(c *plan.SizeConfig) { c.Concurrency = -1 },
		"Headroom":      func(c *plan.SizeConfig) { c.Headroom = 0.5 },
		"Minimum":       func(c *plan.SizeConfig) { c.Minimum = -1 },
		"Tenants":       func(c *plan.SizeConfig) { c.Tenants = -1 },
		"a topic":       func(c *plan.SizeConfig) { c.PeakPerMinute = 1e300 },
	} {
		bad := good
		change(&bad)
		if r, err := plan.Size(bad); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Size(%+v) = %+v, %v, want an error that names %s", bad, r, err, field)
		}
	}
}

func TestSizeEqualsTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := plan.SizeConfig{
			PeakPerMinute: float64(rapid.IntRange(1, 1e7).Draw(t, "peak")),
			P50:           time.Duration(rapid.IntRange(1, 1e5).Draw(t, "p50")) * time.Millisecond,
			Concurrency:   rapid.IntRange(1, 100).Draw(t, "concurrency"),
			Headroom:      1 + float64(rapid.IntRange(0, 30).Draw(t, "headroom"))/10,
			Minimum:       rapid.IntRange(1, 50).Draw(t, "minimum"),
		}
		perPartition := 60 / c.P50.Seconds() * float64(c.Concurrency)
		exact := c.PeakPerMinute / perPartition * c.Headroom
		got, err := plan.Size(c)
		if err != nil {
			t.Fatal(err)
		}
		// Floating point may fall on either side of a whole number.
		low, high := max(c.Minimum, int(math.Ceil(exact*(1-1e-12)))), max(c.Minimum, int(math.Ceil(exact*(1+1e-12))))
		if got.Partitions < low || got.Partitions > high {
			t.Fatalf("Size = %d, the formula gives %d to %d", got.Partitions, low, high)
		}
	})
}
