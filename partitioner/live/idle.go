package live

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Idle lists the tenants with an entry of their own in the table that have had
// no record in the topic since a time, sorted. It reads what came to their
// partitions since then, and of each partition no more than until all of them
// were seen. Tenants that are placed on another topic are left out.
func Idle(ctx context.Context, client *kgo.Client, topic *routing.Topic, since time.Time) ([]string, error) {
	reader, err := sample.NewReader(client, sample.Config{MaxBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	spans, err := spansSince(ctx, client, topic.Name(), since)
	if err != nil {
		return nil, err
	}
	waiting := waitingOn(topic)
	seen := map[string]bool{}
	for partition, tenants := range waiting {
		s, ok := spans[partition]
		if !ok {
			return nil, fmt.Errorf("topic %q partition %d: %w", topic.Name(), partition, kerr.UnknownTopicOrPartition)
		}
		left := len(tenants)
		err := reader.Range(ctx, topic.Name(), s, func(r *kgo.Record) bool {
			tenant, ok := partitioner.TenantOf(topic.TenantRule(), r)
			if name := string(tenant); ok && !isControl(r) && tenants[name] {
				delete(tenants, name)
				seen[name] = true
				left--
			}
			return left > 0
		})
		if err != nil {
			return nil, err
		}
	}
	var idle []string
	for _, tenant := range topic.PlacedTenants() {
		if len(topic.Lookup([]byte(tenant), nil).Partitions) > 0 && !seen[tenant] {
			idle = append(idle, tenant)
		}
	}
	return idle, nil
}

// waitingOn are the placed tenants by the partitions that their records go to.
func waitingOn(topic *routing.Topic) map[int32]map[string]bool {
	waiting := map[int32]map[string]bool{}
	for _, tenant := range topic.PlacedTenants() {
		for _, p := range topic.Lookup([]byte(tenant), nil).Partitions {
			if waiting[p] == nil {
				waiting[p] = map[string]bool{}
			}
			waiting[p][tenant] = true
		}
	}
	return waiting
}

// spansSince is what came to each partition since a time.
func spansSince(ctx context.Context, client *kgo.Client, topic string, since time.Time) (map[int32]sample.Span, error) {
	admin := kadm.NewClient(client)
	first, err := admin.ListOffsetsAfterMilli(ctx, since.UnixMilli(), topic)
	if err == nil {
		err = first.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("topic %q: offsets since %v: %w", topic, since, err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("topic %q: end offsets: %w", topic, err)
	}
	spans := map[int32]sample.Span{}
	for _, o := range ends[topic] {
		spans[o.Partition] = sample.Span{Partition: o.Partition, From: first[topic][o.Partition].Offset, To: o.Offset}
	}
	return spans, nil
}
