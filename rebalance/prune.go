package rebalance

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance/move"
)

// Prune takes switched moves of a topic out of the table that nobody needs any
// more: no record of before is left in their old homes, and they passed over no
// producer that might have one on its way there. So it does with those whose
// fences are not in the topic, which was deleted and made again: their units'
// lanes would wait for commits above them. It gives how many, and asks nobody
// anything where there is none to take.
func (c *LiveCoordinator) Prune(ctx context.Context, topic string) (int, error) {
	present := c.cfg.Table.Table()
	t, ok := present.Topic(topic)
	if !ok || !t.Moved() {
		return 0, nil
	}
	starts, err := c.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("log starts of topic %s: %w", topic, err)
	}
	ends, err := c.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("log ends of topic %s: %w", topic, err)
	}
	var over []string
	for _, m := range t.Moves() {
		if move.Forgettable(m, offsetIn(starts, topic)) || move.Elsewhere(m, offsetIn(ends, topic)) {
			over = append(over, m.ID)
		}
	}
	if len(over) == 0 {
		return 0, nil
	}
	return c.forget(ctx, topic, over)
}

func (c *LiveCoordinator) forget(ctx context.Context, topic string, ids []string) (pruned int, err error) {
	by := store.Author{Reason: "no record of before these moves is left"}
	_, err = c.cfg.Table.Update(ctx, by, func(present *routing.Table) (*routing.Table, error) {
		var edits []routing.Edit
		if t, ok := present.Topic(topic); ok {
			for _, m := range t.Moves() {
				if slices.Contains(ids, m.ID) {
					edits = append(edits, routing.ForgetMove(topic, m.ID))
				}
			}
		}
		if pruned = len(edits); pruned == 0 {
			return present, nil
		}
		return present.Edit(edits...)
	})
	if err != nil {
		return 0, fmt.Errorf("pruning moves of topic %s: %w", topic, err)
	}
	c.cfg.Logger.Info("old moves forgotten", zap.String("topic", topic), zap.Int("moves", pruned))
	return pruned, nil
}

func offsetIn(offsets kadm.ListedOffsets, topic string) func(int32) (int64, bool) {
	return func(partition int32) (int64, bool) {
		at, err := listed(offsets, topic, partition)
		return at, err == nil
	}
}
