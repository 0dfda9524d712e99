package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// growFlags say how large a topic becomes.
type growFlags struct {
	changeFlags
	output     outputFlags
	logs       logFlags
	topic      string
	partitions int32
}

// topicGrown is what became of a topic.
type topicGrown struct {
	Topic      string `json:"topic"`
	Partitions int32  `json:"partitions"` // that the topic has now
	Added      int32  `json:"added"`      // partitions that were made
	Before     int32  `json:"before"`     // partitions of the table before
	Revision   uint64 `json:"revision"`   // of the table now
}

func newTopicGrowCommand(e *env) *cobra.Command {
	var f growFlags
	cmd := &cobra.Command{
		Use:   "grow --topic T --partitions N (--table FILE | --table-topic NAME)",
		Short: "Give a topic more partitions; no record moves by that",
		Long: "Adds partitions to the topic, then tells the routing table of them. No tenant moves: slots go onto the new\n" +
			"partitions by moves, which `plan growth` lists and `move run` makes. It may be run again after it was cut off.\n\n" +
			"Producers that do not route by the table begin to use new partitions by themselves, and break order by it:\n" +
			"see `table verify` first.",
		Example: "  tenantlane topic grow --topic orders --partitions 64 --table-topic tenantlane.routing\n" +
			"  tenantlane plan growth --topic orders --from 32 --to 64 --table-topic tenantlane.routing --write growth.json\n" +
			"  tenantlane move run --plan growth.json --topic orders --table-topic tenantlane.routing",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, e) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "topic that grows (default: the table's only one)")
	flags.Int32Var(&f.partitions, "partitions", 0, "partitions that it has then")
	require(cmd, "partitions")
	f.registerSafe(flags)
	f.output.register(flags)
	f.logs.register(flags, "warn")
	return cmd
}

func (f *growFlags) run(cmd *cobra.Command, e *env) error {
	ctx := cmd.Context()
	table, err := f.table.read(ctx)
	if err != nil {
		return err
	}
	topic, err := pickTopic(table, f.topic)
	if err != nil {
		return err
	}
	grown := topicGrown{Topic: topic.Name(), Before: topic.Partitions(), Revision: table.Revision()}
	if f.partitions < grown.Before {
		return usagef("--partitions %d: the table has %d partitions of topic %q, and a topic cannot shrink", f.partitions, grown.Before, grown.Topic)
	}
	if err := f.addPartitions(ctx, e, &grown); err != nil {
		return err
	}
	if f.partitions > grown.Before {
		_, after, err := f.change(cmd, nil, func(_ tableStore, t *routing.Table) (*routing.Table, error) {
			return growTable(t, grown.Topic, f.partitions)
		})
		if err != nil {
			return err
		}
		grown.Revision = after.Revision()
	}
	if f.output.json() {
		return e.printJSON(grown)
	}
	return e.printf("%s", f.describe(grown))
}

// growTable raises a topic's partitions, unless another command did.
func growTable(t *routing.Table, topic string, partitions int32) (*routing.Table, error) {
	if now, ok := t.Topic(topic); ok && now.Partitions() >= partitions {
		return t, nil
	}
	return t.Edit(routing.Grow(topic, partitions))
}

// addPartitions makes what the topic lacks.
func (f *growFlags) addPartitions(ctx context.Context, e *env, grown *topicGrown) error {
	client, err := f.kafka.connect(ctx, f.logs.logger(e))
	if err != nil {
		return err
	}
	defer client.Close()
	have, err := topicPartitions(ctx, client, grown.Topic)
	if err != nil {
		return err
	}
	grown.Partitions = max(have, f.partitions)
	if have >= f.partitions {
		return nil
	}
	if err := setPartitions(ctx, client, grown.Topic, f.partitions); err != nil {
		return kafkaError(fmt.Sprintf("adding partitions to topic %q", grown.Topic), err)
	}
	grown.Added = f.partitions - have
	if err := awaitPartitions(ctx, client, grown.Topic, f.partitions); err != nil {
		return kafkaError(fmt.Sprintf("topic %q got %d partitions but brokers do not show them; run it again", grown.Topic, f.partitions), err)
	}
	return nil
}

// setPartitions makes a topic have that many partitions. That another command
// was faster is fine.
func setPartitions(ctx context.Context, client *kgo.Client, topic string, partitions int32) error {
	answers, err := kadm.NewClient(client).UpdatePartitions(ctx, int(partitions), topic)
	if err != nil {
		return err
	}
	answer, err := answers.On(topic, nil)
	if err == nil {
		err = answer.Err
	}
	if errors.Is(err, kerr.InvalidPartitions) {
		if count, looked := topicPartitions(ctx, client, topic); looked == nil && count >= partitions {
			return nil
		}
	}
	if err != nil && answer.ErrMessage != "" {
		err = fmt.Errorf("%w (%s)", err, answer.ErrMessage)
	}
	return err
}

// describe is the answer for people, with what to do next.
func (f *growFlags) describe(g topicGrown) string {
	if g.Added == 0 && g.Before == f.partitions {
		return fmt.Sprintf("topic %q has %d partitions already, and so does the table, revision %d\n", g.Topic, g.Partitions, g.Revision)
	}
	return fmt.Sprintf("topic %q has %d partitions, %d of them new; table revision %d\n"+
		"nothing has moved; next:\n"+
		"  tenantlane plan growth --topic %s --from %d --to %d %s --write growth.json\n"+
		"  tenantlane move run --plan growth.json --topic %s %s\n",
		g.Topic, g.Partitions, g.Added, g.Revision, g.Topic, g.Before, f.partitions, f.table.flags(), g.Topic, f.table.flags())
}
