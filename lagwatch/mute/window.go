package mute

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Window is a planned maintenance: once (From, Until), or each week on some
// days.
type Window struct {
	Name string
	Match
	// From and Until bound a window that is once.
	From, Until time.Time
	// Days are on which a weekly window begins; none: each day.
	Days []time.Weekday
	// Start and End are minutes of the day in Zone. An End that is not after
	// Start is on the next day.
	Start, End int
	Zone       *time.Location
}

// At is true within the window.
func (w *Window) At(t time.Time) bool {
	if !w.Until.IsZero() {
		return !t.Before(w.From) && t.Before(w.Until)
	}
	local := t.In(w.Zone)
	minute, day := local.Hour()*60+local.Minute(), local.Weekday()
	if w.End > w.Start {
		return w.begins(day) && minute >= w.Start && minute < w.End
	}
	return w.begins(day) && minute >= w.Start || w.begins((day+6)%7) && minute < w.End
}

func (w *Window) begins(day time.Weekday) bool {
	return len(w.Days) == 0 || slices.Contains(w.Days, day)
}

// windowYAML is a window in its file.
type windowYAML struct {
	Name  string   `yaml:"name"`
	Alert string   `yaml:"alert"`
	Group string   `yaml:"group"`
	Topic string   `yaml:"topic"`
	From  string   `yaml:"from"`
	Until string   `yaml:"until"`
	Days  []string `yaml:"days"`
	Start string   `yaml:"start"`
	End   string   `yaml:"end"`
	Zone  string   `yaml:"zone"`
}

// ParseWindows reads a file of maintenance windows:
//
//   - name: weekly rebuild
//     group: billing-*
//     days: [sat, sun]
//     start: "22:00"
//     end: "02:00"
//     zone: Europe/Berlin
//   - name: migration
//     topic: audit
//     from: 2026-03-01T10:00:00Z
//     until: 2026-03-01T14:00:00Z
//
// Without days a window is on each, without a zone in UTC. Unknown fields are
// errors, and so is a window that names no alert, group or topic: it would
// mute everything.
func ParseWindows(text []byte) ([]Window, error) {
	var entries []windowYAML
	if len(bytes.TrimSpace(text)) > 0 {
		if err := yaml.Load(text, &entries, yaml.WithKnownFields()); err != nil {
			return nil, fmt.Errorf("maintenance windows: %w", err)
		}
	}
	out := make([]Window, len(entries))
	for i := range entries {
		w, err := entries[i].window()
		if err != nil {
			return nil, fmt.Errorf("maintenance windows: entry %d: %w", i+1, err)
		}
		out[i] = w
	}
	return out, nil
}

func (y *windowYAML) window() (w Window, err error) {
	w = Window{Name: y.Name, Match: Match{y.Alert, y.Group, y.Topic}, Zone: time.UTC}
	switch {
	case y.Name == "":
		return w, errors.New("name: missing")
	case w.Match == Match{}:
		return w, errors.New("names no alert, group or topic; alert: '*' is all")
	}
	if err := w.Match.validate(); err != nil {
		return w, err
	}
	if y.From+y.Until != "" {
		return y.once(w)
	}
	return y.weekly(w)
}

func (y *windowYAML) once(w Window) (Window, error) {
	if y.Start+y.End+y.Zone != "" || len(y.Days) > 0 {
		return w, errors.New("from and until are once; days, start, end and zone are weekly: give one of them")
	}
	var err error
	if w.From, err = time.Parse(time.RFC3339, y.From); err != nil {
		return w, fmt.Errorf("from: %q is not like 2026-03-01T10:00:00Z", y.From)
	}
	if w.Until, err = time.Parse(time.RFC3339, y.Until); err != nil {
		return w, fmt.Errorf("until: %q is not like 2026-03-01T14:00:00Z", y.Until)
	}
	if !w.Until.After(w.From) {
		return w, errors.New("until: must be after from")
	}
	return w, nil
}

func (y *windowYAML) weekly(w Window) (Window, error) {
	var err error
	if w.Start, err = minuteOf(y.Start); err != nil {
		return w, fmt.Errorf("start: %w", err)
	}
	if w.End, err = minuteOf(y.End); err != nil {
		return w, fmt.Errorf("end: %w", err)
	}
	if w.Start == w.End {
		return w, errors.New("end: must differ from start")
	}
	if y.Zone != "" {
		if w.Zone, err = time.LoadLocation(y.Zone); err != nil {
			return w, fmt.Errorf("zone: %q is not known, like Europe/Berlin", y.Zone)
		}
	}
	for _, name := range y.Days {
		day, ok := weekdayOf(name)
		if !ok {
			return w, fmt.Errorf("days: %q is not one of mon, tue, wed, thu, fri, sat, sun", name)
		}
		w.Days = append(w.Days, day)
	}
	return w, nil
}

func minuteOf(text string) (int, error) {
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time like 22:00", text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

func weekdayOf(name string) (time.Weekday, bool) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.EqualFold(name, day.String()[:3]) || strings.EqualFold(name, day.String()) {
			return day, true
		}
	}
	return 0, false
}
