package dlq

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/marks"
)

// HeaderReplayed makes a record a mark. Its value are the offsets of the letters
// in the record's own partition that were replayed, ascending, as text such as
// "7,9-12".
const HeaderReplayed = "tl-dlq-replayed"

// markOf reads a record's mark. False: it is none.
func markOf(r *kgo.Record) (offsets string, ok bool) {
	for _, h := range r.Headers {
		if h.Key == HeaderReplayed && r.Key == nil && r.Value == nil {
			return string(h.Value), true
		}
	}
	return "", false
}

// mark makes the record that says that letters of a partition were replayed.
// Their offsets ascend.
func mark(topic string, partition int32, offsets []int64) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: partition,
		Headers: []kgo.RecordHeader{{Key: HeaderReplayed, Value: []byte(marks.Format(offsets))}},
	}
}
