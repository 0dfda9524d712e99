package live

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Record is a live record that a change of the table would re-route.
type Record struct {
	Tenant    []byte
	Partition int32
	Offset    int64
	// Group has not committed it, standing at Committed; empty from After, and
	// where no group reads the topic.
	Group     string
	Committed int64
}

// Result is what Rerouted found.
type Result struct {
	// Record is the first live record that the change re-routes, in the order
	// of partitions; nil when there is none.
	Record *Record
	// Ends are the end offsets up to which was looked, of the partitions that
	// re-routed tenants leave.
	Ends map[int32]int64
}

// Rerouted looks for a live record whose tenant a change from before to after
// sends elsewhere. Both are views of one topic with one hash, slots and
// tenant_of. The client is borrowed.
func Rerouted(ctx context.Context, client *kgo.Client, before, after *routing.Topic) (Result, error) {
	look, err := newLook(client, before, after)
	if err != nil {
		return Result{}, err
	}
	spans, err := look.spans(ctx)
	if err != nil {
		return Result{}, err
	}
	groups, err := Groups(ctx, client, before.Name())
	if err != nil {
		return Result{}, err
	}
	result := Result{Ends: map[int32]int64{}}
	for _, s := range spans {
		result.Ends[s.Partition] = s.To
		if result.Record != nil {
			continue
		}
		from, group := lowest(groups, s.Partition, s.From)
		s.From = from
		if result.Record, err = look.first(ctx, s); err != nil {
			return Result{}, err
		}
		if result.Record != nil {
			result.Record.Group, result.Record.Committed = group, from
		}
	}
	return result, nil
}

// After looks for a record of a re-routed tenant that came to its old place
// since Rerouted looked: from ends to now. It is nil when there is none.
func After(ctx context.Context, client *kgo.Client, before, after *routing.Topic, ends map[int32]int64) (*Record, error) {
	look, err := newLook(client, before, after)
	if err != nil {
		return nil, err
	}
	spans, err := look.spans(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range spans {
		s.From = max(s.From, ends[s.Partition])
		if found, err := look.first(ctx, s); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// look is one search for records that a change re-routes.
type look struct {
	reader        *sample.Reader
	before, after *routing.Topic
}

func newLook(client *kgo.Client, before, after *routing.Topic) (*look, error) {
	reader, err := sample.NewReader(client, sample.Config{MaxBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	return &look{reader, before, after}, nil
}

// spans are the partitions that re-routed tenants leave, each as a whole.
func (l *look) spans(ctx context.Context) ([]sample.Span, error) {
	all, err := l.reader.Tail(ctx, l.before.Name(), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	left := l.left()
	for _, p := range left {
		if int(p) >= len(all) {
			return nil, fmt.Errorf("topic %q has %d partitions, fewer than the table names", l.before.Name(), len(all))
		}
	}
	return slices.DeleteFunc(all, func(s sample.Span) bool { return !slices.Contains(left, s.Partition) }), nil
}

// left are the partitions that lose a slot, or a tenant by its own entry.
func (l *look) left() []int32 {
	left := map[int32]bool{}
	for slot := range l.before.Slots() {
		if p := l.before.SlotPartition(slot); p != l.after.SlotPartition(slot) {
			left[p] = true
		}
	}
	for _, tenant := range slices.Concat(l.before.PlacedTenants(), l.after.PlacedTenants()) {
		if l.moves([]byte(tenant)) {
			for _, p := range l.before.Lookup([]byte(tenant), nil).Partitions {
				left[p] = true
			}
		}
	}
	var sorted []int32
	for p := range l.before.Partitions() {
		if left[p] {
			sorted = append(sorted, p)
		}
	}
	return sorted
}

// moves tells whether a tenant's place differs: the topic, the partitions, or
// the lane (the key's, when it is spread by key).
func (l *look) moves(tenant []byte) bool {
	a, b := l.before.Lookup(tenant, nil), l.after.Lookup(tenant, nil)
	return a.Topic != b.Topic || spread(a) != spread(b) || !slices.Equal(a.Partitions, b.Partitions)
}

// spread is how a route divides a tenant.
func spread(r routing.Route) routing.Kind {
	if r.Kind == routing.KindTenant {
		return routing.KindSlot // whole, by whichever rule
	}
	return r.Kind
}

// first is the first record of a span whose tenant moves.
func (l *look) first(ctx context.Context, s sample.Span) (found *Record, err error) {
	err = l.reader.Range(ctx, l.before.Name(), s, func(r *kgo.Record) bool {
		tenant, ok := partitioner.TenantOf(l.before.TenantRule(), r)
		if ok && !isControl(r) && l.moves(tenant) {
			found = &Record{Tenant: slices.Clone(tenant), Partition: r.Partition, Offset: r.Offset}
		}
		return found == nil
	})
	return found, err
}

// isControl tells a record of TenantLane's own, whose key is no tenant.
func isControl(r *kgo.Record) bool {
	return slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == routing.HeaderControl })
}
