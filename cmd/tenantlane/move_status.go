package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance"
)

// moveStatusJSON is a move that the table holds. How long it paused its unit is
// known to its coordinator alone.
type moveStatusJSON struct {
	moveJSON

	PauseMS  *float64 `json:"pause_ms"`
	Deadline string   `json:"deadline,omitempty"` // of an open move, RFC 3339
}

func newMoveStatusCommand(e *env) *cobra.Command {
	var f liveFlags
	var output outputFlags
	var tenants hexFlags
	var topic string
	var open bool
	cmd := &cobra.Command{
		Use:   "status [MOVE|TENANT]",
		Short: "Show the moves that the table holds: open ones, and finished ones that are still needed",
		Long: "An open move is shown with the producers that it waits for. A finished one stays until its old partition's log\n" +
			"starts above its fence: until then workers need it to keep order.",
		Example: "  tenantlane move status --table-topic tenantlane.routing\n" +
			"  tenantlane move status --open --format json --table-topic tenantlane.routing",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			named, err := tenants.move(args)
			if err != nil {
				return err
			}
			live, err := openLive(cmd.Context(), &f.table, zap.NewNop())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, live.close()) }()
			moves, err := live.status(cmd.Context(), topic, named, open)
			if err != nil {
				return err
			}
			return e.printMoves(moves, output.json())
		},
	}
	flags := cmd.Flags()
	f.table.registerTopic(flags, &f.kafka)
	f.kafka.register(flags)
	tenants.register(flags)
	flags.StringVar(&topic, "topic", "", "only moves of this topic (default: of all)")
	flags.BoolVar(&open, "open", false, "only moves that are neither switched nor aborted")
	output.register(flags)
	return cmd
}

// moveName is how a person names a move: by its id, or by its tenant.
type moveName struct{ id, tenant string }

// move reads an argument that names a move; without one it is nil, any move.
func (h *hexFlags) move(args []string) (*moveName, error) {
	if len(args) == 0 {
		return nil, nil
	}
	tenant, err := h.tenant(args[0])
	if err != nil {
		return nil, err
	}
	return &moveName{args[0], string(tenant)}, nil
}

// fits reports whether a move is meant.
func (n *moveName) fits(m *routing.Move) bool {
	return n == nil || m.ID == n.id || m.Tenant != "" && m.Tenant == n.tenant
}

// status lists the moves of the table, of one topic or all.
func (l *liveMoves) status(ctx context.Context, topic string, named *moveName, open bool) ([]moveStatusJSON, error) {
	table := l.table.Table()
	names := table.TopicNames()
	if topic != "" {
		if _, err := pickTopic(table, topic); err != nil {
			return nil, err
		}
		names = []string{topic}
	}
	var list []moveStatusJSON
	for _, name := range names {
		t, _ := table.Topic(name)
		for _, m := range t.Moves() {
			if open && !m.Open() || !named.fits(m) {
				continue
			}
			shown, err := l.show(ctx, name, m)
			if err != nil {
				return nil, err
			}
			list = append(list, shown)
		}
	}
	return list, nil
}

// show says what the table holds of a move, and of an open one whom it waits
// for.
func (l *liveMoves) show(ctx context.Context, topic string, m *routing.Move) (moveStatusJSON, error) {
	s := moveStatusJSON{moveJSON: moveJSON{
		Move: m.ID, State: stateSwitched, Mode: modeStrict, Topic: topic, From: m.From, To: m.To, Fence: toFenceJSON(m.Fences),
		Epoch: m.Epoch, Revision: l.table.Table().Revision(), WaitingFor: []string{},
	}}
	s.unit(m.Tenant, m.Slots)
	if !m.Open() {
		return s, nil
	}
	s.State, s.Deadline = statePrepared, m.Deadline.UTC().Format(time.RFC3339Nano)
	waiting, err := l.Waiting(ctx, m.ID)
	if err != nil && !errors.Is(err, routing.ErrMoveNotOpen) {
		return s, kafkaError("the sessions of producers", err)
	}
	for _, session := range waiting {
		s.WaitingFor = append(s.WaitingFor, rebalance.Wait{Session: session}.String())
	}
	return s, nil
}

func (e *env) printMoves(moves []moveStatusJSON, asJSON bool) error {
	if asJSON {
		for _, m := range moves {
			if err := e.printJSON(m); err != nil {
				return err
			}
		}
		return nil
	}
	if len(moves) == 0 {
		return e.printf("no moves\n")
	}
	table := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MOVE\tSTATE\tTOPIC\tUNIT\tFROM\tTO\tFENCE\tWAITS FOR")
	for _, m := range moves {
		waits := strings.Join(m.WaitingFor, ", ")
		switch deadline, err := time.Parse(time.RFC3339Nano, m.Deadline); {
		case m.State != statePrepared:
		case err == nil && time.Now().After(deadline):
			waits = "nobody: its deadline is over, and any producer, worker or next move aborts it"
		case waits == "":
			waits = "its coordinator, until " + m.Deadline
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Move, m.State, m.Topic, m.what(),
			routing.FormatPartitions(m.From), routing.FormatPartitions(m.To), m.fences(), waits)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

func newMoveAbortCommand(e *env) *cobra.Command {
	var f liveFlags
	var output outputFlags
	var tenants hexFlags
	var topic string
	cmd := &cobra.Command{
		Use:   "abort MOVE|TENANT",
		Short: "Give an open move up: everything goes on as before it",
		Long: "A move that its coordinator does not finish is aborted at its deadline by itself. A move that is switched is done:\n" +
			"what went to the new partition stays there, and a move back is a move.",
		Example: "  tenantlane move abort 1f2e3d4c5b6a7988 --table-topic tenantlane.routing\n" +
			"  tenantlane move abort acme-corp --table-topic tenantlane.routing",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			named, err := tenants.move(args)
			if err != nil {
				return err
			}
			live, err := openLive(cmd.Context(), &f.table, f.logs.logger(e))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, live.close()) }()
			return live.abort(cmd.Context(), e, topic, named, authorOf(cmd, args, f.by), output.json())
		},
	}
	flags := cmd.Flags()
	f.register(flags, "warn")
	tenants.register(flags)
	flags.StringVar(&topic, "topic", "", "topic of the move (default: any that has it)")
	output.register(flags)
	return cmd
}

// abort gives an open move up that is named by its id or its tenant.
func (l *liveMoves) abort(ctx context.Context, e *env, topic string, named *moveName, by store.Author, asJSON bool) error {
	found, name := l.find(topic, named)
	switch {
	case found == nil:
		return answerNo("the table has no open move %q, nor one of a tenant of that name", named.id)
	case !found.Open():
		return answerNo("%s is switched: its unit goes to partition %s since epoch %d, and back by another move", found, routing.FormatPartitions(found.To), found.Epoch)
	}
	if err := l.Abort(ctx, name, found.ID, by); err != nil {
		return liveMoveError(nil, err)
	}
	m := moveJSON{
		Move: found.ID, State: stateAborted, Mode: modeStrict, Topic: name, From: found.From, To: found.To, Fence: []fenceJSON{},
		Revision: l.table.Table().Revision(), WaitingFor: []string{},
	}
	m.unit(found.Tenant, found.Slots)
	if asJSON {
		return e.printJSON(m)
	}
	return e.printf("%s: the move of %s %s is aborted, its records go on to partition %s\n", name, m.what(), m.way(), routing.FormatPartitions(m.From))
}

// find gives an open move by its id or tenant, else a switched one by its id.
func (l *liveMoves) find(topic string, named *moveName) (found *routing.Move, of string) {
	table := l.table.Table()
	for _, name := range table.TopicNames() {
		if topic != "" && name != topic {
			continue
		}
		t, _ := table.Topic(name)
		for _, m := range t.Moves() {
			if m.ID == named.id || m.Open() && named.fits(m) {
				found, of = m, name
			}
		}
	}
	return found, of
}
