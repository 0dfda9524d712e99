package notify

import (
	"cmp"
	"slices"
	"time"
)

// Entry is one alert that a target was told of and that has not ended there.
type Entry struct {
	Alert  Alert     `json:"alert"`
	SentAt time.Time `json:"sent_at"`
	// Account is a fingerprint of the key under which it was opened, of targets
	// that know alerts by it; empty for others.
	Account string `json:"account,omitempty"`
}

// book is what one target was told: open alerts by dedup key.
type book map[string]Entry

// due is what the target has to be told to be up to date: alerts that are new
// or got louder, those whose renotify time has come, and those that ended.
// Loudest first.
func (b book) due(now time.Time, firing map[string]Alert, renotify time.Duration) []Alert {
	var out []Alert
	for key, a := range firing {
		e, open := b[key]
		again := open && renotify > 0 && now.Sub(e.SentAt) >= renotify
		if !open || again || loudness(a.Severity) > loudness(e.Alert.Severity) {
			out = append(out, a)
		}
	}
	for key, e := range b {
		if _, still := firing[key]; !still {
			a := e.Alert
			a.ResolvedAt = now
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b Alert) int {
		return cmp.Or(
			cmp.Compare(loudness(b.Severity), loudness(a.Severity)),
			cmp.Compare(a.Key(), b.Key()),
		)
	})
	return out
}

// told records a delivery.
func (b book) told(now time.Time, account string, alerts []Alert) {
	for _, a := range alerts {
		if a.ResolvedAt.IsZero() {
			b[a.Key()] = Entry{a, now, account}
		} else {
			delete(b, a.Key())
		}
	}
}

// next is when the first renotify falls due; false when none will.
func (b book) next(renotify time.Duration) (time.Time, bool) {
	var first time.Time
	if renotify <= 0 {
		return first, false
	}
	for _, e := range b {
		if at := e.SentAt.Add(renotify); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first, !first.IsZero()
}
