package sample

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Follow visits samples of what arrives in a topic until ctx ends, and returns
// nil then. Each period it looks at random places of each partition's growth;
// weight is how many arrived records a visited one stands for, so that the sum
// of weights is the number of arrivals of the partitions that had any visit.
// It begins with what arrives after the call. Partitions that cannot be listed
// in a period are caught up with in a later one; an error is returned only
// when the topic is unknown at the start.
func (r *Reader) Follow(ctx context.Context, topic string, every time.Duration, visit func(rec *kgo.Record, weight float64)) error {
	if every <= 0 {
		return fmt.Errorf("follow topic %q: period %v: must be above 0", topic, every)
	}
	look, err := r.Following(ctx, topic)
	if err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			look(ctx, visit)
		}
	}
}

// Following is Follow for callers with a clock of their own: each call of the
// returned function visits what arrived since the one before, the first since
// Following. The function is not safe for concurrent use.
func (r *Reader) Following(ctx context.Context, topic string) (look func(ctx context.Context, visit func(rec *kgo.Record, weight float64)), err error) {
	ends, err := r.ends(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("follow topic %q: %w", topic, err)
	}
	return func(ctx context.Context, visit func(*kgo.Record, float64)) {
		r.followOnce(ctx, topic, ends, visit)
	}, nil
}

// followOnce visits the growth since ends, which it moves on.
func (r *Reader) followOnce(ctx context.Context, topic string, ends map[int32]int64, visit func(*kgo.Record, float64)) {
	now, err := r.ends(ctx, topic)
	if err != nil {
		return // the next period sees the growth of this one
	}
	for partition, end := range now {
		from, known := ends[partition]
		if !known || end < from {
			ends[partition] = end
			continue
		}
		var records []*kgo.Record
		n, err := r.Random(ctx, topic, partition, from, end, func(rec *kgo.Record) { records = append(records, rec) })
		if err != nil {
			continue
		}
		ends[partition] = end
		for _, rec := range records {
			visit(rec, float64(end-from)/float64(n))
		}
	}
}

// ends lists the ends of the partitions that answered; an error when none did.
func (r *Reader) ends(ctx context.Context, topic string) (map[int32]int64, error) {
	listed, err := kadm.NewClient(r.client).ListEndOffsets(ctx, topic)
	out := make(map[int32]int64)
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			err = errors.Join(err, o.Err)
			return
		}
		out[o.Partition] = o.Offset
	})
	if len(out) == 0 && err == nil {
		err = errors.New("no partition answered")
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, err
}
