package lagwatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

func TestOverridesChangeWhatTheyName(t *testing.T) {
	t.Parallel()
	got, err := lagwatch.ParseOverrides([]byte("- {group: billing-*, owner: payments, min_lag: 0, for: 10m}\n- {topic: audit, behind_pages: true}\n"), lag.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	first, second := lag.Defaults(), lag.Defaults()
	first.MinLag, first.For, second.BehindPages = 0, 10*time.Minute, true
	want := []lagwatch.Override{{Group: "billing-*", Owner: "payments", Rule: &first}, {Topic: "audit", Rule: &second}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if got, err := lagwatch.ParseOverrides([]byte(" \n"), lag.Defaults()); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
}

func TestBadOverridesAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- {min_lags: 1}":          "min_lags",
		"- {for: soon}":            "soon",
		"- {ratio: 1}":             "entry 1: ratio",
		"- {ratio: .inf}":          "entry 1: ratio",
		"- {ratio: .nan}":          "entry 1: ratio",
		"- {critical_ratio: .nan}": "entry 1: critical_ratio",
		"- {critical_ratio: .inf}": "entry 1: critical_ratio",
		"- {}\n- {max_delay: -1s}": "entry 2: max_delay",
		"group: billing":           "overrides",
	} {
		if _, err := lagwatch.ParseOverrides([]byte(text), lag.Defaults()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseOverrides(f *testing.F) {
	f.Add([]byte("- {group: a, for: 10m, ratio: 2}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		overrides, err := lagwatch.ParseOverrides(text, lag.Defaults())
		if err != nil {
			return
		}
		for _, o := range overrides {
			if err := o.Rule.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func ExampleParseOverrides() {
	overrides, err := lagwatch.ParseOverrides([]byte("- group: billing-*\n  owner: payments\n  min_lag: 50000\n"), lag.Defaults())
	if err != nil {
		panic(err)
	}
	fmt.Println(overrides[0].Owner, overrides[0].Rule.MinLag, overrides[0].Rule.Ratio)
	// Output: payments 50000 3
}
