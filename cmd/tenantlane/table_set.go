package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance"
	"github.com/tenantlane/tenantlane/rebalance/plan"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

// changedJSON is a change of one tenant or slot.
type changedJSON struct {
	Revision uint64 `json:"revision"`
	placementJSON
}

type slotChangedJSON struct {
	Revision  uint64 `json:"revision"`
	Topic     string `json:"topic"`
	Slot      int32  `json:"slot"`
	Partition int32  `json:"partition"`
	Epoch     uint64 `json:"epoch"`
}

// String says where a tenant goes, for people.
func (p placementJSON) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s ", p.Topic, picture.Tenant(p.Tenant))
	switch {
	case p.FollowSlot:
		fmt.Fprintf(&b, "follows its slot to partition %s", routing.FormatPartitions(p.Partitions))
	case p.ToTopic != "":
		fmt.Fprintf(&b, "goes to topic %s", p.ToTopic)
	case p.Spread != "":
		fmt.Fprintf(&b, "is spread by %s over partitions %s", p.Spread, routing.FormatPartitions(p.Partitions))
	default:
		fmt.Fprintf(&b, "goes to partition %s", routing.FormatPartitions(p.Partitions))
	}
	if p.Epoch > 0 {
		fmt.Fprintf(&b, ", since epoch %d", p.Epoch)
	}
	fmt.Fprintf(&b, ", tier %s", p.Tier)
	return b.String()
}

// setFlags says where a tenant or slot is to go.
type setFlags struct {
	changeFlags
	tenants    hexFlags
	partitions string
	spread     string
	toTopic    string
	tier       string
	slot       int32
	producers  string
}

func newTableSetCommand(e *env) *cobra.Command {
	var output outputFlags
	var f setFlags
	cmd := &cobra.Command{
		Use:   "set TOPIC TENANT | set TOPIC --slot N | set TOPIC --producers wrapped",
		Short: "Place a tenant or a slot, or put a tenant into a tier",
		Long: "Running producers see the change within a second. A change that would re-route a live tenant, one\n" +
			"with a record that some group of the topic has not committed, is refused: that takes a move, which\n" +
			"keeps order. --unsafe changes the table all the same. Where every producer takes part in moves\n" +
			"(producers: wrapped, in a topic), the change is made as a move, for what is in flight.\n\n" +
			"Spread by key keeps order per (tenant, key) only; spread at random keeps none.",
		Example: "  tenantlane table set orders acme-corp --partitions 0 --table routing.yaml\n" +
			"  tenantlane table set orders initech --partitions 28-30 --spread key --table routing.yaml\n" +
			"  tenantlane table set orders hooli --tier enterprise --table routing.yaml\n" +
			"  tenantlane table set orders --producers wrapped --table-topic tenantlane.routing",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.producers != "" {
				return f.setProducers(cmd, e, args, output.json())
			}
			if cmd.Flags().Changed("slot") {
				return f.setSlot(cmd, e, args, output.json())
			}
			if len(args) != 2 {
				return usagef("needs a topic and a tenant, or a topic and --slot")
			}
			return f.setTenant(cmd, e, args, output.json())
		},
	}
	flags := cmd.Flags()
	f.register(flags)
	f.tenants.register(flags)
	flags.StringVar(&f.partitions, "partitions", "", "partitions that take the records, like 0 or 28-30")
	flags.Var(choice(&f.spread, "", "key", "random"), "spread", "how several partitions share the records: key or random")
	flags.StringVar(&f.toTopic, "to-topic", "", "another topic that takes the tenant's records")
	flags.StringVar(&f.tier, "tier", "", "tier of the tenant; empty for the standard one")
	flags.Int32Var(&f.slot, "slot", 0, "instead of a tenant: this slot")
	flags.Var(choice(&f.producers, "", "any", "wrapped"), "producers", "of the topic: wrapped once every producer is a partitioner.Producer, which strict moves need, or any")
	output.register(flags)
	return cmd
}

// producersJSON is what a topic's entry says of its producers.
type producersJSON struct {
	Revision  uint64 `json:"revision"`
	Topic     string `json:"topic"`
	Producers string `json:"producers"`
}

// setProducers says whether all producers of a topic take part in moves.
func (f *setFlags) setProducers(cmd *cobra.Command, e *env, args []string, asJSON bool) error {
	for _, other := range []string{"partitions", "spread", "to-topic", "tier", "slot"} {
		if len(args) != 1 || cmd.Flags().Changed(other) {
			return usagef("--producers goes with a topic, and nothing else")
		}
	}
	_, after, err := f.change(cmd, args, func(_ tableStore, t *routing.Table) (*routing.Table, error) {
		if _, err := pickTopic(t, args[0]); err != nil {
			return nil, err
		}
		return t.Edit(routing.SetProducers(args[0], f.producers == "wrapped"))
	})
	if err != nil {
		return err
	}
	if asJSON {
		return e.printJSON(producersJSON{after.Revision(), args[0], f.producers})
	}
	return e.printf("%s: producers %s; table revision %d\n", args[0], f.producers, after.Revision())
}

func (f *setFlags) setTenant(cmd *cobra.Command, e *env, args []string, asJSON bool) error {
	topic := args[0]
	tenant, err := f.tenants.tenant(args[1])
	if err != nil {
		return err
	}
	tiered := cmd.Flags().Changed("tier")
	if f.partitions == "" && f.toTopic == "" && !tiered {
		return usagef("needs --partitions, --to-topic or --tier")
	}
	edit := func(_ tableStore, t *routing.Table) (*routing.Table, error) {
		edits, wrong := f.edits(t, topic, string(tenant), tiered)
		if wrong != nil {
			return nil, wrong
		}
		return t.Edit(edits...)
	}
	after, err := f.tenantByMove(cmd, e, args, string(tenant), edit)
	if err != nil {
		return err
	}
	if after == nil || tiered {
		if _, after, err = f.change(cmd, args, edit); after == nil {
			return err
		}
	}
	if printed := e.printChanged(after, topic, string(tenant), asJSON); printed != nil {
		return printed
	}
	return err
}

func (f *setFlags) edits(t *routing.Table, topic, tenant string, tiered bool) (edits []routing.Edit, err error) {
	at, err := pickTopic(t, topic)
	if err != nil {
		return nil, err
	}
	if f.partitions != "" || f.toTopic != "" {
		have, _ := at.Placement(tenant)
		place := routing.Placement{Topic: f.toTopic, Spread: spreadOf(f.spread), Tier: have.Tier}
		if f.partitions != "" {
			if place.Partitions, err = routing.ParsePartitions(f.partitions, at.Partitions()); err != nil {
				return nil, fmt.Errorf("--partitions: %w", err)
			}
		}
		edits = append(edits, routing.SetPlacement(topic, tenant, place))
	}
	if tiered {
		edits = append(edits, routing.SetTenantTier(topic, tenant, f.tier))
	}
	return edits, nil
}

func spreadOf(word string) routing.Spread {
	switch word {
	case "key":
		return routing.SpreadKey
	case "random":
		return routing.SpreadRandom
	}
	return routing.SpreadNone
}

// printChanged prints a tenant's place in a table that was just written.
func (e *env) printChanged(table *routing.Table, topic, tenant string, asJSON bool) error {
	at, err := pickTopic(table, topic)
	if err != nil {
		return err
	}
	j := toPlacementJSON(at, tenant)
	if asJSON {
		return e.printJSON(changedJSON{table.Revision(), j})
	}
	if err := e.printf("%s; table revision %d\n", j, table.Revision()); err != nil {
		return err
	}
	if j.Spread != "" {
		return e.printf("note: %s\n", plan.OrderCost(spreadOf(j.Spread)))
	}
	return nil
}

func (f *setFlags) setSlot(cmd *cobra.Command, e *env, args []string, asJSON bool) error {
	if len(args) != 1 || f.spread != "" || f.toTopic != "" || cmd.Flags().Changed("tier") {
		return usagef("--slot goes with a topic and --partitions, and nothing else")
	}
	var to int32
	edit := func(_ tableStore, t *routing.Table) (*routing.Table, error) {
		at, err := pickTopic(t, args[0])
		if err != nil {
			return nil, err
		}
		list, err := routing.ParsePartitions(f.partitions, at.Partitions())
		if err != nil || len(list) != 1 {
			return nil, usagef("--partitions %q must name one partition of 0 to %d", f.partitions, at.Partitions()-1)
		}
		to = list[0]
		return t.Edit(routing.SetSlots(args[0], map[int32]int32{f.slot: to}))
	}
	after, err := f.slotByMove(cmd, e, args, edit)
	if err != nil {
		return err
	}
	if after == nil {
		if _, after, err = f.change(cmd, args, edit); after == nil {
			return err
		}
	}
	epoch := after.Spec().Topics[args[0]].SlotOverrides[f.slot].Epoch
	var printed error
	if asJSON {
		printed = e.printJSON(slotChangedJSON{after.Revision(), args[0], f.slot, to, epoch})
	} else {
		printed = e.printf("%s: slot %d goes to partition %d, since epoch %d; table revision %d\n", args[0], f.slot, to, epoch, after.Revision())
	}
	if printed != nil {
		return printed
	}
	return err
}

func newTableUnsetCommand(e *env) *cobra.Command {
	var output outputFlags
	var f changeFlags
	var tenants hexFlags
	cmd := &cobra.Command{
		Use:     "unset TOPIC TENANT",
		Short:   "Let a tenant follow its slot again",
		Example: "  tenantlane table unset orders acme-corp --table routing.yaml",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			tenant, err := tenants.tenant(args[1])
			if err != nil {
				return err
			}
			edit := func(_ tableStore, t *routing.Table) (*routing.Table, error) {
				return t.Edit(routing.UnsetPlacement(args[0], string(tenant)))
			}
			if _, err = f.byMove(cmd, e, args, rebalance.LiveMove{Topic: args[0], Tenant: string(tenant)}, edit); err != nil {
				return err
			}
			_, after, err := f.change(cmd, args, edit)
			if after == nil {
				return err
			}
			if printed := e.printChanged(after, args[0], string(tenant), output.json()); printed != nil {
				return printed
			}
			return err
		},
	}
	f.register(cmd.Flags())
	tenants.register(cmd.Flags())
	output.register(cmd.Flags())
	return cmd
}
