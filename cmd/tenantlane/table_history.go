package main

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// historyJSON is one change of the table.
type historyJSON struct {
	Revision uint64            `json:"revision"`
	At       time.Time         `json:"at"`
	Actor    string            `json:"actor"`
	Reason   string            `json:"reason"`
	Changes  []entryChangeJSON `json:"changes"`
}

// entryChangeJSON is one entry before and after; null where there was none.
type entryChangeJSON struct {
	Key    any `json:"key"`
	Before any `json:"before"`
	After  any `json:"after"`
}

func newTableHistoryCommand(e *env) *cobra.Command {
	var output outputFlags
	var table tableFlags
	var kafka kafkaFlags
	var limit int
	cmd := &cobra.Command{
		Use:     "history",
		Short:   "Who changed the table, when, why and what",
		Long:    "Lists the changes of a table in a topic, newest first. The history goes back 90 days.",
		Example: "  tenantlane table history --table-topic tenantlane.routing --limit 5",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usagef("--limit is %d, must not be negative", limit)
			}
			tables, err := table.openTopic(cmd.Context(), zap.NewNop(), opening{})
			if err != nil {
				return err
			}
			changes, err := tables.History(cmd.Context())
			if closing := tables.Close(); err == nil {
				err = closing
			}
			if err != nil {
				return err
			}
			return e.printHistory(changes, limit, output.json())
		},
	}
	table.registerTopic(cmd.Flags(), &kafka)
	kafka.register(cmd.Flags())
	cmd.Flags().IntVar(&limit, "limit", 0, "how many changes are listed (default: all)")
	output.register(cmd.Flags())
	return cmd
}

// printHistory prints changes newest first, at most limit unless that is 0.
func (e *env) printHistory(changes []routing.History, limit int, asJSON bool) error {
	for i := len(changes) - 1; i >= 0 && (limit == 0 || i >= len(changes)-limit); i-- {
		h := changes[i]
		var err error
		if asJSON {
			err = e.printJSON(toHistoryJSON(h))
		} else {
			err = e.printf("revision %d, %s, by %s: %s (%d entries)\n",
				h.Revision, h.At.Format(time.RFC3339), orUnknown(h.Actor), orUnknown(h.Reason), len(h.Changes))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "(not said)"
	}
	return s
}

func toHistoryJSON(h routing.History) historyJSON {
	j := historyJSON{Revision: h.Revision, At: h.At, Actor: h.Actor, Reason: h.Reason, Changes: []entryChangeJSON{}}
	for _, c := range h.Changes {
		j.Changes = append(j.Changes, entryChangeJSON{entryValue(c.Key), entryValue(c.Before), entryValue(c.After)})
	}
	return j
}

// entryValue shows an entry's bytes: as the JSON that they are, else as text or
// in hexadecimal.
func entryValue(b []byte) any {
	if b == nil {
		return nil
	}
	if json.Valid(b) {
		return json.RawMessage(b)
	}
	if text, notText := tenantText(b); notText == "" {
		return text
	}
	return hex.EncodeToString(b)
}

func newTableRollbackCommand(e *env) *cobra.Command {
	var output outputFlags
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "rollback REVISION",
		Short: "Make the table say again what it said at a revision",
		Long: "Takes the changes since a revision back, as a new revision with new epochs. What would re-route a live\n" +
			"tenant is refused. Only a table in a topic has a history.",
		Example: "  tenantlane table rollback 16 --table-topic tenantlane.routing --reason 'wrong whale'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			revision, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return usagef("revision %q is not a number", args[0])
			}
			before, after, err := f.change(cmd, args, func(tables tableStore, present *routing.Table) (*routing.Table, error) {
				then, unknown := tables.(topicStore).TableAt(cmd.Context(), present, revision) // no other has flags here
				if unknown != nil {
					return nil, unknown
				}
				return routing.Rebase(present, then.Spec())
			})
			if after == nil {
				return err
			}
			if printed := e.printPush(before, after, output.json()); printed != nil {
				return printed
			}
			return err
		},
	}
	f.table.registerTopic(cmd.Flags(), &f.kafka)
	f.registerEdit(cmd.Flags())
	f.registerUnsafe(cmd.Flags())
	output.register(cmd.Flags())
	return cmd
}
