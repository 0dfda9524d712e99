package lagwatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// What one replica wrote is what the next one knows, as long as it was written
// late enough.
func TestWhatWasToldIsKnown(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	const interval = 10 * time.Second
	known := decodeTold(encodeTold(at, notify.State{
		"slack": {"k1": {Alert: notify.Alert{Severity: "critical"}}, "k2": {Alert: notify.Alert{Severity: "page"}}},
		"hook":  {"k1": {Alert: notify.Alert{Severity: "ticket"}}},
	}), interval)
	for _, c := range []struct {
		target, key string
		since       time.Duration // after the writing
		ended       bool
		severity    string
		sure        bool
	}{
		{"slack", "k1", 0, false, "critical", true},
		{"slack", "k2", 2 * interval, false, "page", true},
		{"slack", "k2", 3 * interval, false, "page", false}, // it may have begun anew
		{"hook", "k1", 0, false, "ticket", true},
		{"hook", "k2", 0, false, "", true},
		{"hook", "k2", -time.Second, true, "", true}, // ended before the writing: delivered
		{"hook", "k2", time.Second, true, "", false},
	} {
		if severity, sure := known(c.target, c.key, at.Add(c.since), c.ended); severity != c.severity || sure != c.sure {
			t.Errorf("%+v: %q, %v", c, severity, sure)
		}
	}
	for _, text := range []string{"", "x", toldPrefix, toldPrefix + "!", toldPrefix + "AAAA"} {
		if decodeTold(text, interval) != nil {
			t.Errorf("%q means something", text)
		}
	}
}

// More than fits says so: what is in it is told, of the rest nobody knows. It
// stays within the metadata that a broker takes.
func TestToldHasABound(t *testing.T) {
	t.Parallel()
	open := map[string]notify.Entry{}
	for i := range 1000 {
		open[fmt.Sprint(i)] = notify.Entry{Alert: notify.Alert{Severity: "page"}}
	}
	at := time.UnixMilli(1_700_000_000_000)
	text := encodeTold(at, notify.State{"slack": open})
	if len(text) > 4096 {
		t.Fatalf("%d bytes", len(text))
	}
	known := decodeTold(text, time.Second)
	told := 0
	for i := range 1000 {
		severity, sure := known("slack", fmt.Sprint(i), at, false)
		if sure != (severity != "") {
			t.Fatalf("%q, %v", severity, sure)
		}
		if sure {
			told++
		}
	}
	if told != toldMost {
		t.Errorf("%d are told", told)
	}
}

func FuzzDecodeTold(f *testing.F) {
	f.Add(encodeTold(time.UnixMilli(1), notify.State{"slack": {"k": {Alert: notify.Alert{Severity: "page"}}}}))
	f.Fuzz(func(_ *testing.T, text string) {
		if known := decodeTold(text, time.Second); known != nil {
			known("slack", "k", time.UnixMilli(1), false)
		}
	})
}
