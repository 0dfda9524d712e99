package main

import (
	"encoding/hex"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// placementJSON is one tenant's entry in a table.
type placementJSON struct {
	Topic      string  `json:"topic"`
	Tenant     string  `json:"tenant"`
	TenantHex  string  `json:"tenant_hex"`
	Partitions []int32 `json:"partitions"`
	Spread     string  `json:"spread"`
	ToTopic    string  `json:"to_topic"`
	FollowSlot bool    `json:"follows_slot"`
	Tier       string  `json:"tier"`
	Epoch      uint64  `json:"epoch"`
}

func toPlacementJSON(topic *routing.Topic, tenant string) placementJSON {
	p, placed := topic.Placement(tenant)
	text, _ := tenantText([]byte(tenant))
	j := placementJSON{
		Topic: topic.Name(), Tenant: text, TenantHex: hex.EncodeToString([]byte(tenant)), Partitions: p.Partitions, Spread: p.Spread.String(),
		ToTopic: p.Topic, FollowSlot: !placed || p.FollowSlot, Tier: topic.Tier([]byte(tenant)).Name, Epoch: p.Epoch,
	}
	if j.FollowSlot {
		j.Partitions = topic.Lookup([]byte(tenant), nil).Partitions
	}
	if j.Partitions == nil {
		j.Partitions = []int32{}
	}
	return j
}

func newTableGetCommand(e *env) *cobra.Command {
	var output outputFlags
	var table tableFlags
	var kafka kafkaFlags
	var tenants hexFlags
	cmd := &cobra.Command{
		Use:   "get [TOPIC [TENANT…]]",
		Short: "Print a table, one of its topics, or tenants' placements",
		Long: "Prints the table's canonical YAML, all of it or of one topic. With tenants, where each is placed and\n" +
			"since which epoch. As JSON it prints one line per placement.",
		Example: "  tenantlane table get --table routing.yaml\n" +
			"  tenantlane table get orders acme-corp --table routing.yaml --format json",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			got, err := table.read(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return e.printTable(got, output.json())
			}
			topic, err := pickTopic(got, args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				only, err := routing.NewTable(routing.Spec{Revision: got.Revision(), Topics: map[string]routing.TopicSpec{args[0]: got.Spec().Topics[args[0]]}})
				if err != nil {
					return err
				}
				return e.printTable(only, output.json())
			}
			return e.printPlacements(topic, args[1:], tenants, output.json())
		},
	}
	table.register(cmd.Flags(), &kafka)
	kafka.register(cmd.Flags())
	tenants.register(cmd.Flags())
	output.register(cmd.Flags())
	return cmd
}

func (e *env) printTable(table *routing.Table, asJSON bool) error {
	if !asJSON {
		return writeTable(e.stdout, table)
	}
	for _, name := range table.TopicNames() {
		topic, _ := table.Topic(name)
		for _, tenant := range topic.PlacedTenants() {
			if err := e.printJSON(toPlacementJSON(topic, tenant)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *env) printPlacements(topic *routing.Topic, given []string, tenants hexFlags, asJSON bool) error {
	for _, name := range given {
		tenant, err := tenants.tenant(name)
		if err != nil {
			return err
		}
		if len(tenant) == 0 {
			return usagef("an empty tenant has no place")
		}
		j := toPlacementJSON(topic, string(tenant))
		if asJSON {
			err = e.printJSON(j)
		} else {
			err = e.printf("%s\n", j)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
