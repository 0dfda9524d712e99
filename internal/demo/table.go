package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance/plan"
)

// cast is who plays in the demo, by the planned table.
type cast struct {
	table  *routing.Table
	whales []plan.Whale
	before plan.Skew // by hash alone
	// moving goes to the spare partition, which is empty until then.
	moving string
	spare  int32
	// importer is an ordinary tenant, on a partition that it shares.
	importer  string
	partition int32
	neighbors int // tenants that share it
}

// newCast plans the table on all partitions but the last, which stays free for
// the move.
func newCast(topic string, population load.Population, partitions int32) (*cast, error) {
	planned, err := plan.Whales(population.Tenants, plan.WhalesConfig{Partitions: partitions - 1})
	if err != nil {
		return nil, fmt.Errorf("planning the whales: %w", err)
	}
	if len(planned.Whales) == 0 || len(planned.Whales) > int(partitions)/2 {
		return nil, fmt.Errorf("--tenants: %d of the tenants would need partitions of their own, the demo wants 1 to %d", len(planned.Whales), partitions/2)
	}
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{
		topic: {Partitions: partitions, Shared: planned.Shared, Wrapped: true},
	}})
	if err != nil {
		return nil, fmt.Errorf("making the table: %w", err)
	}
	bare, _ := table.Topic(topic)
	if table, err = table.Edit(planned.Edits(bare)...); err != nil {
		return nil, fmt.Errorf("making the table: %w", err)
	}
	c := &cast{table: table, whales: planned.Whales, before: planned.Before, spare: partitions - 1}
	c.moving = planned.Whales[min(1, len(planned.Whales)-1)].Tenant
	return c, c.chooseImporter(topic, population)
}

// chooseImporter takes a tenant from the middle of the population that has no
// placement of its own and some company.
func (c *cast) chooseImporter(topic string, population load.Population) error {
	routes, _ := c.table.Topic(topic)
	company := map[int32]int{}
	for _, v := range population.Tenants {
		if r := routes.Lookup([]byte(v.Tenant), nil); r.Kind == routing.KindSlot {
			company[r.Partition]++
		}
	}
	for i := len(population.Tenants) / 8; i < len(population.Tenants); i++ {
		tenant := population.Tenants[i].Tenant
		if r := routes.Lookup([]byte(tenant), nil); r.Kind == routing.KindSlot && company[r.Partition] > 1 {
			c.importer, c.partition, c.neighbors = tenant, r.Partition, company[r.Partition]-1
			return nil
		}
	}
	return fmt.Errorf("--tenants: no ordinary tenant shares a partition with others")
}

// isWhale reports whether the tenant has a placement of its own.
func (c *cast) isWhale(tenant string) bool {
	for _, w := range c.whales {
		if w.Tenant == tenant {
			return true
		}
	}
	return false
}

// openTable puts the table into topics of its own, whose names begin with the
// demo's, and follows it: moves without a pause for anybody else need that.
func (c *cast) openTable(ctx context.Context, s *stage, cfg Config) (*store.Topic, error) {
	table, err := store.OpenTopic(ctx, store.TopicConfig{
		KafkaOpts: s.opts, Prefix: s.tablePrefix(), Create: true, Empty: true, Logger: cfg.Logger.Named("table"),
	})
	if err != nil {
		return nil, err
	}
	_, err = table.Update(ctx, store.Author{Actor: "demo", Reason: "the planned table"}, func(present *routing.Table) (*routing.Table, error) {
		return routing.Rebase(present, c.table.Spec())
	})
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	return table, nil
}
