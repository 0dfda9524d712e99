package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// AwaitDrained waits until nothing of an open move's unit is in flight anywhere:
// until each session that had registered before the move was prepared has
// acknowledged it, or has ended, or its lease is over. Sessions that registered
// later knew the move before they routed anything. The leases' time is counted
// as by AwaitSessions, and the sessions whose leases were over are returned
// likewise.
//
// progress, unless nil, is told whom the wait is for, at first and whenever it
// changes; it is called by AwaitDrained's own goroutine and must not block.
//
// The error wraps [routing.ErrMoveNotOpen] when the move is not open, or no
// longer; and when ctx ends first it names the sessions that were waited for.
func (t *Topic) AwaitDrained(ctx context.Context, moveID string, progress func(waiting []routing.Session)) (over []routing.Session, err error) {
	registered, err := t.registeredBefore(ctx, moveID)
	if err != nil {
		return nil, err
	}
	return t.awaitLeases(ctx, leaseWait{
		watch: newLeaseWatch(registered, time.Now(), t.cfg.Lease, func(l routing.Lease) bool {
			return slices.Contains(l.Drained, moveID)
		}),
		what: "move " + moveID, progress: progress,
		over: func() error { return t.isOpen(moveID) },
	})
}

// registeredBefore lists the sessions to wait for. Registrations and the move's
// preparation are records of one log, which is read in its order: a view that
// holds the move holds every registration before it.
func (t *Topic) registeredBefore(ctx context.Context, moveID string) ([]routing.Session, error) {
	if t.isOpen(moveID) != nil { // perhaps prepared by someone else, not read yet
		if err := t.Sync(ctx); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loading {
		return nil, fmt.Errorf("move %s: %w", moveID, errPassing)
	}
	if err := t.isOpen(moveID); err != nil {
		return nil, err
	}
	if read, known := t.prepared[moveID]; known {
		return t.replay.SessionsBefore(read), nil
	}
	return t.replay.Sessions(), nil // read again from the start
}

// notePrepared remembers for each open move how much was read when it was first
// seen: a session of after that knew the move before it routed anything. mu is
// held.
func (t *Topic) notePrepared(table *routing.Table) {
	prepared := map[string]uint64{}
	for _, name := range table.TopicNames() {
		topic, _ := table.Topic(name)
		if !topic.Moving() {
			continue
		}
		for _, m := range topic.Moves() {
			if !m.Open() {
				continue
			}
			read, known := t.prepared[m.ID]
			if !known {
				read = t.replay.Applied()
			}
			prepared[m.ID] = read
		}
	}
	t.prepared = prepared
}

// isOpen tells whether the present table holds a move as open.
func (t *Topic) isOpen(moveID string) error {
	table := t.Table()
	for _, name := range table.TopicNames() {
		topic, _ := table.Topic(name)
		if m, ok := topic.Move(moveID); ok && m.Open() {
			return nil
		}
	}
	return fmt.Errorf("move %s at revision %d: %w", moveID, table.Revision(), routing.ErrMoveNotOpen)
}
