package main

import (
	"bytes"
	"cmp"
	"encoding/hex"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

type whalesJSON struct {
	SkewBefore  skewJSON    `json:"skew_before"`
	SkewAfter   skewJSON    `json:"skew_after"`
	Whales      []whaleJSON `json:"whales"`
	BoundBy     *string     `json:"bound_by"` // null when the plan reaches its target
	Bound       float64     `json:"bound"`    // max/mean that no plan without spreading can beat
	SlotsMoved  int         `json:"slots_moved"`
	LoadsBefore []float64   `json:"loads_before"`
	LoadsAfter  []float64   `json:"loads_after"`
}

type whaleJSON struct {
	Tenant     string  `json:"tenant"`
	TenantHex  string  `json:"tenant_hex"`
	Share      float64 `json:"share"`
	Partitions []int32 `json:"partitions"`
	Spread     string  `json:"spread"` // "", "key" or "random"
	Order      string  `json:"order"`
}

// whalesFlags is what `plan whales` plans for.
type whalesFlags struct {
	population populationFlags
	table      tableFlags
	partitions int32
	slots      int32
	hash       hashFlag
	tenantOf   tenantRuleFlag
	topic      string
	noSpread   bool
	spread     string
	target     float64
	write      string
	force      bool
}

func newPlanWhalesCommand(e *env) *cobra.Command {
	var output outputFlags
	var drawn pictureFlags
	var f whalesFlags
	cmd := &cobra.Command{
		Use:   "whales",
		Short: "Which tenants to place by name, and where each slot goes",
		Long: "Plans placements and slots so that the fullest partition is as close to the mean as can be, and\n" +
			"divides no more tenants than that needs. With --table it starts from what is there and changes as\n" +
			"little as possible. A tenant that is spread by key keeps order per (tenant, key) and needs tenants\n" +
			"that are not the key (--tenant-of); spread at random it keeps none.",
		Example: "  tenantlane plan whales --volumes tenants.tsv --partitions 32 --write routing.yaml\n" +
			"  tenantlane plan whales --from-topic orders --for 30s --table routing.yaml --format json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, e, drawn, output.json())
		},
	}
	flags := cmd.Flags()
	f.population.register(flags, "volumes")
	f.table.register(flags, &f.population.kafka)
	flags.Int32Var(&f.partitions, "partitions", 0, "partitions to plan for (default: the table's)")
	flags.Int32Var(&f.slots, "slots", routing.DefaultSlots, "slots of a new table")
	f.hash.register(flags)
	f.tenantOf.register(flags)
	flags.StringVar(&f.topic, "topic", "", "topic of the table (default: --from-topic, or the table's only one, or \"topic\")")
	flags.BoolVar(&f.noSpread, "no-spread", false, "divide no tenant: whole order, whatever the skew")
	flags.Var(choice(&f.spread, "", "key", "random"), "spread", "how tenants are divided: key or random (default: key where --tenant-of allows it)")
	flags.Float64Var(&f.target, "target", 1.02, "max/mean that is good enough")
	flags.StringVar(&f.write, "write", "", "write the planned table to this new file")
	flags.BoolVar(&f.force, "force", false, "let --write replace a file")
	output.register(flags)
	drawn.register(flags)
	return cmd
}

func (f *whalesFlags) run(cmd *cobra.Command, e *env, drawn pictureFlags, asJSON bool) error {
	if !f.population.given() {
		return usagef("no tenants: give --volumes FILE, or --from-topic T")
	}
	from, err := f.start(cmd)
	if err != nil {
		return err
	}
	spread, err := f.chooseSpread(from.TenantRule())
	if err != nil {
		return err
	}
	volumes, err := f.population.load(cmd.Context(), e, from.TenantRule())
	if err != nil {
		return err
	}
	c := plan.WhalesConfig{Partitions: from.Partitions(), Slots: from.Slots(), Hash: from.Hash(), Spread: spread, Target: f.target}
	if f.table.given() {
		layout := plan.LayoutOf(from)
		c.Current = &layout
	}
	p, err := plan.Whales(volumes, c)
	if err != nil {
		return usagef("%w", err)
	}
	if f.write != "" {
		if err := f.writePlan(cmd, from, p); err != nil {
			return err
		}
	}
	if err := drawn.draw(e, picture.Whales(p), !asJSON); err != nil {
		return err
	}
	if asJSON {
		return e.printJSON(whalesAnswer(from, p))
	}
	return e.printWhales(p, f.write)
}

// start is the topic that the plan starts from: the table's, or a new one.
func (f *whalesFlags) start(cmd *cobra.Command) (*routing.Topic, error) {
	if f.table.given() {
		for _, name := range []string{"hash", "slots", "tenant-of"} {
			if cmd.Flags().Changed(name) {
				return nil, usagef("--%s is the table's and cannot be given beside --table", name)
			}
		}
		table, err := f.table.read(cmd.Context())
		if err != nil {
			return nil, err
		}
		topic, err := pickTopic(table, cmp.Or(f.topic, f.population.fromTopic))
		if err == nil && f.partitions != 0 && f.partitions != topic.Partitions() {
			return nil, usagef("--partitions is %d but the table has %d; growth is planned with `tenantlane plan growth`", f.partitions, topic.Partitions())
		}
		return topic, err
	}
	if f.partitions == 0 {
		return nil, usagef("--partitions is needed without --table")
	}
	return f.newTopic(nil)
}

// newTopic is a topic without placements; without shared partitions it maps
// slots to all.
func (f *whalesFlags) newTopic(shared []int32) (*routing.Topic, error) {
	name := cmp.Or(f.topic, f.population.fromTopic, "topic")
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{name: {
		Partitions: f.partitions, Slots: f.slots, Hash: f.hash.value, TenantOf: f.tenantOf.value, Shared: shared,
	}}})
	if err != nil {
		return nil, usagef("%w", err)
	}
	topic, _ := table.Topic(name)
	return topic, nil
}

func (f *whalesFlags) chooseSpread(rule routing.TenantRule) (routing.Spread, error) {
	byKey := rule.From != routing.FromKey
	switch {
	case f.noSpread && f.spread != "":
		return 0, usagef("--no-spread and --spread exclude each other")
	case f.noSpread:
		return routing.SpreadNone, nil
	case f.spread == "key" && !byKey:
		return 0, usagef("--spread key needs tenants that are not the key: with tenant_of key all keys of a tenant are equal; give --tenant-of header:NAME or prefix:SEP")
	case f.spread == "key", f.spread == "" && byKey:
		return routing.SpreadKey, nil
	}
	return routing.SpreadRandom, nil
}

// writePlan writes the table that the plan makes.
func (f *whalesFlags) writePlan(cmd *cobra.Command, from *routing.Topic, p *plan.WhalesPlan) error {
	table, err := f.planned(cmd, from, p)
	if err != nil {
		return usagef("the planned table: %w", err)
	}
	var content bytes.Buffer
	if err := writeTable(&content, table); err != nil {
		return err
	}
	return writeNew(f.write, content.Bytes(), f.force)
}

func (f *whalesFlags) planned(cmd *cobra.Command, from *routing.Topic, p *plan.WhalesPlan) (*routing.Table, error) {
	if f.table.given() {
		table, err := f.table.read(cmd.Context())
		if err != nil {
			return nil, err
		}
		return table.Edit(p.Edits(from)...)
	}
	base, err := f.newTopic(p.Shared)
	if err != nil {
		return nil, err
	}
	table, err := routing.NewTable(routing.Spec{})
	if err != nil {
		return nil, err
	}
	spec := routing.TopicSpec{Partitions: base.Partitions(), Slots: base.Slots(), Hash: base.Hash(), TenantOf: base.TenantRule(), Shared: base.Shared()}
	return table.Edit(append([]routing.Edit{routing.SetTopic(base.Name(), spec)}, p.Edits(base)...)...)
}

func whalesAnswer(from *routing.Topic, p *plan.WhalesPlan) whalesJSON {
	answer := whalesJSON{
		SkewBefore: toSkewJSON(p.Before), SkewAfter: toSkewJSON(p.After), Whales: []whaleJSON{}, Bound: p.Bound,
		LoadsBefore: p.LoadsBefore, LoadsAfter: p.LoadsAfter,
	}
	if p.BoundBy != "" {
		text, _ := tenantText([]byte(p.BoundBy))
		answer.BoundBy = &text
	}
	for _, w := range p.Whales {
		text, _ := tenantText([]byte(w.Tenant))
		answer.Whales = append(answer.Whales, whaleJSON{
			text, hex.EncodeToString([]byte(w.Tenant)), w.Share, w.Partitions, w.Spread.String(), plan.OrderCost(w.Spread),
		})
	}
	for slot, to := range p.Slots {
		if from.SlotPartition(int32(slot)) != to {
			answer.SlotsMoved++
		}
	}
	return answer
}

func (e *env) printWhales(p *plan.WhalesPlan, written string) error {
	if err := e.printf("\nbefore: %s\nafter:  %s\n", skewText(p.Before), skewText(p.After)); err != nil {
		return err
	}
	for _, w := range p.Whales {
		if err := e.printf("%s: %.1f %% of the volume, to %s; %s\n",
			picture.Tenant(w.Tenant), 100*w.Share, routing.FormatPartitions(w.Partitions), plan.OrderCost(w.Spread)); err != nil {
			return err
		}
	}
	if p.BoundBy != "" {
		if err := e.printf("%s bounds the plan: it alone is above the target, and without dividing it no plan gets below max/mean %.2f\n",
			picture.Tenant(p.BoundBy), p.Bound); err != nil {
			return err
		}
	}
	if written != "" {
		return e.printf("wrote %s; a topic that has records takes it by moves, not by swapping tables\n", written)
	}
	return nil
}
