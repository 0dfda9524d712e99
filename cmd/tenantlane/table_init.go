package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/adopt"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

type initJSON struct {
	Topic      string `json:"topic"`
	Partitions int32  `json:"partitions"`
	Slots      int32  `json:"slots"`
	Hash       string `json:"hash"`
	Revision   uint64 `json:"revision"`
}

// initFlags is the topic to make a table of.
type initFlags struct {
	table     tableFlags
	kafka     kafkaFlags
	fromTopic string
	clients   string
}

func newTableInitCommand(e *env) *cobra.Command {
	var output outputFlags
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a table of an existing topic, mapping as its clients do today",
		Long: "Makes a table that maps keys exactly as a client's default partitioner does, so that adopting the\n" +
			"topic moves nothing. With --table the file is made, or the topic is added to it; without, the table\n" +
			"is printed. `tenantlane table verify` then checks it against what the topic holds.",
		Example: "  tenantlane table init --from-topic orders --clients java --table routing.yaml\n" +
			"  tenantlane table verify --topic orders --table routing.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), e, output.json())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.fromTopic, "from-topic", "", "topic to adopt")
	flags.StringVar(&f.clients, "clients", "", "what fills the topic: "+strings.Join(adopt.Clients(), ", "))
	require(cmd, "from-topic", "clients")
	f.table.register(flags, &f.kafka)
	f.kafka.register(flags)
	output.register(flags)
	return cmd
}

func (f *initFlags) run(ctx context.Context, e *env, asJSON bool) error {
	if _, err := adopt.TopicSpec(f.clients, 1); err != nil {
		return usagef("--clients: %w", err)
	}
	client, err := f.kafka.connect(ctx, zap.NewNop())
	if err != nil {
		return err
	}
	defer client.Close()
	partitions, err := topicPartitions(ctx, client, f.fromTopic)
	if err != nil {
		return err
	}
	spec, err := adopt.TopicSpec(f.clients, partitions)
	if err != nil {
		return usagef("topic %q: %w", f.fromTopic, err)
	}
	table, err := f.add(ctx, spec)
	if err != nil {
		return err
	}
	answer := initJSON{f.fromTopic, partitions, spec.Slots, spec.Hash.String(), table.Revision()}
	switch {
	case asJSON:
		return e.printJSON(answer)
	case f.table.given():
		return e.printf("%s: topic %s adopted as %s fills it: %d partitions, %d slots, %s; check with `tenantlane table verify --topic %s %s`\n",
			f.table.name(), answer.Topic, f.clients, answer.Partitions, answer.Slots, answer.Hash, answer.Topic, f.table.flags())
	}
	return writeTable(e.stdout, table)
}

// add puts the topic into the table, a new one if there is none.
func (f *initFlags) add(ctx context.Context, spec routing.TopicSpec) (*routing.Table, error) {
	if f.table.topic == "" && isEmptyFile(f.table.file) {
		return f.create(spec)
	}
	tables, err := f.table.open(ctx, zap.NewNop(), opening{empty: true, create: true})
	if err != nil {
		return nil, err
	}
	by := store.Author{Actor: userName(), Reason: "adopt topic " + f.fromTopic + " as " + f.clients + " fills it"}
	table, err := tables.update(ctx, by, func(present *routing.Table) (*routing.Table, error) { return f.addTo(present, spec) })
	return table, errors.Join(refused(err), tables.Close())
}

// isEmptyFile tells a file that is not there, or holds nothing.
func isEmptyFile(path string) bool {
	info, err := os.Stat(path)
	return path == "" || err != nil || info.Size() == 0
}

func (f *initFlags) create(spec routing.TopicSpec) (*routing.Table, error) {
	empty, err := routing.NewTable(routing.Spec{})
	if err != nil {
		return nil, err
	}
	table, err := f.addTo(empty, spec)
	if err != nil || !f.table.given() {
		return table, err
	}
	var content bytes.Buffer
	if err := writeTable(&content, table); err != nil {
		return nil, err
	}
	return table, writeNew(f.table.file, content.Bytes(), false)
}

func (f *initFlags) addTo(table *routing.Table, spec routing.TopicSpec) (*routing.Table, error) {
	if _, has := table.Topic(f.fromTopic); has {
		return nil, answerNo("topic %q is already in %s", f.fromTopic, f.table.name())
	}
	next, err := table.Edit(routing.SetTopic(f.fromTopic, spec))
	if err != nil {
		return nil, usagef("%w", err)
	}
	return next, nil
}
