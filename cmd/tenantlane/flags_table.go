package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// tableFlags is where a command's routing table lives: --table FILE.
type tableFlags struct{ file string }

func (t *tableFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&t.file, "table", "", "routing table, a YAML file")
}

// given reports whether a table is named at all.
func (t *tableFlags) given() bool { return t.file != "" }

// open opens the table, which the caller closes. anew allows it to change what
// is fixed once a topic has records.
func (t *tableFlags) open(ctx context.Context, log *zap.Logger, anew bool) (*store.File, error) {
	if !t.given() {
		return nil, usagef("no routing table: give --table FILE")
	}
	cfg := store.FileConfig{Logger: log.Named("table")}
	if anew {
		cfg.HasData = func(string) bool { return false }
	}
	file, err := store.OpenFile(ctx, t.file, cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("%w; make one with `tenantlane table init` or `tenantlane plan whales --write`", err)
	}
	return file, err
}

// read gives the table as it is now.
func (t *tableFlags) read(ctx context.Context) (*routing.Table, error) {
	file, err := t.open(ctx, zap.NewNop(), false)
	if err != nil {
		return nil, err
	}
	table := file.Table()
	return table, file.Close()
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
