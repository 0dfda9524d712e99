package stale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// scanMargin is how long before a fence's timestamp the scan of the new homes
// begins: timestamps are of their producers' clocks.
const scanMargin = time.Hour

// identity is what a record keeps when it is sent again.
type identity struct {
	session [16]byte
	seq     uint64
	origin  string // of a record without a session: where it lay
}

func (l *Letter) identity() identity {
	if l.Stamped {
		return identity{session: l.Route.Session, seq: l.Route.Seq}
	}
	return identity{origin: l.Origin.String()}
}

// identitiesOf are those of a record in a home.
func identitiesOf(r *kgo.Record, visit func(identity)) {
	for _, h := range r.Headers {
		switch h.Key {
		case routing.HeaderRoute:
			if route, err := routing.ParseRouteHeader(h.Value); err == nil {
				visit(identity{session: route.Session, seq: route.Seq})
			}
		case HeaderOrigin:
			visit(identity{origin: string(h.Value)})
		}
	}
}

// home is a partition that a tenant has had since its fence.
type home struct {
	topic     string
	partition int32
}

// homesOf are the partitions where a letter's record may have been sent again:
// its tenant's present ones, and those of the moves since.
func homesOf(table *routing.Table, l *Letter, tenant []byte) []home {
	topic, ok := table.Topic(l.Origin.Topic)
	if !ok {
		return nil
	}
	route := topic.Lookup(tenant, l.OriginKey)
	slot, name, partitions := route.Slot, l.Origin.Topic, route.Partitions
	if route.Topic != "" {
		name = route.Topic
		if other, ok := table.Topic(route.Topic); ok {
			partitions = other.Lookup(tenant, l.OriginKey).Partitions
		}
	}
	var homes []home
	for _, p := range partitions {
		homes = append(homes, home{name, p})
	}
	for _, m := range topic.AppendMoves(nil, tenant, slot) {
		if m.Open() || m.Epoch < l.Epoch {
			continue
		}
		for _, p := range m.To {
			homes = append(homes, home{l.Origin.Topic, p})
		}
	}
	return homes
}

// scanner looks records up in their tenants' homes.
type scanner struct {
	reader  *sample.Reader
	admin   *kadm.Client
	table   *routing.Table
	fences  map[consumer.Place]time.Time // when they were written; zero: not known
	scanned int64                        // records read so far
}

// present finds out which of some letters' records lie in one of their homes.
func (s *scanner) present(ctx context.Context, letters []found) (map[identity]bool, error) {
	there := make(map[identity]bool, len(letters)) // false: wanted
	since := map[home]time.Time{}
	for i := range letters {
		l := &letters[i]
		there[l.identity()] = false
		at, err := s.fenced(ctx, l)
		if err != nil {
			return nil, err
		}
		for _, h := range homesOf(s.table, &l.Letter, l.tenant) {
			if earliest, ok := since[h]; !ok || at.Before(earliest) {
				since[h] = at
			}
		}
	}
	for h, at := range since {
		if err := s.scan(ctx, h, at, there); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// fenced is when the fence was written that a letter lies behind, or zero.
func (s *scanner) fenced(ctx context.Context, l *found) (at time.Time, err error) {
	place := consumer.Place{Topic: l.Origin.Topic, Partition: l.Origin.Partition, Offset: l.Fence}
	if known, ok := s.fences[place]; ok {
		return known, nil
	}
	err = s.reader.Range(ctx, place.Topic, sample.Span{Partition: place.Partition, From: place.Offset, To: place.Offset + 1}, func(r *kgo.Record) bool {
		if r.Offset == place.Offset {
			at = r.Timestamp
		}
		return false
	})
	if err != nil {
		return at, fmt.Errorf("fence at %s: %w", place, err)
	}
	s.fences[place] = at
	return at, nil
}

// scan reads a home from some time before a fence on and notes what it finds.
func (s *scanner) scan(ctx context.Context, h home, fenced time.Time, there map[identity]bool) error {
	starts, err := s.admin.ListStartOffsets(ctx, h.topic)
	if err == nil && !fenced.IsZero() {
		starts, err = s.admin.ListOffsetsAfterMilli(ctx, fenced.Add(-scanMargin).UnixMilli(), h.topic)
	}
	if err != nil {
		return fmt.Errorf("topic %s: where to begin: %w", h.topic, err)
	}
	ends, err := s.admin.ListEndOffsets(ctx, h.topic)
	if err != nil {
		return fmt.Errorf("topic %s: end offsets: %w", h.topic, err)
	}
	from, known := starts.Lookup(h.topic, h.partition)
	to, also := ends.Lookup(h.topic, h.partition)
	if !known || !also || from.Err != nil || to.Err != nil {
		return fmt.Errorf("topic %s partition %d: its offsets are not known: %w", h.topic, h.partition, errors.Join(errNoOffsets, from.Err, to.Err))
	}
	return s.reader.Range(ctx, h.topic, sample.Span{Partition: h.partition, From: from.Offset, To: to.Offset}, func(r *kgo.Record) bool {
		s.scanned++
		identitiesOf(r, func(id identity) {
			if _, wanted := there[id]; wanted {
				there[id] = true
			}
		})
		return true
	})
}
