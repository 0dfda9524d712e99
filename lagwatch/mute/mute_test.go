package mute_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/mute"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestWindowsFollowTheClockOfTheirZone(t *testing.T) {
	t.Parallel()
	windows, err := mute.ParseWindows([]byte(`
- name: weekend
  group: billing-*
  days: [sat, Sunday]
  start: "22:00"
  end: "02:00"
  zone: Europe/Berlin
- name: migration
  topic: audit
  from: 2026-03-01T10:00:00Z
  until: 2026-03-01T14:00:00Z
- name: nightly
  alert: behind
  start: "01:00"
  end: "03:00"
`))
	if err != nil {
		t.Fatal(err)
	}
	plan := mute.Plan{Windows: windows}
	for _, c := range []struct{ when, alert, group, topic, by string }{
		{"2026-01-03T21:30:00Z", "partition_hot", "billing-eu", "orders", "weekend"}, // Saturday 22:30 in winter
		{"2026-01-03T20:30:00Z", "partition_hot", "billing-eu", "orders", ""},
		{"2026-07-04T20:30:00Z", "partition_hot", "billing-eu", "orders", "weekend"}, // Saturday 22:30 in summer
		{"2026-01-05T00:30:00Z", "partition_hot", "billing-eu", "orders", "weekend"}, // Monday 01:30, began on Sunday
		{"2026-01-05T21:30:00Z", "partition_hot", "billing-eu", "orders", ""},        // Monday
		{"2026-01-03T21:30:00Z", "partition_hot", "shipping", "orders", ""},
		{"2026-01-03T21:30:00Z", "watchdog", "billing-eu", "", ""},
		{"2026-03-01T10:00:00Z", "gone", "anyone", "audit", "migration"},
		{"2026-03-01T14:00:00Z", "gone", "anyone", "audit", ""},
		{"2026-05-05T02:59:00Z", "behind", "anyone", "orders", "nightly"},
		{"2026-05-05T03:00:00Z", "behind", "anyone", "orders", ""},
	} {
		want := ""
		if c.by != "" {
			want = "maintenance: " + c.by
		}
		if got := plan.Muted(c.alert, c.group, c.topic, at(t, c.when)); got != want {
			t.Errorf("%+v: muted by %q", c, got)
		}
	}
}

func TestBadWindowsAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- {group: a, start: '1:00', end: '2:00'}":                                                      "name",
		"- {name: x, start: '01:00', end: '02:00'}":                                                     "names no alert",
		"- {name: x, group: '[', start: '01:00', end: '02:00'}":                                         "group",
		"- {name: x, group: a, start: '25:00', end: '02:00'}":                                           "start",
		"- {name: x, group: a, start: '01:00'}":                                                         "end",
		"- {name: x, group: a, start: '01:00', end: '01:00'}":                                           "end",
		"- {name: x, group: a, start: '01:00', end: '02:00', zone: Nowhere/At}":                         "zone",
		"- {name: x, group: a, start: '01:00', end: '02:00', days: [payday]}":                           "days",
		"- {name: x, group: a, from: '2026-01-01T00:00:00Z'}":                                           "until",
		"- {name: x, group: a, from: '2026-01-02T00:00:00Z', until: '2026-01-01T00:00:00Z'}":            "until",
		"- {name: x, group: a, from: '2026-01-02T00:00:00Z', until: '2026-01-03T00:00:00Z', zone: UTC}": "give one",
		"- {name: x, gruop: a, start: '01:00', end: '02:00'}":                                           "gruop",
	} {
		if _, err := mute.ParseWindows([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestSilenceHoldsForItsTimeAndHasAnOwner(t *testing.T) {
	t.Parallel()
	from := at(t, "2026-01-01T10:00:00Z")
	s := mute.Silence{ID: "a1", Match: mute.Match{Alert: "partition_*", Group: "billing"}, From: from, Until: from.Add(time.Hour), By: "ops", Reason: "import"}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	plan := mute.Plan{Silences: []mute.Silence{s}}
	for after, want := range map[time.Duration]string{-time.Second: "", 0: "silence a1 of ops: import", time.Hour: ""} {
		if got := plan.Muted("partition_hot", "billing", "orders", from.Add(after)); got != want {
			t.Errorf("after %v: %q", after, got)
		}
	}
	if got := plan.Muted("gone", "billing", "", from); got != "" {
		t.Errorf("another alert is muted by %q", got)
	}
	for _, edit := range []func(*mute.Silence){
		func(s *mute.Silence) { s.By = "" },
		func(s *mute.Silence) { s.Reason = "" },
		func(s *mute.Silence) { s.Until = s.From },
		func(s *mute.Silence) { s.Until = s.From.Add(1000 * time.Hour) },
		func(s *mute.Silence) { s.Topic = "[" },
		func(s *mute.Silence) { s.Reason = strings.Repeat("x", 2000) },
	} {
		bad := s
		edit(&bad)
		if bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// Whatever a file holds: an error, or windows that can be asked.
func FuzzParseWindows(f *testing.F) {
	f.Add([]byte("- {name: x, group: a, start: '23:00', end: '01:00', days: [mon], zone: Europe/Berlin}"))
	f.Add([]byte("- {name: x, alert: '*', from: '2026-01-02T00:00:00Z', until: '2026-01-03T00:00:00Z'}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		windows, err := mute.ParseWindows(text)
		if err != nil {
			return
		}
		plan := mute.Plan{Windows: windows}
		if by := plan.Muted("watchdog", "a", "b", time.Unix(1_700_000_000, 0)); by != "" {
			t.Fatalf("the watchdog is muted by %s", by)
		}
	})
}

func ExampleParseWindows() {
	windows, err := mute.ParseWindows([]byte("- {name: rebuild, group: billing, start: '22:00', end: '02:00'}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	plan := mute.Plan{Windows: windows}
	fmt.Println(plan.Muted("partition_hot", "billing", "orders", time.Date(2026, 1, 1, 1, 30, 0, 0, time.UTC)))
	// Output: maintenance: rebuild
}
