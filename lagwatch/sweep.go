package lagwatch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// SweepSnapshot is what a sweep learned: once an hour, about the topics of the
// table, whoever reads them.
type SweepSnapshot struct {
	Topics []SweptTopic `json:"topics"`
}

// SweptTopic is one topic of the table. Slices are indexed by partition, with
// Unread and None as in Snapshot.
type SweptTopic struct {
	Topic string `json:"topic"`
	// Partitions is how many the topic has, 0 when there is no such topic, −1
	// when that was not told.
	Partitions int     `json:"partitions"`
	Start      []int64 `json:"start"`
	End        []int64 `json:"end"`
	// Day, Week and Month are the first offsets that are not older, None when
	// every record is.
	Day   []int64 `json:"day"`
	Week  []int64 `json:"week"`
	Month []int64 `json:"month"`
	// Quarantined is how many stale records workers have set aside; Unread when
	// that was not told.
	Quarantined int64 `json:"quarantined"`
}

// finding is an open alert of a sweep. It stays until a sweep that sees the
// topic does not find it.
type finding struct {
	Alert      string    `json:"alert"`
	Group      string    `json:"group,omitempty"`
	Topic      string    `json:"topic"`
	Pool       string    `json:"pool,omitempty"`
	Partitions []int32   `json:"partitions,omitempty"`
	Tenant     []byte    `json:"tenant,omitempty"`
	Since      time.Time `json:"since"`
	Text       string    `json:"text"`
	Command    []string  `json:"command,omitempty"`
	Bare       bool      `json:"bare,omitempty"` // the command asks workers, not the cluster
}

func (f *finding) key() string {
	return strings.Join([]string{f.Alert, f.Group, f.Topic, f.Pool}, "\x00")
}

// What sweeps go by.
const (
	sweepEvery   = time.Hour
	staleShare   = 0.25                // of a mean partition: a placement below is not worth it
	staleAfter   = 7 * 24 * time.Hour  // of a placement
	unusedAfter  = 30 * 24 * time.Hour // without a record
	parkedAfter  = 10 * time.Minute
	sweepTraffic = 1000 // records a week below which nothing is compared
)

// sweep judges what a sweep learned.
func (e *engine) sweep(s *Snapshot) {
	if s.Sweep == nil || e.table == nil {
		return
	}
	for i := range s.Sweep.Topics {
		swept := &s.Sweep.Topics[i]
		t := e.tableTopic(swept.Topic)
		if t == nil || swept.Partitions < 0 || swept.Partitions > maxPartitions {
			continue // unknown: what was found before stays
		}
		found := slices.Concat(e.mismatch(t, swept), e.stalePlacements(s.At, swept), e.unused(s.At, t, swept), e.unread(s, swept))
		e.settle(s.At, swept.Topic, found, lag.AlertTableMismatch, lag.AlertPlacementStale, lag.AlertPartitionUnused, lag.AlertUnread)
		if swept.Quarantined != Unread {
			e.quarantined[swept.Topic] = swept.Quarantined
		}
	}
	e.forgetSwept()
}

// settle replaces what is open of some alerts about a topic.
func (e *engine) settle(at time.Time, topic string, found []finding, alerts ...string) {
	now := map[string]bool{}
	for _, f := range found {
		key := f.key()
		now[key] = true
		f.Since = at
		if before, open := e.findings[key]; open {
			f.Since = before.Since
		}
		e.findings[key] = f
	}
	maps.DeleteFunc(e.findings, func(key string, f finding) bool {
		return f.Topic == topic && slices.Contains(alerts, f.Alert) && !now[key]
	})
}

// forgetSwept forgets topics that the table no longer has.
func (e *engine) forgetSwept() {
	gone := func(topic string) bool { return e.tableTopic(topic) == nil }
	maps.DeleteFunc(e.findings, func(_ string, f finding) bool { return f.Alert != lag.AlertLaneParked && gone(f.Topic) })
	maps.DeleteFunc(e.quarantined, func(topic string, _ int64) bool { return gone(topic) })
	maps.DeleteFunc(e.placedSince, func(key string, _ time.Time) bool {
		topic, _, _ := strings.Cut(key, "\x00")
		return gone(topic)
	})
}

// mismatch finds a topic with fewer partitions than its table sends to.
func (e *engine) mismatch(t *routing.Topic, swept *SweptTopic) []finding {
	if int32(swept.Partitions) >= t.Partitions() {
		return nil
	}
	text := fmt.Sprintf("Topic %s has %d partitions, and the table sends to %d.", swept.Topic, swept.Partitions, t.Partitions())
	if swept.Partitions == 0 {
		text = fmt.Sprintf("Topic %s does not exist, and the table sends to it.", swept.Topic)
	}
	return []finding{{Alert: lag.AlertTableMismatch, Topic: swept.Topic, Text: text, Command: []string{"tenantlane", "table", "check"}}}
}

// inflowOf is how many records a partition took since; false when unknown.
func inflowOf(since, end []int64, p int) (int64, bool) {
	from, to := offsetOf(since, p), offsetOf(end, p)
	switch {
	case from == Unread || to < 0:
		return 0, false
	case from == None:
		return 0, true
	}
	return max(to-from, 0), true
}

// stalePlacements finds partitions of their own that take less than a quarter
// of a mean partition for a week, or nothing for a month.
func (e *engine) stalePlacements(at time.Time, swept *SweptTopic) (out []finding) {
	total, mean := e.weekOf(swept)
	pools := map[string][]int32{}
	for p, name := range e.layout(swept.Topic).pools {
		pools[name] = append(pools[name], p)
	}
	held := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		partitions := pools[name]
		slices.Sort(partitions)
		key := swept.Topic + "\x00" + name + "\x00" + fmt.Sprint(partitions)
		held[key] = true
		if e.placedSince[key].IsZero() {
			e.placedSince[key] = at
		}
		age := at.Sub(e.placedSince[key])
		f := finding{
			Alert: lag.AlertPlacementStale, Topic: swept.Topic, Pool: name, Partitions: partitions,
			Command: []string{"tenantlane", "plan", "whales", "--from-topic", swept.Topic},
		}
		week, known := sumOf(swept.Week, swept.End, partitions)
		month, seen := sumOf(swept.Month, swept.End, partitions)
		switch share := float64(week) / float64(len(partitions)) / max(mean, 1); {
		case seen && month == 0 && age >= unusedAfter:
			f.Text = fmt.Sprintf("%s of %s are kept for %s and took no record for 30 days.", capital(partitionsText(partitions)), swept.Topic, name)
			out = append(out, f)
		case known && total >= sweepTraffic && share < staleShare && age >= staleAfter:
			f.Text = fmt.Sprintf("%s of %s are kept for %s and took %.0f %% of a mean partition in 7 days.",
				capital(partitionsText(partitions)), swept.Topic, name, 100*share)
			out = append(out, f)
		}
	}
	maps.DeleteFunc(e.placedSince, func(key string, _ time.Time) bool {
		rest, of := strings.CutPrefix(key, swept.Topic+"\x00")
		return of && rest != "" && !held[key] // the rest is empty for the topic itself
	})
	return out
}

func sumOf(since, end []int64, partitions []int32) (sum int64, known bool) {
	for _, p := range partitions {
		n, ok := inflowOf(since, end, int(p))
		if !ok {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// weekOf is a topic's records of a week, in all and of a mean partition.
func (e *engine) weekOf(swept *SweptTopic) (total int64, mean float64) {
	n := 0
	for p := range swept.Partitions {
		if records, ok := inflowOf(swept.Week, swept.End, p); ok {
			total, n = total+records, n+1
		}
	}
	return total, float64(total) / float64(max(n, 1))
}

// unused finds shared partitions that took no record for a month: slots that
// nobody is in, or that producers do not reach.
func (e *engine) unused(at time.Time, t *routing.Topic, swept *SweptTopic) []finding {
	key := swept.Topic + "\x00"
	if e.placedSince[key].IsZero() {
		e.placedSince[key] = at
	}
	watched := at.Sub(e.placedSince[key]) >= unusedAfter
	var partitions []int32
	for _, p := range t.Shared() {
		if offsetOf(swept.Month, int(p)) == None && offsetOf(swept.End, int(p)) >= 0 && (watched || swept.End[p] > 0) {
			partitions = append(partitions, p)
		}
	}
	if len(partitions) == 0 {
		return nil
	}
	slices.Sort(partitions)
	return []finding{{
		Alert: lag.AlertPartitionUnused, Topic: swept.Topic, Partitions: partitions,
		Text:    fmt.Sprintf("%s of %s took no record for 30 days.", capital(partitionsText(partitions)), swept.Topic),
		Command: []string{"tenantlane", "plan", "whales", "--from-topic", swept.Topic},
	}}
}

// unread finds partitions with records older than a day that no group has ever
// committed. Only a watcher of all groups can tell.
func (e *engine) unread(s *Snapshot, swept *SweptTopic) []finding {
	if len(e.cfg.Groups) > 0 || s.Incomplete {
		return nil
	}
	var partitions []int32
	for p := range swept.Partitions {
		start, day := offsetOf(swept.Start, p), offsetOf(swept.Day, p)
		if day == None {
			day = offsetOf(swept.End, p)
		}
		if start >= 0 && day > start && neverCommitted(s, swept.Topic, p) {
			partitions = append(partitions, int32(p))
		}
	}
	if len(partitions) == 0 {
		return nil
	}
	return []finding{{
		Alert: lag.AlertUnread, Topic: swept.Topic, Partitions: partitions,
		Text: fmt.Sprintf("%s of %s hold records older than a day, and no group has committed there.", capital(partitionsText(partitions)), swept.Topic),
	}}
}

// neverCommitted is true when every group is known to have no commit there.
func neverCommitted(s *Snapshot, topic string, partition int) bool {
	for i := range s.Groups {
		g := &s.Groups[i]
		if !g.CommitsKnown && !g.Missing {
			return false
		}
		if c, ok := g.topic(topic); ok && offsetOf(c.Commits, partition) != None {
			return false
		}
	}
	return true
}

// parked finds groups with lanes that are stopped for a record that fails. It
// is looked at in each round, since commits tell it.
func (e *engine) parked(s *Snapshot) {
	for i := range s.Groups {
		g := &s.Groups[i]
		for j := range g.Topics {
			if g.CommitsKnown {
				e.parkedOf(s.At, g.Group, &g.Topics[j])
			}
		}
	}
}

func (e *engine) parkedOf(at time.Time, group string, c *CommitsSnapshot) {
	key := pairKey{group, c.Topic}
	id := (&finding{Alert: lag.AlertLaneParked, Group: group, Topic: c.Topic}).key()
	lanes := 0
	var partitions []int32
	for p, n := range c.Parked {
		if n > 0 {
			lanes += int(n)
			partitions = append(partitions, int32(p))
		}
	}
	if lanes == 0 {
		if !slices.Contains(c.Commits, Unread) { // else it may be where nobody looked
			delete(e.parkedSince, key)
			delete(e.findings, id)
		}
		return
	}
	if e.parkedSince[key].IsZero() {
		e.parkedSince[key] = at
	}
	if at.Sub(e.parkedSince[key]) < parkedAfter {
		return
	}
	e.findings[id] = finding{
		Alert: lag.AlertLaneParked, Group: group, Topic: c.Topic, Partitions: partitions, Since: e.parkedSince[key],
		Text: fmt.Sprintf("%d lanes of group %s are parked in %s of %s: their tenants wait for an operator.",
			lanes, group, partitionsText(partitions), c.Topic),
		Command: []string{"tenantlane", "lanes", "list", "--admin", "http://WORKER:PORT"}, Bare: true,
	}
}

// openFindings are the findings in order.
func (e *engine) openFindings() []finding {
	out := slices.Collect(maps.Values(e.findings))
	slices.SortFunc(out, func(a, b finding) int { return cmp.Compare(a.key(), b.key()) })
	return out
}

// findingAlert is a finding as it is told: always a ticket.
func (e *engine) findingAlert(cluster string, f finding) notify.Alert {
	_, o := e.cfg.override(f.Group, f.Topic)
	out := notify.Alert{
		Name: f.Alert, Cluster: cluster, Group: f.Group, Topic: f.Topic, Pool: f.Pool, Severity: lag.Ticket.String(),
		Since: f.Since, Partitions: append([]int32{}, f.Partitions...), Summary: f.Text, Owner: o.Owner,
		Impact: impact(f.Alert), Runbook: e.runbook(f.Alert),
	}
	out.Tenant, out.TenantHex = e.shown(string(f.Tenant))
	switch {
	case f.Bare:
		out.Commands = []string{strings.Join(f.Command, " ")}
	case len(f.Command) > 0:
		out.Commands = []string{e.command(slices.Clone(f.Command)...)}
	}
	return out
}
