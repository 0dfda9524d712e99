package main

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance"
)

// planFile is what `move run` reads: what `plan growth --write` writes, or
// a list of tenants.
type planFile struct {
	Topic       string           `json:"topic"`
	SlotMoves   []slotMoveJSON   `json:"slot_moves"`
	TenantMoves []tenantMoveJSON `json:"tenant_moves"`
}

// tenantMoveJSON is a tenant of a plan.
type tenantMoveJSON struct {
	Tenant    string  `json:"tenant"`
	TenantHex string  `json:"tenant_hex"` // takes the place of tenant
	To        []int32 `json:"to"`
	Spread    string  `json:"spread"` // "", "key" or "random"
}

// runFlags say which moves are made, and how fast.
type runFlags struct {
	liveFlags
	output    outputFlags
	plan      string
	topic     string
	parallel  int
	batch     int
	rate      float64
	retries   int
	unordered bool
}

func newMoveRunCommand(e *env) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --plan FILE",
		Short: "Make the moves of a plan, in rounds",
		Long: "Moves the slots that `plan growth --write FILE` lists, many in each round, or the tenants of a list:\n" +
			"  {\"tenant_moves\": [{\"tenant\": \"acme-corp\", \"to\": [0]}, {\"tenant\": \"initech\", \"to\": [28, 29], \"spread\": \"key\"}]}\n\n" +
			"What is done is told by the table alone: run it again after Ctrl-C, kill -9 or an error, and it goes on where it\n" +
			"was. Ctrl-C finishes or aborts the round in hand and ends with 130. A round that is aborted, as by a producer that\n" +
			"died, is repeated after a pause.",
		Example: "  tenantlane move run --plan growth.json --topic orders --table-topic tenantlane.routing\n" +
			"  tenantlane move run --plan growth.json --topic orders --batch 64 --rate 0.5 --table-topic tenantlane.routing",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, e, args) },
	}
	flags := cmd.Flags()
	f.register(flags, "warn")
	flags.StringVar(&f.plan, "plan", "", "JSON file with slot_moves or tenant_moves")
	require(cmd, "plan")
	flags.StringVar(&f.topic, "topic", "", "topic of the moves (default: the plan's, or the table's only one)")
	flags.IntVar(&f.parallel, "max-parallel", 1, "moves under way at once")
	flags.IntVar(&f.batch, "batch", rebalance.DefaultBatch, "slots that one move takes at most")
	flags.Float64Var(&f.rate, "rate", 1, "moves that begin a second at most, so that nobody else notices; 0: no limit")
	flags.IntVar(&f.retries, "retries", rebalance.DefaultRetries, "how often in a row a move is tried again that was aborted")
	flags.BoolVar(&f.unordered, "accept-unordered", false, "also where the table does not say producers: wrapped, giving up order")
	f.output.register(flags)
	return cmd
}

func (f *runFlags) run(cmd *cobra.Command, e *env, args []string) (err error) {
	ctx := cmd.Context()
	plan, err := f.read()
	if err != nil {
		return err
	}
	live, err := openLive(ctx, &f.table, f.logs.logger(e))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, live.close()) }()
	campaign, err := f.campaign(live.table.Table(), plan)
	if err != nil {
		return err
	}
	campaign.By = authorOf(cmd, args, f.by)
	bar := e.newProgress("moved", int64(campaign.Units()))
	campaign.Progress = func(done int) { bar.set(int64(done)) }
	campaign.Ended = func(r rebalance.Report, failed error) {
		bar.end()
		if printed := f.printRound(e, &r, failed); printed != nil && err == nil {
			err = printed
		}
	}
	report, failed := live.Run(ctx, campaign)
	bar.end()
	e.note("%s: %d of %d are where they go, %d of them moved now in %d moves, %d were aborted and repeated",
		campaign.Topic, report.Already+report.Moved, report.Units, report.Moved, report.Moves, report.Aborted)
	if failed != nil {
		return liveMoveError(nil, failed)
	}
	live.prune(ctx, e, campaign.Topic)
	return err
}

// printRound prints a move that has ended.
func (f *runFlags) printRound(e *env, r *rebalance.Report, failed error) error {
	m := toMoveJSON(r)
	switch {
	case f.output.json():
		return e.printJSON(m)
	case failed != nil:
		e.note("%v", failed)
		return nil
	}
	return e.printMove(m, false)
}

func (f *runFlags) read() (*planFile, error) {
	content, err := os.ReadFile(f.plan)
	if err != nil {
		return nil, usagef("--plan: %w", err)
	}
	var plan planFile
	if err := json.NewDecoder(bytes.NewReader(content)).Decode(&plan); err != nil {
		return nil, usagef("--plan %s: %w", f.plan, err)
	}
	if plan.SlotMoves == nil && plan.TenantMoves == nil {
		return nil, usagef("--plan %s holds neither slot_moves, as `tenantlane plan growth --write FILE` lists them, nor tenant_moves", f.plan)
	}
	return &plan, nil
}

// campaign is what the plan means by the table.
func (f *runFlags) campaign(table *routing.Table, plan *planFile) (rebalance.Campaign, error) {
	c := rebalance.Campaign{
		Batch: f.batch, Parallel: f.parallel, Rate: f.rate, Retries: f.retries, AcceptUnordered: f.unordered, Slots: map[int32]int32{},
	}
	if f.retries == 0 {
		c.Retries = -1
	}
	for name, wrong := range map[string]bool{"max-parallel": f.parallel < 1, "batch": f.batch < 1, "rate": f.rate < 0, "retries": f.retries < 0} {
		if wrong {
			return c, usagef("--%s: out of its range", name)
		}
	}
	if plan.Topic != "" && f.topic != "" && plan.Topic != f.topic {
		return c, usagef("--topic %s: the plan is of topic %q", f.topic, plan.Topic)
	}
	if f.topic == "" {
		f.topic = plan.Topic
	}
	topic, err := pickTopic(table, f.topic)
	if err != nil {
		return c, err
	}
	c.Topic = topic.Name()
	for _, m := range plan.SlotMoves {
		if to, twice := c.Slots[m.Slot]; twice && to != m.To {
			return c, usagef("--plan %s: slot %d is to go to partition %d and to %d", f.plan, m.Slot, to, m.To)
		}
		c.Slots[m.Slot] = m.To
	}
	for _, m := range plan.TenantMoves {
		tenant, wrong := m.tenant()
		if wrong != nil {
			return c, usagef("--plan %s: %w", f.plan, wrong)
		}
		c.Tenants = append(c.Tenants, rebalance.TenantMove{Tenant: tenant, To: m.To, Spread: spreadOf(m.Spread)})
	}
	return c, nil
}

func (m *tenantMoveJSON) tenant() (string, error) {
	switch {
	case m.Spread != "" && m.Spread != "key" && m.Spread != "random":
		return "", fmt.Errorf("tenant %q: spread %q must be key or random", m.Tenant, m.Spread)
	case len(m.To) == 0:
		return "", fmt.Errorf("tenant %q goes nowhere: to is empty", cmp.Or(m.Tenant, m.TenantHex))
	case m.TenantHex != "":
		name, err := hex.DecodeString(m.TenantHex)
		if err != nil {
			return "", fmt.Errorf("tenant_hex %q: %w", m.TenantHex, err)
		}
		return string(name), nil
	case m.Tenant == "":
		return "", errors.New("a tenant move without a tenant")
	}
	return m.Tenant, nil
}
