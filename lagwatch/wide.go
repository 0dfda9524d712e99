package lagwatch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// wideAlert is an alert about a group as a whole, which each of its topics
// says: one page, however many topics the group reads.
type wideAlert struct {
	first    pairKey // the pair that tells it
	name     string
	severity lag.Severity
	since    time.Time
	topics   []string
}

// ofGroup is true for an alert that is about a group, whatever the topic. That
// a topic was made again is about the topic.
func ofGroup(a *lag.Alert) bool {
	if a.Pool != "" {
		return false
	}
	switch a.Name {
	case lag.AlertBlind, lag.AlertGone, lag.AlertRebalanceStuck, lag.AlertIdleMembers:
		return true
	}
	return false
}

// wideAlerts joins what the topics of each group say about the group, by the
// alert's name and the group.
func (e *engine) wideAlerts() map[string]*wideAlert {
	out := map[string]*wideAlert{}
	for _, key := range e.order {
		alerts := e.pairs[key].verdict.Alerts
		for i := range alerts {
			a := &alerts[i]
			if !ofGroup(a) {
				continue
			}
			id := a.Name + "\x00" + key.group
			w := out[id]
			if w == nil {
				w = &wideAlert{first: key, name: a.Name, since: a.Since}
				out[id] = w
			}
			w.severity = max(w.severity, a.Severity)
			if a.Since.Before(w.since) {
				w.since = a.Since
			}
			if key.topic != "" {
				w.topics = append(w.topics, key.topic)
			}
		}
	}
	return out
}

// groupAlert is a wide alert as it is told. Its identity has no topic.
func (e *engine) groupAlert(s *Snapshot, key pairKey, w *wideAlert) notify.Alert {
	out := notify.Alert{
		Name: w.name, Cluster: s.Cluster, Group: key.group, Severity: e.pairs[key].loud(w.name, w.severity), Since: w.since,
		Partitions: []int32{}, Owner: e.pairs[key].owner, Runbook: e.runbook(w.name),
	}
	out.Summary = groupSummary(&out)
	if w.name == lag.AlertGone { // only of those whose records keep coming
		out.Summary += " Of " + listed(slices.Clone(w.topics)) + "."
	}
	return out
}

// listed writes names, and how many more there are.
func listed(names []string) string {
	const most = 5
	more := len(names) - most
	if more > 0 {
		names = names[:most]
	}
	text := strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
