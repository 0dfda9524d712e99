package rebalance

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func isOpen(topic *routing.Topic, id string) bool {
	m, ok := topic.Move(id)
	return ok && m.Open()
}

// lookOrAbort gives the table as it is once every other writer is shut out, and
// takes a move out of it that is open, if that is wanted.
func (c *LiveCoordinator) lookOrAbort(ctx context.Context, topic, id string, by store.Author, abort bool) (*routing.Table, error) {
	return c.cfg.Table.Update(ctx, by, func(present *routing.Table) (*routing.Table, error) {
		if t, ok := present.Topic(topic); !ok || !abort || !isOpen(t, id) {
			return present, nil
		}
		return present.Edit(routing.AbortMove(topic, id))
	})
}

// Abort gives an open move up: its unit's records go on to where they went
// before. It is routing.ErrMoveNotOpen if the move is switched, or not there.
func (c *LiveCoordinator) Abort(ctx context.Context, topic, id string, by store.Author) error {
	_, err := c.cfg.Table.Update(ctx, by, func(present *routing.Table) (*routing.Table, error) {
		return present.Edit(routing.AbortMove(topic, id))
	})
	if err != nil {
		return fmt.Errorf("abort of move %s of topic %s: %w", id, topic, err)
	}
	c.cfg.Logger.Info("move aborted", zap.String("topic", topic), zap.String("move", id))
	return nil
}

// abortOverdue ends what other coordinators left behind. Producers and workers
// do the same, if there are any.
func (c *LiveCoordinator) abortOverdue(ctx context.Context, topic string) error {
	t, ok := c.cfg.Table.Table().Topic(topic)
	if !ok {
		return nil
	}
	for _, m := range t.Moves() {
		if !m.Open() || time.Now().Before(m.Deadline) {
			continue
		}
		by := store.Author{Reason: "move " + m.ID + " was not switched by its deadline"}
		if _, err := c.lookOrAbort(ctx, topic, m.ID, by, true); err != nil {
			return fmt.Errorf("ending %s, which is past its deadline: %w", m, err)
		}
		c.cfg.Logger.Warn("a move was left behind past its deadline, and is aborted", zap.String("topic", topic), zap.String("move", m.ID))
	}
	return nil
}
