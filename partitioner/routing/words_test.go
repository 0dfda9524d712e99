package routing_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestPartitionListsKeepTheirOrder(t *testing.T) {
	for _, c := range []struct {
		text, canonical string
		want            []int32
	}{
		{"0", "0", []int32{0}},
		{"2-5", "2-5", []int32{2, 3, 4, 5}},
		{" 2 - 3 , 9 ", "2-3,9", []int32{2, 3, 9}},
		{"7,2-4,0", "7,2-4,0", []int32{7, 2, 3, 4, 0}},
		{"1,2,3", "1-3", []int32{1, 2, 3}},
		{"3,2,1", "3,2,1", []int32{3, 2, 1}},
	} {
		got, err := routing.ParsePartitions(c.text, 10)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q = %v, %v, want %v", c.text, got, err, c.want)
		}
		if s := routing.FormatPartitions(got); s != c.canonical {
			t.Errorf("%v is written %q, want %q", got, s, c.canonical)
		}
	}
}

func TestPartitionListsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := partitionLists(40, 40).Draw(t, "list")
		back, err := routing.ParsePartitions(routing.FormatPartitions(list), 40)
		if err != nil || !slices.Equal(back, list) {
			t.Fatalf("%v came back as %v, %v", list, back, err)
		}
	})
}

func TestRates(t *testing.T) {
	for text, want := range map[string]float64{"500/s": 500, "30/m": 0.5, "10000/h": 10000.0 / 3600, "0.25/s": 0.25, "1e3/s": 1000} {
		got, err := routing.ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%s = %v, %v, want %v", text, got, err, want)
		}
		if back, err := routing.ParseRate(routing.FormatRate(got)); err != nil || back != got {
			t.Errorf("%v came back as %v, %v", got, back, err)
		}
	}
	for _, text := range []string{"", "5", "/s", "5/", "-1/s", "0/s", "NaN/s", "Inf/s", "5/d", "5/s/s", "1e-324/h"} {
		if got, err := routing.ParseRate(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestTenantRulesParseBack(t *testing.T) {
	for _, text := range []string{"key", "header:X-Tenant", "prefix:/", "prefix:::"} {
		rule, err := routing.ParseTenantRule(text)
		if err != nil || rule.String() != text {
			t.Errorf("%q = %v, %v", text, rule, err)
		}
	}
}

func TestWordsOfRulesAndKinds(t *testing.T) {
	var words []string
	for r := range routing.RuleSpread + 2 {
		words = append(words, r.String())
	}
	for k := range routing.KindSpreadRandom + 2 {
		words = append(words, k.String())
	}
	for k := range routing.ControlBarrier + 2 {
		words = append(words, k.String())
	}
	for s := range routing.SpreadRandom + 2 {
		words = append(words, s.String())
	}
	words = append(words, routing.Hash(9).String(), routing.TenantRule{From: 9}.String())
	want := "slot slot_override pinned spread rule(4) slot tenant spread_key spread_random kind(4) " +
		"control(0) fence barrier control(3)  key random spread(3) hash(9) tenant_of(9)"
	if got := strings.Join(words, " "); got != want {
		t.Errorf("words are\n%s, want\n%s", got, want)
	}
}

func TestParseSlotsSpeaksOfSlots(t *testing.T) {
	if list, err := routing.ParseSlots("3,1-2", 4); err != nil || !slices.Equal(list, []int32{3, 1, 2}) {
		t.Errorf("%v, %v", list, err)
	}
	for _, text := range []string{"4", "1,1", "x"} {
		if _, err := routing.ParseSlots(text, 4); err == nil || !strings.Contains(err.Error(), "slot") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
