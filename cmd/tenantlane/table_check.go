package main

import (
	"context"
	"errors"
	"net"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

type checkJSON struct {
	Revision uint64           `json:"revision"`
	Topics   []topicCheckJSON `json:"topics"`
}

type topicCheckJSON struct {
	Topic         string `json:"topic"`
	Partitions    int32  `json:"partitions"`
	Slots         int32  `json:"slots"`
	Hash          string `json:"hash"`
	SlotOverrides int    `json:"slot_overrides"`
	Placements    int    `json:"placements"`
}

func newTableCheckCommand(e *env) *cobra.Command {
	var output outputFlags
	var table tableFlags
	var kafka kafkaFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate a table, and with brokers whether its topics are there",
		Long: "Reads the whole table strictly: unknown fields, duplicates, partitions outside the topic and the like\n" +
			"are named with file, line and field (exit code 1). With brokers it also checks that each topic exists\n" +
			"and has at least the partitions that the table names.",
		Example: "  tenantlane table check --table routing.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			got, err := table.read(ctx)
			if err != nil {
				return refused(err)
			}
			if kafka.given() {
				client, err := kafka.connect(ctx, zap.NewNop())
				if err != nil {
					return err
				}
				defer client.Close()
				if err := partitioner.CheckTopics(ctx, client, got); err != nil {
					return checkFailed(err)
				}
			}
			return e.printCheck(table.name(), got, output.json())
		},
	}
	table.register(cmd.Flags(), &kafka)
	kafka.register(cmd.Flags())
	output.register(cmd.Flags())
	return cmd
}

// checkFailed tells a topic that does not fit, which is the answer "no", from
// a cluster that does not answer.
func checkFailed(err error) error {
	var broker *kerr.Error
	var network net.Error
	if errors.As(err, &broker) || errors.As(err, &network) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return kafkaError("checking topics", err)
	}
	return answerNo("%w", err)
}

func (e *env) printCheck(name string, table *routing.Table, asJSON bool) error {
	answer := checkJSON{Revision: table.Revision(), Topics: []topicCheckJSON{}}
	spec := table.Spec()
	for _, name := range table.TopicNames() {
		t := spec.Topics[name]
		answer.Topics = append(answer.Topics, topicCheckJSON{name, t.Partitions, t.Slots, t.Hash.String(), len(t.SlotOverrides), len(t.Placements)})
	}
	if asJSON {
		return e.printJSON(answer)
	}
	if err := e.printf("%s: good, revision %d\n", name, answer.Revision); err != nil {
		return err
	}
	for _, t := range answer.Topics {
		if err := e.printf("  %s: %d partitions, %d slots by %s, %d slot overrides, %d placements\n",
			t.Topic, t.Partitions, t.Slots, t.Hash, t.SlotOverrides, t.Placements); err != nil {
			return err
		}
	}
	return nil
}
