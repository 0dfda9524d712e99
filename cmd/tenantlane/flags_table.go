package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// tableFlags is where a command's routing table lives: --table FILE, or
// --table-topic NAME.
type tableFlags struct {
	file  string
	topic string
	kafka *kafkaFlags // reaches the topic
}

func (t *tableFlags) register(flags *pflag.FlagSet, kafka *kafkaFlags) {
	flags.StringVar(&t.file, "table", "", "routing table, a YAML file")
	t.registerTopic(flags, kafka)
}

// registerTopic is register for a command that takes no table in a file.
func (t *tableFlags) registerTopic(flags *pflag.FlagSet, kafka *kafkaFlags) {
	t.kafka = kafka
	flags.StringVar(&t.topic, "table-topic", "", "routing table, a compacted Kafka topic, like "+store.DefaultPrefix+routingSuffix)
}

// routingSuffix ends the name of the topic that holds a table; the topics
// beside it have the same prefix.
const routingSuffix = "routing"

// given reports whether a table is named at all.
func (t *tableFlags) given() bool { return t.file != "" || t.topic != "" }

// name says where the table is.
func (t *tableFlags) name() string {
	if t.topic != "" {
		return "topic " + t.topic
	}
	return t.file
}

// flags is how a person names the table on another command line.
func (t *tableFlags) flags() string {
	if t.topic != "" {
		return "--table-topic " + t.topic
	}
	return "--table " + t.file
}

// opening says what else may be opened than a table that is there.
type opening struct {
	anew   bool // a file may change what is fixed once a topic has records
	empty  bool // a topic that holds no table is an empty one
	create bool // missing topics of the table are made
}

// open opens the table, which the caller closes.
func (t *tableFlags) open(ctx context.Context, log *zap.Logger, how opening) (tableStore, error) {
	switch {
	case t.file != "" && t.topic != "":
		return nil, usagef("a table is in a file or in a topic: give --table or --table-topic, not both")
	case t.topic != "":
		return t.openTopic(ctx, log, how)
	case t.file != "":
		return t.openFile(ctx, log, how)
	}
	return nil, usagef("no routing table: give --table FILE or --table-topic NAME")
}

func (t *tableFlags) openFile(ctx context.Context, log *zap.Logger, how opening) (tableStore, error) {
	cfg := store.FileConfig{Logger: log.Named("table")}
	if how.anew {
		cfg.HasData = func(string) bool { return false }
	}
	file, err := store.OpenFile(ctx, t.file, cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("%w; make one with `tenantlane table init` or `tenantlane plan whales --write`", err)
	}
	if err != nil {
		return nil, err
	}
	return fileStore{file}, nil
}

// openTopic opens the table of --table-topic, which the caller closes.
func (t *tableFlags) openTopic(ctx context.Context, log *zap.Logger, how opening) (none topicStore, err error) {
	if t.topic == "" {
		return none, usagef("no routing table: give --table-topic NAME")
	}
	prefix, ok := strings.CutSuffix(t.topic, routingSuffix)
	if !ok || prefix == "" {
		return none, usagef("--table-topic %q: must end in %q, like %s", t.topic, routingSuffix, store.DefaultPrefix+routingSuffix)
	}
	// Whether the cluster answers at all is asked first: loading waits longer.
	client, err := t.kafka.connect(ctx, log)
	if err != nil {
		return none, err
	}
	client.Close()
	opts, err := t.kafka.opts()
	if err != nil {
		return none, err
	}
	topic, err := store.OpenTopic(ctx, store.TopicConfig{
		KafkaOpts: opts, Prefix: prefix, Create: how.create, Empty: how.empty, Logger: log.Named("table"),
	})
	if errors.Is(err, routing.ErrNoTable) {
		return none, &exitError{exitKafka, fmt.Errorf("%w; make one with `tenantlane table init --table-topic %s` or `tenantlane table push`", err, t.topic)}
	}
	if errors.Is(err, store.ErrTopicMissing) {
		return none, &exitError{exitKafka, fmt.Errorf("%w; `tenantlane table init --table-topic %s` does that, and so does `tenantlane table push --create`", err, t.topic)}
	}
	if err != nil {
		return none, kafkaError("routing table", err)
	}
	return topicStore{topic}, nil
}

// outliving is a context to open a table with that outlives ctx once it is open:
// how a change ended that ctx's end interrupts is read from it. Until opened is
// called the end of ctx ends it; end is called when the table is closed.
func outliving(ctx context.Context) (life context.Context, opened, end func()) {
	life, end = context.WithCancel(context.WithoutCancel(ctx))
	bound := context.AfterFunc(ctx, end)
	return life, func() { bound() }, end
}

// read gives the table as it is now.
func (t *tableFlags) read(ctx context.Context) (*routing.Table, error) {
	tables, err := t.open(ctx, zap.NewNop(), opening{})
	if err != nil {
		return nil, err
	}
	table := tables.Table()
	return table, tables.Close()
}

// pickTopic finds a topic of the table; without a name the only one.
func pickTopic(table *routing.Table, name string) (*routing.Topic, error) {
	names := table.TopicNames()
	if name == "" {
		if len(names) != 1 {
			return nil, usagef("the table has %d topics, name one with --topic: %s", len(names), strings.Join(names, ", "))
		}
		name = names[0]
	}
	topic, ok := table.Topic(name)
	if !ok {
		return nil, usagef("topic %q is not in the table, which has: %s", name, strings.Join(names, ", "))
	}
	return topic, nil
}

// hashFlag is --hash.
type hashFlag struct{ value routing.Hash }

func (h *hashFlag) register(flags *pflag.FlagSet) {
	flags.Var(h, "hash", "hash of keys: "+strings.Join(routing.HashNames(), ", "))
}

func (h *hashFlag) String() string { return h.value.String() }
func (h *hashFlag) Type() string   { return "name" }

func (h *hashFlag) Set(given string) (err error) {
	h.value, err = routing.ParseHash(given)
	return err
}

// tenantRuleFlag is --tenant-of.
type tenantRuleFlag struct{ value routing.TenantRule }

func (r *tenantRuleFlag) register(flags *pflag.FlagSet) {
	flags.Var(r, "tenant-of", "where a record's tenant is: key, header:NAME or prefix:SEP")
}

func (r *tenantRuleFlag) String() string { return r.value.String() }
func (r *tenantRuleFlag) Type() string   { return "rule" }

func (r *tenantRuleFlag) Set(given string) (err error) {
	r.value, err = routing.ParseTenantRule(given)
	return err
}
