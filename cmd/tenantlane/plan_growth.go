package main

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

type growthJSON struct {
	Topic      string               `json:"topic,omitempty"` // of the table
	Strategies map[string]movedJSON `json:"strategies"`
	SlotMoves  []slotMoveJSON       `json:"slot_moves"`
	AtLeast    int                  `json:"at_least"` // moves that any plan needs
	SkewAfter  skewJSON             `json:"skew_after"`
}

type movedJSON struct {
	Moved       int     `json:"moved"`
	Of          int     `json:"of"`
	VolumeMoved float64 `json:"volume_moved"`
}

type slotMoveJSON struct {
	Slot int32 `json:"slot"`
	From int32 `json:"from"`
	To   int32 `json:"to"`
}

// growthFlags is what `plan growth` compares.
type growthFlags struct {
	population populationFlags
	table      tableFlags
	topic      string
	name       string // of the table's topic, once it is read
	config     plan.GrowthConfig
	hash       hashFlag
	tenantOf   tenantRuleFlag
	write      string
	force      bool
}

func newPlanGrowthCommand(e *env) *cobra.Command {
	var output outputFlags
	var drawn pictureFlags
	var f growthFlags
	cmd := &cobra.Command{
		Use:   "growth",
		Short: "What moves when a topic gets more partitions, by strategy",
		Long: "Compares modulo, jump, ring and rendezvous hashing with slots, and lists the slot moves that reach\n" +
			"balance with the fewest moves. Without --keys it takes 1,000 made-up keys, user-0 to user-999. With\n" +
			"--table it starts from where slots are; --by-volume balances what is in them, not their number. A table\n" +
			"that has grown already takes --from, the partitions that it had before. `move run --plan` makes the moves.",
		Example: "  tenantlane plan growth --from 4 --to 5 --hash sha256-64\n" +
			"  tenantlane plan growth --table routing.yaml --to 64 --keys tenants.tsv --by-volume --write growth.json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, e, drawn, output.json())
		},
	}
	flags := cmd.Flags()
	f.population.register(flags, "keys")
	f.table.register(flags, &f.population.kafka)
	flags.StringVar(&f.topic, "topic", "", "topic of the table (default: its only one)")
	flags.Int32Var(&f.config.From, "from", 0, "partitions now (default: the table's; less, if it has grown already)")
	flags.Int32Var(&f.config.To, "to", 0, "partitions then")
	flags.Int32Var(&f.config.Slots, "slots", routing.DefaultSlots, "slots, without a table")
	flags.BoolVar(&f.config.ByVolume, "by-volume", false, "balance the volume in slots, not their number")
	f.hash.register(flags)
	f.tenantOf.register(flags)
	flags.StringVar(&f.write, "write", "", "write the plan to this new file, for tenantlane move run --plan")
	flags.BoolVar(&f.force, "force", false, "let --write replace a file")
	require(cmd, "to")
	output.register(flags)
	drawn.register(flags)
	return cmd
}

func (f *growthFlags) run(cmd *cobra.Command, e *env, drawn pictureFlags, asJSON bool) error {
	c, rule, err := f.start(cmd)
	if err != nil {
		return err
	}
	keys := madeUpKeys()
	if f.population.given() {
		if keys, err = f.population.load(cmd.Context(), e, rule); err != nil {
			return err
		}
	} else {
		e.note("no --keys: comparing with 1,000 made-up keys, user-0 to user-999")
	}
	r, err := plan.Growth(keys, c)
	if err != nil {
		return usagef("%w", err)
	}
	if f.write != "" {
		content, err := json.Marshal(growthAnswer(f.name, r))
		if err != nil {
			return err
		}
		if err := writeNew(f.write, append(content, '\n'), f.force); err != nil {
			return err
		}
	}
	if err := drawn.draw(e, picture.Growth(r, c.From, c.To), !asJSON); err != nil {
		return err
	}
	if asJSON {
		return e.printJSON(growthAnswer(f.name, r))
	}
	return e.printf("\n%d slot moves: --write FILE lists them, and `tenantlane move run --plan FILE` makes them\n", len(r.Balance.Moves))
}

// start fills in what the table says.
func (f *growthFlags) start(cmd *cobra.Command) (plan.GrowthConfig, routing.TenantRule, error) {
	c := f.config
	c.Hash = f.hash.value
	if !f.table.given() {
		if c.From == 0 {
			return c, routing.TenantRule{}, usagef("--from is needed without --table")
		}
		return c, f.tenantOf.value, nil
	}
	for _, name := range []string{"hash", "slots", "tenant-of"} {
		if cmd.Flags().Changed(name) {
			return c, routing.TenantRule{}, usagef("--%s is the table's and cannot be given beside --table", name)
		}
	}
	table, err := f.table.read(cmd.Context())
	if err != nil {
		return c, routing.TenantRule{}, err
	}
	topic, err := pickTopic(table, cmp.Or(f.topic, f.population.fromTopic))
	if err != nil {
		return c, routing.TenantRule{}, err
	}
	switch {
	case c.From > topic.Partitions():
		return c, routing.TenantRule{}, usagef("--from is %d but the table has %d partitions", c.From, topic.Partitions())
	case c.From != 0 && c.To != topic.Partitions() && c.From != topic.Partitions():
		return c, routing.TenantRule{}, usagef("--from %d --to %d: the table has %d partitions, so it has not grown to %d", c.From, c.To, topic.Partitions(), c.To)
	}
	layout := plan.LayoutOf(topic)
	f.name = topic.Name()
	c.From, c.Hash, c.Slots, c.Current = cmp.Or(c.From, topic.Partitions()), topic.Hash(), topic.Slots(), &layout
	return c, topic.TenantRule(), nil
}

func madeUpKeys() []plan.Volume {
	keys := make([]plan.Volume, 1000)
	for i := range keys {
		keys[i] = plan.Volume{Tenant: fmt.Sprintf("user-%d", i), Volume: 1}
	}
	return keys
}

func growthAnswer(topic string, r plan.GrowthReport) growthJSON {
	answer := growthJSON{
		Topic: topic, Strategies: map[string]movedJSON{}, SlotMoves: []slotMoveJSON{},
		AtLeast: r.Balance.AtLeast, SkewAfter: toSkewJSON(r.Balance.Skew),
	}
	for _, s := range r.Strategies {
		answer.Strategies[s.Strategy] = movedJSON{s.Keys, s.Of, s.Volume}
	}
	for _, m := range r.Balance.Moves {
		answer.SlotMoves = append(answer.SlotMoves, slotMoveJSON{m.Slot, m.From, m.To})
	}
	return answer
}
