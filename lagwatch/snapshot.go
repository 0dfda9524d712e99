package lagwatch

import (
	"slices"
	"strings"
	"time"
)

// Offsets that are not there. Unread is what no answer told; None is what an
// answer said does not exist.
const (
	None   int64 = -1
	Unread int64 = -2
)

// Snapshot is what one round of questions learned, and the unit of record and
// replay. Slices of offsets are indexed by partition; a shorter slice reads as
// Unread beyond its end.
type Snapshot struct {
	At      time.Time       `json:"at"`
	Cluster string          `json:"cluster"`
	Groups  []GroupSnapshot `json:"groups"`
	Topics  []TopicSnapshot `json:"topics"`
	// Sweep is there once an hour, Stale after it.
	Sweep *SweepSnapshot `json:"sweep,omitempty"`
	Stale []StaleLook    `json:"stale,omitempty"`
	// Errors are what could not be asked, for people; what it makes unknown is
	// Unread above.
	Errors []string `json:"errors,omitempty"`
	// Incomplete is true when there may be groups or topics that were not seen
	// because a broker did not list them.
	Incomplete bool `json:"incomplete,omitempty"`
}

// GroupSnapshot is one group; Known is false when its coordinator did not
// describe it.
type GroupSnapshot struct {
	Group       string            `json:"group"`
	Known       bool              `json:"known"`
	Missing     bool              `json:"missing,omitempty"`
	State       string            `json:"state,omitempty"`
	Protocol    string            `json:"protocol,omitempty"`
	Members     int               `json:"members"`
	Rebalancing bool              `json:"rebalancing,omitempty"`
	Topics      []CommitsSnapshot `json:"topics"`
	// CommitsKnown is true when all its commits were told, each with its
	// topic's name.
	CommitsKnown bool `json:"commits_known"`
}

// CommitsSnapshot is what a group committed in a topic, and holds of it.
type CommitsSnapshot struct {
	Topic string `json:"topic"`
	// Commits are offsets, None or Unread.
	Commits []int64 `json:"commits"`
	// Runnable and Lanes are what a TenantLane group's commits say beyond
	// their offset (see lag.Sample); empty for other groups.
	Runnable []int64 `json:"runnable,omitempty"`
	Lanes    []int64 `json:"lanes,omitempty"`
	// Parked is how many lanes such a group has parked in each partition; shorter
	// means none.
	Parked []int32 `json:"parked,omitempty"`
	// Visible are probed offsets (see lag.Sample), Unread where nobody looked.
	Visible []int64 `json:"visible,omitempty"`
	// Owned are the partitions that members hold, ascending.
	Owned []int32 `json:"owned,omitempty"`
	// Owners is which member holds each partition, numbered from 1; 0: none.
	Owners []int32 `json:"owners,omitempty"`

	claims   []claim // what the metadata of commits says
	answered bool    // an answer was about this topic
	refused  []int32 // partitions that an answer had an error for
}

// TopicSnapshot is one topic's log; Known is false when its metadata was not
// told.
type TopicSnapshot struct {
	Topic     string        `json:"topic"`
	Known     bool          `json:"known"`
	ID        string        `json:"id,omitempty"` // hex
	Retention time.Duration `json:"retention,omitempty"`
	Start     []int64       `json:"start"`
	End       []int64       `json:"end"`
	Stable    []int64       `json:"stable"`
	// Leaders is the broker's id that leads each partition, plus 1; 0: unknown.
	Leaders []int32 `json:"leaders,omitempty"`
	// Bytes is the size of each partition's log, asked for once a minute.
	Bytes []int64 `json:"bytes,omitempty"`
	// Past are ends at earlier times, asked for when nothing is remembered.
	Past []PastEnds `json:"past,omitempty"`
}

// PastEnds is where the ends were at a time.
type PastEnds struct {
	At   time.Time `json:"at"`
	Ends []int64   `json:"ends"`
}

// offset reads a slice indexed by partition.
func offsetOf(s []int64, partition int) int64 {
	if partition < len(s) {
		return s[partition]
	}
	return Unread
}

// put writes one, growing the slice with Unread.
func put(s []int64, partition int32, v int64) []int64 {
	for int(partition) >= len(s) {
		s = append(s, Unread)
	}
	s[partition] = v
	return s
}

// put32 is put for small numbers, growing with 0.
func put32(s []int32, at, v int32) []int32 {
	for int(at) >= len(s) {
		s = append(s, 0)
	}
	s[at] = v
	return s
}

// at32 reads such a slice; 0 beyond its end.
func at32(s []int32, at int) int32 {
	if at < len(s) {
		return s[at]
	}
	return 0
}

func (s *Snapshot) group(name string) (*GroupSnapshot, bool) {
	i, ok := slices.BinarySearchFunc(s.Groups, name, func(g GroupSnapshot, n string) int { return strings.Compare(g.Group, n) })
	if !ok {
		return nil, false
	}
	return &s.Groups[i], true
}

func (s *Snapshot) topic(name string) *TopicSnapshot {
	i, ok := slices.BinarySearchFunc(s.Topics, name, func(t TopicSnapshot, n string) int { return strings.Compare(t.Topic, n) })
	if !ok {
		return nil
	}
	return &s.Topics[i]
}

func (g *GroupSnapshot) topic(name string) (*CommitsSnapshot, bool) {
	i, ok := slices.BinarySearchFunc(g.Topics, name, func(t CommitsSnapshot, n string) int { return strings.Compare(t.Topic, n) })
	if !ok {
		return nil, false
	}
	return &g.Topics[i], true
}

// ensure returns the group's entry for a topic, made if need be.
func (g *GroupSnapshot) ensure(name string) *CommitsSnapshot {
	i, ok := slices.BinarySearchFunc(g.Topics, name, func(t CommitsSnapshot, n string) int { return strings.Compare(t.Topic, n) })
	if !ok {
		g.Topics = slices.Insert(g.Topics, i, CommitsSnapshot{Topic: name})
	}
	return &g.Topics[i]
}
