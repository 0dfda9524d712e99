package lagwatch

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/mute"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// Marker is a deploy, or another change that somebody announced: pages that
// begin soon afterwards show it.
type Marker struct {
	At time.Time `json:"at"`
	// Text says what changed, required.
	Text string `json:"text"`
	// Group is whom it concerns, a name or a pattern of path.Match; empty: all.
	Group string `json:"group,omitempty"`
	By    string `json:"by,omitempty"`
}

// Markers that are kept, and how close to the beginning of an alert they are
// shown with it.
const (
	markersKept  = 200
	markerText   = 500
	markerBefore = time.Hour
	markerAfter  = 10 * time.Minute
	markersShown = 3
	silencesKept = 500
)

// journal is what people told the watcher: silences and markers. It is safe
// for concurrent use.
type journal struct {
	windows []mute.Window

	mu sync.Mutex
	// guards all below
	silences []mute.Silence
	markers  []Marker // by time
}

// mutedBy says what mutes an alert, or "".
func (j *journal) mutedBy(a *notify.Alert, now time.Time) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	plan := mute.Plan{Windows: j.windows, Silences: j.silences}
	return plan.Muted(a.Name, a.Group, a.Topic, now)
}

// errFull is returned when there are more silences than anyone can mean.
var errFull = errors.New("there are too many silences; end some")

// silence adds one that begins now, and returns it with its id.
func (j *journal) silence(s mute.Silence, now time.Time) (mute.Silence, error) {
	if s.From.IsZero() {
		s.From = now
	}
	if err := s.Validate(); err != nil {
		return s, err
	}
	if !s.Until.After(now) {
		return s, errors.New("until: is over already")
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	s.ID = hex.EncodeToString(id[:])
	j.mu.Lock()
	defer j.mu.Unlock()
	j.expire(now)
	if len(j.silences) >= silencesKept {
		return s, errFull
	}
	j.silences = append(j.silences, s)
	return s, nil
}

// endSilence removes a silence; false when there is none of that id.
func (j *journal) endSilence(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.silences)
	j.silences = slices.DeleteFunc(j.silences, func(s mute.Silence) bool { return s.ID == id })
	return len(j.silences) < n
}

// expire forgets what is over; mu is held.
func (j *journal) expire(now time.Time) {
	j.silences = slices.DeleteFunc(j.silences, func(s mute.Silence) bool { return !s.Until.After(now) })
}

// mark adds a marker; without a time it is now.
func (j *journal) mark(m Marker, now time.Time) (Marker, error) {
	if m.At.IsZero() {
		m.At = now
	}
	switch {
	case m.Text == "":
		return m, errors.New("text: missing")
	case len(m.Text)+len(m.By) > markerText:
		return m, fmt.Errorf("text: longer than %d bytes", markerText)
	case m.At.After(now.Add(time.Minute)):
		return m, errors.New("at: is in the future")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.markers = append(j.markers, m)
	slices.SortStableFunc(j.markers, func(a, b Marker) int { return a.At.Compare(b.At) })
	j.markers = slices.Delete(j.markers, 0, max(len(j.markers)-markersKept, 0))
	return m, nil
}

// about is the newest markers from about when an alert of a group began.
func (j *journal) about(group string, since time.Time) (out []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.markers {
		if m.At.Before(since.Add(-markerBefore)) || m.At.After(since.Add(markerAfter)) || m.Group != "" && !matches(m.Group, group) {
			continue
		}
		text := m.At.UTC().Format("2006-01-02 15:04 UTC") + " " + m.Text
		if m.By != "" {
			text += " (" + m.By + ")"
		}
		out = append(out, text)
	}
	return out[max(len(out)-markersShown, 0):]
}

// list is the silences that are not over, by their end, and all markers.
func (j *journal) list(now time.Time) ([]mute.Silence, []Marker) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.expire(now)
	silences := slices.Clone(j.silences)
	slices.SortFunc(silences, func(a, b mute.Silence) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID)) })
	return silences, slices.Clone(j.markers)
}

// restore takes what a state file kept, without what can no longer be meant.
func (j *journal) restore(silences []mute.Silence, markers []Marker) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range silences {
		if s.Validate() == nil && s.ID != "" {
			j.silences = append(j.silences, s)
		}
	}
	j.markers = append(j.markers, markers[max(len(markers)-markersKept, 0):]...)
	slices.SortStableFunc(j.markers, func(a, b Marker) int { return a.At.Compare(b.At) })
}
