package sample

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// visibleLooks is how many fetches FirstVisible makes at most: aborted
// records can fill any distance.
const visibleLooks = 8

// Visible is what a read_committed consumer at some offset would be given.
type Visible struct {
	// Offset is the first visible record's; without one it is the last stable
	// offset, or how far the look came.
	Offset int64
	// Found is true when there is such a record, whose timestamp is Time.
	Found bool
	Time  time.Time
	// Stable is the last stable offset.
	Stable int64
}

// FirstVisible looks with isolation read_committed from offset from on. A
// group that has caught up with a transactional topic commits below markers
// that it is never given; only this tells it from a group that is stuck.
func (r *Reader) FirstVisible(ctx context.Context, topic string, partition int32, from int64) (Visible, error) {
	v := Visible{Offset: from}
	for range visibleLooks {
		got, err := r.fetch(ctx, fetchAt{topic, partition, v.Offset, r.cfg.MaxBytes, kgo.ReadCommitted()})
		if err != nil {
			return v, fmt.Errorf("topic %q partition %d: %w", topic, partition, err)
		}
		v.Stable = got.stable
		if len(got.records) > 0 {
			v.Offset, v.Found, v.Time = got.records[0].Offset, true, got.records[0].Timestamp
			return v, nil
		}
		if got.next <= v.Offset || got.next >= got.stable {
			v.Offset = max(got.next, v.Offset)
			break
		}
		v.Offset = got.next
	}
	return v, nil
}
