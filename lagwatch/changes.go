package lagwatch

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// Changes tells what is different from one evaluation to the next, in words.
// The zero value is ready. It is not safe for concurrent use.
type Changes struct {
	open  map[string]notify.Alert
	blind bool
}

// Lines is a line for each alert that began, got louder or ended, and for the
// sight that was lost or came back.
func (c *Changes) Lines(e *Evaluation) (lines []string) {
	at := e.At.Format(time.RFC3339)
	now := map[string]notify.Alert{}
	for _, a := range e.alerts {
		if a.Name == lag.AlertWatchdog {
			continue
		}
		key := a.Key()
		now[key] = a
		if before, open := c.open[key]; !open || before.Severity != a.Severity {
			lines = append(lines, fmt.Sprintf("%s %s %s: %s", at, a.Severity, a.Name, a.Summary))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.open)) {
		if a := c.open[key]; now[key].Name == "" {
			lines = append(lines, fmt.Sprintf("%s resolved %s: group %s, topic %s", at, a.Name, a.Group, a.Topic))
		}
	}
	switch {
	case e.Blind && !c.blind:
		lines = append(lines, fmt.Sprintf("%s blind: %d partitions unknown; not everything can be seen", at, e.Unknown))
	case !e.Blind && c.blind:
		lines = append(lines, at+" sees everything again")
	}
	c.open, c.blind = now, e.Blind
	return lines
}
