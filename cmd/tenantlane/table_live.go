package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/live"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

// liveLook looks for live records that a change re-routes, before and after it.
type liveLook struct {
	client *kgo.Client // nil without brokers
	unsafe bool
	table  string // how a person names the table on a command line
	looked []looked
}

// looked is what was seen of one topic.
type looked struct {
	before, after *routing.Topic
	ends          map[int32]int64
}

func (c *changeFlags) newLook(ctx context.Context) (*liveLook, error) {
	if c.unsafe || !c.kafka.given() {
		return &liveLook{unsafe: c.unsafe}, nil
	}
	client, err := c.kafka.connect(ctx, zap.NewNop())
	if err != nil {
		return nil, err
	}
	return &liveLook{client: client, table: c.table.flags()}, nil
}

func (l *liveLook) close() {
	if l.client != nil {
		l.client.Close()
	}
}

// needed tells whether records could have come to an old place meanwhile.
func (l *liveLook) needed() bool { return len(l.looked) > 0 }

// refuseLive is the answer "no" when a live tenant would be re-routed. It may
// be called again for a newer table.
func (l *liveLook) refuseLive(ctx context.Context, before, after *routing.Table) error {
	l.looked = nil
	if l.unsafe {
		return nil
	}
	before, added, err := withAdded(before, after)
	if err != nil {
		return err
	}
	for _, d := range routing.Diff(before, after) {
		if d.Removed || d.Rehashed { // what the store itself judges
			continue
		}
		if l.client == nil {
			return usagef("this re-routes tenants of topic %q, and without brokers nobody can tell whether they have records under way: give --brokers, or --unsafe", d.Topic)
		}
		from, _ := before.Topic(d.Topic)
		to, _ := after.Topic(d.Topic)
		if err := l.topic(ctx, from, to, slices.Contains(added, d.Topic)); err != nil {
			return err
		}
	}
	return nil
}

// withAdded is a table with the topics that only the newer one has as well, and
// nothing placed in them: a topic that is adopted lies where its hash alone
// sends tenants, so that each placement re-routes one.
func withAdded(before, after *routing.Table) (*routing.Table, []string, error) {
	var added []string
	spec, wanted := before.Spec(), after.Spec()
	for _, name := range after.TopicNames() {
		if _, has := before.Topic(name); has {
			continue
		}
		topic := wanted.Topics[name]
		topic.Placements, topic.SlotOverrides, topic.Moves = nil, nil, nil
		if spec.Topics == nil {
			spec.Topics = map[string]routing.TopicSpec{}
		}
		spec.Topics[name] = topic
		added = append(added, name)
	}
	if len(added) == 0 {
		return before, nil, nil
	}
	table, err := routing.NewTable(spec)
	return table, added, err
}

// topic looks at one topic. One that does not exist has no records.
func (l *liveLook) topic(ctx context.Context, before, after *routing.Topic, added bool) error {
	got, err := live.Rerouted(ctx, l.client, before, after)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil
	}
	if err != nil {
		return kafkaError("looking for live records", err)
	}
	l.looked = append(l.looked, looked{before, after, got.Ends})
	if got.Record == nil {
		return nil
	}
	r := got.Record
	advice := fmt.Sprintf("move it with `%s`, or give --unsafe to break its order", moveCommand(after, r.Tenant)+" "+l.table)
	if added {
		advice = "first push the topic as `tenantlane table init` makes it, then " + advice
	}
	return answerNo("%w", &liveError{
		what: fmt.Sprintf("tenant %q is live: %s its record at offset %d of partition %d of topic %q",
			picture.Tenant(string(r.Tenant)), waitsFor(r), r.Offset, r.Partition, before.Name()),
		advice: advice,
	})
}

// liveError is why a tenant may not be re-routed, and what to do.
type liveError struct{ what, advice string }

func (e *liveError) Error() string { return e.what + "; " + e.advice }

// waitsFor says who has not committed a record.
func waitsFor(r *live.Record) string {
	if r.Group == "" {
		return "no group has read"
	}
	return fmt.Sprintf("group %q, which stands at offset %d, has not committed", r.Group, r.Committed)
}

// again names a record that came to an old place since the first look.
func (l *liveLook) again(ctx context.Context) error {
	for _, at := range l.looked {
		found, err := live.After(ctx, l.client, at.before, at.after, at.ends)
		if err != nil {
			return kafkaError("looking for records behind the change", err)
		}
		if found != nil {
			return answerNo("the table is changed, but a producer still sent tenant %q to partition %d of topic %q, offset %d: its order may break there",
				picture.Tenant(string(found.Tenant)), found.Partition, at.before.Name(), found.Offset)
		}
	}
	return nil
}

// moveCommand is what moves a tenant to where a table has it.
func moveCommand(to *routing.Topic, tenant []byte) string {
	name := string(tenant)
	route := to.Lookup(tenant, nil)
	ps := make([]string, len(route.Partitions))
	for i, p := range route.Partitions {
		ps[i] = fmt.Sprint(p)
	}
	if shown := picture.Tenant(name); shown != name {
		name = "--hex " + hex.EncodeToString(tenant)
	}
	command := fmt.Sprintf("tenantlane move start %s --topic %s --to %s", name, to.Name(), strings.Join(ps, ","))
	if place, ok := to.Placement(string(tenant)); ok && place.Spread != routing.SpreadNone {
		command += fmt.Sprintf(" --spread %v", place.Spread)
	}
	return command
}
