package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance"
)

// strict moves a tenant or slots while their producers go on.
func (f *moveFlags) strict(cmd *cobra.Command, e *env, args []string, asJSON bool) (err error) {
	ctx := cmd.Context()
	m := rebalance.LiveMove{Spread: spreadOf(f.spread), AcceptUnordered: f.unordered, Deadline: f.deadline, By: f.author(cmd, args)}
	if len(args) > 0 {
		tenant, wrong := f.tenants.tenant(args[0])
		if wrong != nil {
			return wrong
		}
		m.Tenant = string(tenant)
	}
	live, err := openLive(ctx, &f.table, f.logs.logger(e))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, live.close()) }()
	topic, err := f.aim(live.table.Table(), &m)
	if err != nil {
		return err
	}
	if f.unordered && !topic.Wrapped() {
		e.note("order is given up: %s", rebalance.UnorderedCost)
	}
	report, err := live.Move(ctx, m)
	if report.ID != "" { // it was begun
		if printed := e.printMove(toMoveJSON(&report), asJSON); printed != nil {
			return printed
		}
	}
	if err != nil {
		return liveMoveError(&report, err)
	}
	if report.Sessions == 0 {
		e.note("no producer is registered for topic %s, so nobody was waited for", m.Topic)
	}
	live.prune(ctx, e, m.Topic)
	return nil
}

// aim fills in where the move goes by the table.
func (f *moveFlags) aim(table *routing.Table, m *rebalance.LiveMove) (*routing.Topic, error) {
	topic, err := pickTopic(table, f.topic)
	if err != nil {
		return nil, err
	}
	to, err := routing.ParsePartitions(f.to, topic.Partitions())
	if err != nil {
		return nil, usagef("--to: %w", err)
	}
	m.Topic, m.To = topic.Name(), to
	if f.slots == "" {
		return topic, nil
	}
	slots, err := routing.ParseSlots(f.slots, topic.Slots())
	if err != nil {
		return nil, usagef("--slot: %w", err)
	}
	if len(to) != 1 {
		return nil, usagef("--to %q must name one partition for slots", f.to)
	}
	m.Slots = make(map[int32]int32, len(slots))
	for _, slot := range slots {
		m.Slots[slot] = to[0]
	}
	m.To = nil
	return topic, nil
}
