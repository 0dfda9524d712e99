package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/live"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

type pruneJSON struct {
	Revision uint64          `json:"revision"` // of the table now
	Pruned   bool            `json:"pruned"`   // false after --dry-run, or with nothing to prune
	Moves    int             `json:"moves"`    // finished moves that were forgotten
	Idle     []placementJSON `json:"idle"`
}

// pruneFlags says which entries are old.
type pruneFlags struct {
	changeFlags
	older  time.Duration
	dryRun bool
}

func newTablePruneCommand(e *env) *cobra.Command {
	var output outputFlags
	var f pruneFlags
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove entries of tenants that have had no traffic for long",
		Long: "Finds the tenants with an entry of their own in the table of which no record came for --older, and\n" +
			"removes the entries. Topics that do not exist are passed over. Of a table in a topic it also forgets finished\n" +
			"moves of which no record of before is left.",
		Example: "  tenantlane table prune --dry-run --table routing.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, e, output.json())
		},
	}
	flags := cmd.Flags()
	f.register(flags)
	flags.DurationVar(&f.older, "older", 30*24*time.Hour, "how long a tenant must have had no record")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only list them")
	output.register(flags)
	return cmd
}

func (f *pruneFlags) run(cmd *cobra.Command, e *env, asJSON bool) error {
	if f.older <= 0 {
		return usagef("--older is %v, must be above 0", f.older)
	}
	table, err := f.table.read(cmd.Context())
	if err != nil {
		return err
	}
	idle, err := f.idle(cmd, table)
	if err != nil {
		return err
	}
	answer := pruneJSON{Revision: table.Revision(), Idle: idle}
	if edits := f.edits(e, table, idle); !f.dryRun && len(edits) > 0 {
		_, after, err := f.change(cmd, nil, func(_ tableStore, t *routing.Table) (*routing.Table, error) { return t.Edit(edits...) })
		if err != nil {
			return err
		}
		answer.Revision, answer.Pruned = after.Revision(), true
	}
	if err := f.moves(cmd, table, &answer); err != nil {
		return err
	}
	if asJSON {
		return e.printJSON(answer)
	}
	return e.printPruned(answer, f.older)
}

// edits removes the idle entries. Where producers are wrapped a placed tenant
// has to follow its slot first.
func (f *pruneFlags) edits(e *env, table *routing.Table, idle []placementJSON) (edits []routing.Edit) {
	stay := 0
	for _, p := range idle {
		if topic, ok := table.Topic(p.Topic); ok && topic.Wrapped() && !p.FollowSlot {
			stay++
			continue
		}
		edits = append(edits, routing.ForgetTenant(p.Topic, tenantOf(p)))
	}
	if stay > 0 {
		e.note("%d idle tenants stay: their topics have producers: wrapped, so take their placements away first, with `tenantlane table unset`", stay)
	}
	return edits
}

// moves forgets finished moves that nobody needs any more.
func (f *pruneFlags) moves(cmd *cobra.Command, table *routing.Table, answer *pruneJSON) (err error) {
	if f.table.topic == "" || f.dryRun {
		return nil
	}
	live, err := openLive(cmd.Context(), &f.table, zap.NewNop())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, live.close()) }()
	for _, topic := range table.TopicNames() {
		n, err := live.Prune(cmd.Context(), topic)
		if err != nil {
			return kafkaError("old moves", err)
		}
		answer.Moves += n
	}
	answer.Revision = live.table.Table().Revision()
	return nil
}

// idle are the entries without traffic, of every topic that exists.
func (f *pruneFlags) idle(cmd *cobra.Command, table *routing.Table) ([]placementJSON, error) {
	client, err := f.kafka.connect(cmd.Context(), zap.NewNop())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	idle := []placementJSON{}
	for _, name := range table.TopicNames() {
		topic, _ := table.Topic(name)
		tenants, err := live.Idle(cmd.Context(), client, topic, time.Now().Add(-f.older))
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			continue
		}
		if err != nil {
			return nil, kafkaError("looking for traffic", err)
		}
		for _, tenant := range tenants {
			idle = append(idle, toPlacementJSON(topic, tenant))
		}
	}
	return idle, nil
}

func (e *env) printPruned(p pruneJSON, older time.Duration) error {
	for _, placed := range p.Idle {
		if err := e.printf("%s: %s had no record for %v\n", placed.Topic, picture.Tenant(tenantOf(placed)), older); err != nil {
			return err
		}
	}
	if p.Moves > 0 {
		if err := e.printf("%d finished moves forgotten; table revision %d\n", p.Moves, p.Revision); err != nil {
			return err
		}
	}
	switch {
	case len(p.Idle) == 0:
		return e.printf("every tenant with an entry had traffic\n")
	case p.Pruned:
		return e.printf("%d entries removed; table revision %d\n", len(p.Idle), p.Revision)
	}
	return nil
}
