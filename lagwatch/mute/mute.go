package mute

import (
	"errors"
	"fmt"
	"path"
	"time"
)

// Match says which alerts are meant, by names or patterns of path.Match; empty
// is any.
type Match struct {
	Alert string `json:"alert,omitempty"`
	Group string `json:"group,omitempty"`
	Topic string `json:"topic,omitempty"`
}

// neverMuted is the alert that always fires, so that its silence is noticed.
const neverMuted = "watchdog"

// Covers is true for an alert that is meant.
func (m Match) Covers(alert, group, topic string) bool {
	return alert != neverMuted && fits(m.Alert, alert) && fits(m.Group, group) && fits(m.Topic, topic)
}

func fits(pattern, name string) bool {
	if pattern == "" || pattern == name {
		return true
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func (m Match) validate() error {
	for field, pattern := range map[string]string{"alert": m.Alert, "group": m.Group, "topic": m.Topic} {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%s: %q is not a name or pattern", field, pattern)
		}
	}
	return nil
}

// Silence is what a person muted for a while.
type Silence struct {
	ID string `json:"id"`
	Match
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// longest bounds a silence: what is muted for longer is forgotten.
const longest = 30 * 24 * time.Hour

// Validate names the field that cannot be used.
func (s *Silence) Validate() error {
	switch {
	case s.By == "":
		return errors.New("by: missing: say who is responsible")
	case s.Reason == "":
		return errors.New("reason: missing")
	case len(s.By)+len(s.Reason) > maxText:
		return fmt.Errorf("reason: longer than %d bytes", maxText)
	case !s.Until.After(s.From):
		return errors.New("until: must be after from")
	case s.Until.Sub(s.From) > longest:
		return fmt.Errorf("until: a silence lasts at most %v", longest)
	}
	return s.Match.validate()
}

// maxText bounds what a person writes.
const maxText = 1000

// Plan is what is muted. The zero value mutes nothing.
type Plan struct {
	Windows  []Window
	Silences []Silence
}

// Muted says what mutes an alert at a time, or "".
func (p *Plan) Muted(alert, group, topic string, at time.Time) string {
	for i := range p.Windows {
		if w := &p.Windows[i]; w.Covers(alert, group, topic) && w.At(at) {
			return "maintenance: " + w.Name
		}
	}
	for i := range p.Silences {
		s := &p.Silences[i]
		if s.Covers(alert, group, topic) && !at.Before(s.From) && at.Before(s.Until) {
			return fmt.Sprintf("silence %s of %s: %s", s.ID, s.By, s.Reason)
		}
	}
	return ""
}
