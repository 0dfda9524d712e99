package move

import "github.com/tenantlane/tenantlane/partitioner/routing"

// FenceState is what a fence in a log means.
type FenceState uint8

// The states of a fence.
const (
	// FenceOpen is a fence whose move may still be switched.
	FenceOpen FenceState = iota
	// FenceConfirmed is one that ends its unit in this partition.
	FenceConfirmed
	// FenceVoid is one that means nothing: its move was aborted, or confirmed
	// another one.
	FenceVoid
)

// String gives the state's word.
func (s FenceState) String() string {
	switch s {
	case FenceOpen:
		return "open"
	case FenceConfirmed:
		return "confirmed"
	case FenceVoid:
		return "void"
	}
	return "unknown"
}

// FenceOf says what a fence means by a table that was read to its end after the
// fence was read. Only the table makes a fence count: a move that was aborted
// leaves one behind, and one whose write was not confirmed is written again.
func FenceOf(t *routing.Topic, c routing.Control, partition int32, offset int64) FenceState {
	m, ok := t.Move(c.Move)
	switch {
	case !ok:
		return FenceVoid
	case m.Open():
		return FenceOpen
	}
	if x, ok := m.FenceIn(partition); !ok || x != offset {
		return FenceVoid
	}
	return FenceConfirmed
}

// Waits lists the open moves out of a partition. Whoever takes the partition
// over holds their units back from the first record on, since a fence of theirs
// may lie below the start and so be seen by nobody.
func Waits(t *routing.Topic, partition int32) []*routing.Move {
	if !t.Moving() {
		return nil
	}
	var open []*routing.Move
	for _, m := range t.Moves() {
		if m.Open() && from(m, partition) {
			open = append(open, m)
		}
	}
	return open
}
