package rebalance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/move"
)

// Wait is a producer's session that a move waited for.
type Wait struct {
	Session routing.Session
	// For is how long, from when the table held the unit's records back.
	For time.Duration
	// Over says that its lease ran out instead of it answering.
	Over bool
	// Left says that the move ended before it answered.
	Left bool
}

// String names the session by its client.
func (w Wait) String() string { return sessionName(w.Session) }

func sessionName(s routing.Session) string {
	return cmp.Or(s.Client, "a producer") + " " + s.ID.String()[:8]
}

// drain returns once no producer has anything of the unit in flight.
func (l *liveMove) drain(ctx context.Context, course *move.Coordination) error {
	if end, ok := ctx.Deadline(); ok { // something of it is kept for what comes after
		margin, done := context.WithDeadline(ctx, end.Add(-min(switchMargin, l.move.Deadline/2)))
		defer done()
		ctx = margin
	}
	over, err := l.c.cfg.Table.AwaitDrained(ctx, l.report.ID, l.noteWaiting)
	if err != nil {
		course.GiveUp()
		return fmt.Errorf("producers that have not answered: %w", err)
	}
	course.Drained()
	l.noteWaiting(nil)
	for _, s := range over {
		l.wait(s).Over = true
		l.over = append(l.over, s.ID)
		l.log.Warn("a producer did not answer, and its lease is over: it sends no more", zap.String("session", sessionName(s)))
	}
	l.log.Info("drained at every producer", zap.Duration("took", time.Since(l.began)), zap.Int("sessions", l.report.Sessions),
		zap.Stringers("waited_for", l.sortedWaits()))
	return nil
}

func (l *liveMove) wait(s routing.Session) *Wait {
	w, ok := l.waits[s.ID]
	if !ok {
		w = &Wait{Session: s}
		l.waits[s.ID] = w
	}
	return w
}

// noteWaiting notes who is waited for now.
func (l *liveMove) noteWaiting(waiting []routing.Session) {
	for _, w := range l.waits {
		w.Left = false
	}
	for _, s := range waiting {
		w := l.wait(s)
		w.Left, w.For = true, time.Since(l.began)
		l.log.Debug("waiting for a producer", zap.Stringer("session", w))
	}
	if l.move.Waiting != nil && len(waiting) > 0 {
		l.move.Waiting(waiting)
	}
}

// noteWaits puts into the report who was waited for.
func (l *liveMove) noteWaits() {
	for _, w := range l.waits {
		if w.Left {
			w.For = time.Since(l.began)
		}
	}
	l.report.Waits = l.sortedWaits()
}

func (l *liveMove) sortedWaits() []Wait {
	waits := make([]Wait, 0, len(l.waits))
	for _, w := range l.waits {
		waits = append(waits, *w)
	}
	slices.SortFunc(waits, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(a.For, b.For), cmp.Compare(a.String(), b.String()))
	})
	return waits
}

// Waiting lists the producers that an open move waits for now. It is
// routing.ErrMoveNotOpen if the move is not open.
func (c *LiveCoordinator) Waiting(ctx context.Context, id string) ([]routing.Session, error) {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	var waiting []routing.Session
	told := false
	_, err := c.cfg.Table.AwaitDrained(ctx, id, func(now []routing.Session) {
		if !told {
			waiting, told = now, true
			enough()
		}
	})
	if told {
		return waiting, nil
	}
	return nil, err
}
