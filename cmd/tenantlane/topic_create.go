package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topicSettle bounds the wait until brokers agree that a new topic exists.
const topicSettle = 15 * time.Second

type topicCreateFlags struct {
	kafka       kafkaFlags
	table       tableFlags
	output      outputFlags
	logs        logFlags
	topic       string
	partitions  int32
	replication int16
	config      map[string]string
	ifNotExists bool
}

type topicCreated struct {
	Topic      string `json:"topic"`
	Partitions int32  `json:"partitions"`
	Created    bool   `json:"created"`
}

func newTopicCreateCommand(e *env) *cobra.Command {
	var f topicCreateFlags
	cmd := &cobra.Command{
		Use:   "create --topic T (--partitions N | --table FILE)",
		Short: "Create a topic with the partitions of a routing table",
		Example: "  tenantlane topic create --topic orders --table routing.yaml\n" +
			"  tenantlane topic create --topic orders --partitions 32 --replication-factor 3 --topic-config min.insync.replicas=2",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.createTopic(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "name of the topic (default with --table: the table's only one)")
	flags.Int32Var(&f.partitions, "partitions", 0, "number of partitions (default with --table: the table's)")
	flags.Int16Var(&f.replication, "replication-factor", -1, "copies of each partition (default: the broker's setting)")
	flags.StringToStringVar(&f.config, "topic-config", nil, "settings of the topic, name=value")
	flags.BoolVar(&f.ifNotExists, "if-not-exists", false, "a topic that exists with at least these partitions is fine")
	f.kafka.register(flags)
	f.table.register(flags, &f.kafka)
	f.output.register(flags)
	f.logs.register(flags, "warn")
	return cmd
}

// fromTable takes from the table what flags do not say.
func (f *topicCreateFlags) fromTable(ctx context.Context) error {
	if !f.table.given() {
		switch {
		case f.topic == "":
			return usagef("--topic: missing")
		case f.partitions <= 0:
			return usagef("--partitions: %d, want at least 1, or --table FILE", f.partitions)
		}
		return nil
	}
	table, err := f.table.read(ctx)
	if err != nil {
		return err
	}
	topic, err := pickTopic(table, f.topic)
	if err != nil {
		return err
	}
	if f.partitions != 0 && f.partitions < topic.Partitions() {
		return usagef("--partitions %d: the table names %d partitions of topic %q", f.partitions, topic.Partitions(), topic.Name())
	}
	f.topic, f.partitions = topic.Name(), max(f.partitions, topic.Partitions())
	return nil
}

func (e *env) createTopic(ctx context.Context, f *topicCreateFlags) error {
	if err := f.fromTable(ctx); err != nil {
		return err
	}
	client, err := f.kafka.connect(ctx, f.logs.logger(e))
	if err != nil {
		return err
	}
	defer client.Close()
	made := topicCreated{Topic: f.topic, Partitions: f.partitions, Created: true}
	err = f.create(ctx, client)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		made.Created = false
		made.Partitions, err = f.existing(ctx, client)
	}
	if err != nil {
		return err
	}
	if f.output.json() {
		return e.printJSON(made)
	}
	return e.printf("%s\n", made)
}

func (t topicCreated) String() string {
	if t.Created {
		return fmt.Sprintf("topic %q created with %d partitions", t.Topic, t.Partitions)
	}
	return fmt.Sprintf("topic %q exists with %d partitions", t.Topic, t.Partitions)
}

// create makes the topic and waits until the brokers answer for all of it.
func (f *topicCreateFlags) create(ctx context.Context, client *kgo.Client) error {
	configs := map[string]*string{}
	for name, value := range f.config {
		configs[name] = new(value)
	}
	answer, err := kadm.NewClient(client).CreateTopic(ctx, f.partitions, f.replication, configs, f.topic)
	if err != nil {
		if answer.ErrMessage != "" && !strings.Contains(err.Error(), answer.ErrMessage) {
			err = fmt.Errorf("%w (%s)", err, answer.ErrMessage)
		}
		return kafkaError(fmt.Sprintf("creating topic %q", f.topic), err)
	}
	if err := awaitPartitions(ctx, client, f.topic, f.partitions); err != nil {
		return kafkaError(fmt.Sprintf("topic %q was created but brokers do not show it", f.topic), err)
	}
	return nil
}

// awaitPartitions waits until brokers answer for that many partitions of a
// topic.
func awaitPartitions(ctx context.Context, client *kgo.Client, topic string, partitions int32) error {
	ctx, cancel := context.WithTimeout(ctx, topicSettle)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		count, err := topicPartitions(ctx, client, topic)
		if err == nil && count >= partitions {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// existing answers for a topic that is already there.
func (f *topicCreateFlags) existing(ctx context.Context, client *kgo.Client) (int32, error) {
	count, err := topicPartitions(ctx, client, f.topic)
	switch {
	case err != nil:
		return 0, err
	case !f.ifNotExists:
		return 0, &exitError{exitKafka, fmt.Errorf("topic %q already exists with %d partitions; with --if-not-exists that is fine", f.topic, count)}
	case count < f.partitions:
		return 0, &exitError{exitKafka, fmt.Errorf("topic %q already exists with %d partitions, fewer than %d", f.topic, count, f.partitions)}
	}
	return count, nil
}
