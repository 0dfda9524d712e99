package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance"
)

// byMove makes a change of one unit's home as a move, where producers take part
// in moves: a record that one of them has in flight would else be routed beside
// what comes after it. A unit with live records is refused as ever. The table is
// nil where the change is no move.
func (f *changeFlags) byMove(cmd *cobra.Command, e *env, args []string, m rebalance.LiveMove, edit edit) (after *routing.Table, err error) {
	if f.table.topic == "" || f.table.file != "" || f.unsafe {
		return nil, nil
	}
	ctx := cmd.Context()
	live, err := openLive(ctx, &f.table, zap.NewNop())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, live.close()) }()
	present := live.table.Table()
	topic, ok := present.Topic(m.Topic)
	if !ok || !topic.Wrapped() {
		return nil, nil
	}
	if len(m.To)+len(m.Slots) == 0 { // it is to follow its slot
		m.To = []int32{topic.SlotPartition(topic.Lookup([]byte(m.Tenant), nil).Slot)}
	}
	next, err := edit(live.table, present)
	if err != nil {
		return nil, asUsage(err)
	}
	look, err := f.newLook(ctx)
	if err != nil {
		return nil, err
	}
	defer look.close()
	if err = look.refuseLive(ctx, present, next); err != nil {
		return nil, err
	}
	if !look.needed() { // nothing is re-routed, or the topic does not exist yet
		return nil, nil
	}
	m.By = f.author(cmd, args)
	report, err := live.Move(ctx, m)
	switch {
	case errors.Is(err, rebalance.ErrSamePlace):
		return nil, nil
	case err != nil:
		return nil, liveMoveError(&report, err)
	}
	e.note("moved from partition %s: its producers waited %v", routing.FormatPartitions(report.From), report.Pause.Round(time.Millisecond))
	return live.table.Table(), nil
}

// tenantByMove is byMove for a tenant.
func (f *setFlags) tenantByMove(cmd *cobra.Command, e *env, args []string, tenant string, edit edit) (*routing.Table, error) {
	if f.toTopic != "" || f.partitions == "" {
		return nil, nil
	}
	to, err := routing.ParsePartitions(f.partitions, routing.MaxPartitions)
	if err != nil {
		return nil, usagef("--partitions: %w", err)
	}
	return f.byMove(cmd, e, args, rebalance.LiveMove{Topic: args[0], Tenant: tenant, To: to, Spread: spreadOf(f.spread)}, edit)
}

// slotByMove is byMove for a slot.
func (f *setFlags) slotByMove(cmd *cobra.Command, e *env, args []string, edit edit) (*routing.Table, error) {
	to, _ := routing.ParsePartitions(f.partitions, routing.MaxPartitions)
	if len(to) != 1 {
		return nil, nil // the edit says what is wrong with it
	}
	return f.byMove(cmd, e, args, rebalance.LiveMove{Topic: args[0], Slots: map[int32]int32{f.slot: to[0]}}, edit)
}
