package lagwatch

import (
	"maps"
	"slices"
	"time"
)

// inventory is what there is to watch. It only grows: what an answer leaves
// out is unknown, not gone. Only a day of the cluster saying without exception
// that a thing does not exist removes it.
type inventory struct {
	groups map[string]*groupEntry
	topics map[string]*topicEntry
}

type groupEntry struct {
	Topics map[string]*pairEntry `json:"topics"`
	// Type is how the group is described: "classic", "consumer" or "" when
	// that is not known.
	Type string `json:"type,omitempty"`
	// AbsentSince is since when the coordinator has said that there is no such
	// group, zero when it did not say so last time.
	AbsentSince time.Time `json:"absent_since,omitzero"`
	bytes       int       // of its last commits answer
}

// pairEntry is a topic of a group.
type pairEntry struct {
	// Committed is how many partitions the group has had a commit in.
	Committed []bool `json:"committed,omitempty"`
}

type topicEntry struct {
	Partitions  int       `json:"partitions"`
	AbsentSince time.Time `json:"absent_since,omitzero"`
	seeded      bool      // past ends were asked for
	retention   time.Duration
	retentionAt time.Time
}

// forgetAfter is how long a thing must be said not to exist.
const forgetAfter = 24 * time.Hour

func newInventory(groups []string) *inventory {
	inv := &inventory{groups: map[string]*groupEntry{}, topics: map[string]*topicEntry{}}
	for _, g := range groups {
		inv.group(g)
	}
	return inv
}

func (inv *inventory) group(name string) *groupEntry {
	g, ok := inv.groups[name]
	if !ok {
		g = &groupEntry{Topics: map[string]*pairEntry{}}
		inv.groups[name] = g
	}
	return g
}

// pair makes a topic of a group known.
func (inv *inventory) pair(group, topic string) *pairEntry {
	g := inv.group(group)
	p, ok := g.Topics[topic]
	if !ok {
		p = &pairEntry{}
		g.Topics[topic] = p
	}
	if _, ok := inv.topics[topic]; !ok {
		inv.topics[topic] = &topicEntry{}
	}
	return p
}

func (inv *inventory) groupNames() []string { return slices.Sorted(maps.Keys(inv.groups)) }

func (inv *inventory) topicNames() []string { return slices.Sorted(maps.Keys(inv.topics)) }

// absent follows since when a thing is said not to exist.
func absent(since *time.Time, now time.Time, is bool) {
	switch {
	case !is:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// forget removes what has been absent for a day, except configured groups.
func (inv *inventory) forget(now time.Time, keep []string) {
	over := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) >= forgetAfter }
	maps.DeleteFunc(inv.groups, func(name string, g *groupEntry) bool {
		return over(g.AbsentSince) && !slices.Contains(keep, name)
	})
	for name, t := range inv.topics {
		if !over(t.AbsentSince) {
			continue
		}
		delete(inv.topics, name)
		for _, g := range inv.groups {
			delete(g.Topics, name)
		}
	}
}
