package rebalance

import (
	"errors"
	"fmt"
)

var (
	// ErrMoving says that the tenant is moving already.
	ErrMoving = errors.New("already moving")
	// ErrNotDrained says that a group did not commit past the end of the old home in
	// time. It is wrapped in a [*NotDrainedError].
	ErrNotDrained = errors.New("old home not drained")
	// ErrSamePlace says that the unit of a move is where it is to go already.
	ErrSamePlace = errors.New("already there")
	// ErrPlacementChanged says that somebody else gave the tenant another placement
	// while it moved.
	ErrPlacementChanged = errors.New("placement changed during the move")
)

// NotDrainedError says which group a move was waiting for.
type NotDrainedError struct {
	// Group and the partition of Topic that it did not drain.
	Group     string
	Topic     string
	Partition int32
	// End is the offset that its commit has to reach. Committed is the commit
	// when it was last read, or -1 if there was none or it is not known.
	End, Committed int64
	// Err is why the commit is not known, or nil.
	Err error
}

func (e *NotDrainedError) Error() string {
	s := fmt.Sprintf("group %q in topic %s partition %d: ", e.Group, e.Topic, e.Partition)
	switch {
	case e.Err != nil:
		s += fmt.Sprintf("commit unknown: %v", e.Err)
	case e.Committed < 0:
		s += fmt.Sprintf("no commit, end offset is %d", e.End)
	default:
		s += fmt.Sprintf("committed %d of %d", e.Committed, e.End)
	}
	return s + ": " + ErrNotDrained.Error()
}

// Unwrap gives ErrNotDrained and the cause.
func (e *NotDrainedError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrNotDrained}
	}
	return []error{ErrNotDrained, e.Err}
}
