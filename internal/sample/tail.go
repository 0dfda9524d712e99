package sample

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/sketch"
)

// Span is a stretch of a partition, [From, To).
type Span struct {
	Partition int32
	From, To  int64
}

// Tail lists the last records of each partition of a topic: at most n offsets
// each, those that retention has left, as of now. A partition that does not
// answer is an error that names it.
func (r *Reader) Tail(ctx context.Context, topic string, n int64) ([]Span, error) {
	admin := kadm.NewClient(r.client)
	starts, err := offsets(admin.ListStartOffsets(ctx, topic))
	if err != nil {
		return nil, fmt.Errorf("topic %q: start offsets: %w", topic, err)
	}
	ends, err := offsets(admin.ListEndOffsets(ctx, topic))
	if err != nil {
		return nil, fmt.Errorf("topic %q: end offsets: %w", topic, err)
	}
	var tail []Span
	for partition := range int32(len(ends)) {
		end, ok := ends[partition]
		start, known := starts[partition]
		if !ok || !known {
			return nil, fmt.Errorf("topic %q partition %d: no offsets listed", topic, partition)
		}
		tail = append(tail, Span{partition, max(start, end-n), end})
	}
	return tail, nil
}

// offsets takes one topic's offsets out of a listing.
func offsets(listed kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	if len(out) == 0 {
		return nil, kerr.UnknownTopicOrPartition
	}
	return out, nil
}

// Range visits every record of a span, in the order of offsets, until visit
// says that it needs no more. What retention deletes meanwhile is left out.
func (r *Reader) Range(ctx context.Context, topic string, s Span, visit func(*kgo.Record) (more bool)) error {
	for at := s.From; at < s.To; {
		got, err := r.fetch(ctx, fetchAt{topic, s.Partition, at, r.cfg.MaxBytes, kgo.ReadUncommitted()})
		if errors.Is(err, kerr.OffsetOutOfRange) {
			at, err = r.startAfter(ctx, topic, s.Partition, at)
			if err == nil {
				continue
			}
		}
		if err == nil && got.next <= at {
			err = fmt.Errorf("the broker returns nothing at offset %d, below the end %d", at, s.To)
		}
		if err != nil {
			return fmt.Errorf("topic %q partition %d: %w", topic, s.Partition, err)
		}
		for _, rec := range got.records {
			if rec.Offset < s.To && !visit(rec) {
				return nil
			}
		}
		at = got.next
	}
	return nil
}

// startAfter is where a partition begins now that an offset is gone.
func (r *Reader) startAfter(ctx context.Context, topic string, partition int32, gone int64) (int64, error) {
	starts, err := offsets(kadm.NewClient(r.client).ListStartOffsets(ctx, topic))
	if err != nil {
		return 0, err
	}
	if starts[partition] <= gone {
		return 0, fmt.Errorf("offset %d is out of range: %w", gone, kerr.OffsetOutOfRange)
	}
	return starts[partition], nil
}

// Measure follows a topic for a time and counts who sent how much: key takes
// what is counted out of a record (false: it is not counted). The counts are
// estimates of records that arrived, in a sketch of k counters; it returns
// early, with what it has, when ctx ends.
func (r *Reader) Measure(ctx context.Context, topic string, during time.Duration, k int, key func(*kgo.Record) ([]byte, bool)) (*sketch.Sketch, error) {
	counts := sketch.New(k)
	limited, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	count := func(rec *kgo.Record, weight float64) {
		if name, ok := key(rec); ok {
			counts.Add(name, uint64(weight+0.5))
		}
	}
	look, err := r.Following(ctx, topic)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(min(time.Second, during))
	defer tick.Stop()
	for limited.Err() == nil {
		select {
		case <-limited.Done():
		case <-tick.C:
		}
		// The last look is made after the time is up, unless the caller gave up.
		look(ctx, count)
	}
	return counts, nil
}
