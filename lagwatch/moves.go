package lagwatch

import (
	"slices"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// moveGrace is how long a move is an excuse. Records of what moves are held
// back, before the switch by producers and after it by workers, until the group
// has done what lies in the old home; neither is a partition that is hot. What
// takes longer than this is.
const moveGrace = 15 * time.Minute

// moveShown is how long a switched move stays on the page when no group waits.
const moveShown = time.Hour

// MoveEvaluation is a move that the table holds.
type MoveEvaluation struct {
	Move  string `json:"move"`
	State string `json:"state"`
	// Tenant moves, or Slots do.
	Tenant    string    `json:"tenant,omitempty"`
	TenantHex string    `json:"tenant_hex,omitempty"`
	Slots     int       `json:"slots,omitempty"`
	From      []int32   `json:"from"`
	To        []int32   `json:"to"`
	Since     time.Time `json:"since"` // when the watcher saw it in this state
	// WaitingFor are groups that have not done what lies before the fences.
	WaitingFor []string `json:"waiting_for,omitempty"`
}

// moveTimes is when a move was first seen, and first seen switched.
type moveTimes struct {
	Seen     time.Time `json:"seen"`
	Switched time.Time `json:"switched,omitzero"`
}

func moveKey(topic, id string) string { return topic + "\x00" + id }

// followMoves notes when moves begin and switch, and forgets those that the
// table no longer holds.
func (e *engine) followMoves(at time.Time) {
	if e.table == nil {
		return
	}
	held := map[string]bool{}
	for _, name := range e.table.TopicNames() {
		t, _ := e.table.Topic(name)
		if !t.Moved() {
			continue
		}
		for _, m := range t.Moves() {
			key := moveKey(name, m.ID)
			held[key] = true
			seen := e.moves[key]
			if seen.Seen.IsZero() {
				seen.Seen = at
			}
			if !m.Open() && seen.Switched.IsZero() {
				seen.Switched = at
			}
			e.moves[key] = seen
		}
	}
	for key := range e.moves {
		if !held[key] {
			delete(e.moves, key)
		}
	}
}

// moving lists the partitions of a topic in which a move explains that records
// of a group wait: those of an open one, and the new home of a switched one
// until the group has done what lies in the old.
func (e *engine) moving(at time.Time, topic string, c *CommitsSnapshot) (out []int32) {
	t := e.tableTopic(topic)
	if t == nil || !t.Moved() {
		return nil
	}
	for _, m := range t.Moves() {
		seen := e.moves[moveKey(topic, m.ID)]
		switch {
		case m.Open() && at.Sub(seen.Seen) < moveGrace:
			out = append(append(out, m.From...), m.To...)
		case !m.Open() && at.Sub(seen.Switched) < moveGrace && behindFences(m, c):
			out = append(out, m.To...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (e *engine) tableTopic(name string) *routing.Topic {
	if e.table == nil {
		return nil
	}
	t, _ := e.table.Topic(name)
	return t
}

// behindFences is true while a group may still have to do what lies in the old
// home. What is not known counts as not done.
func behindFences(m *routing.Move, c *CommitsSnapshot) bool {
	for _, f := range m.Fences {
		done := max(offsetOf(c.Commits, int(f.Partition)), offsetOf(c.Runnable, int(f.Partition)))
		if done <= f.Offset {
			return true
		}
	}
	return false
}

// evaluateMoves lists the moves of a topic that are under way, or were lately.
func (e *engine) evaluateMoves(s *Snapshot, t *routing.Topic) (out []MoveEvaluation) {
	if !t.Moved() {
		return nil
	}
	for _, m := range t.Moves() {
		seen := e.moves[moveKey(t.Name(), m.ID)]
		ev := MoveEvaluation{Move: m.ID, State: m.State.String(), Slots: len(m.Slots), From: m.From, To: m.To, Since: seen.Seen}
		ev.Tenant, ev.TenantHex = e.shown(m.Tenant)
		if !m.Open() {
			ev.Since = seen.Switched
			for i := range s.Groups {
				if c, reads := s.Groups[i].topic(t.Name()); reads && behindFences(m, c) {
					ev.WaitingFor = append(ev.WaitingFor, s.Groups[i].Group)
				}
			}
			if len(ev.WaitingFor) == 0 && s.At.Sub(ev.Since) > moveShown {
				continue
			}
		}
		out = append(out, ev)
	}
	return out
}
