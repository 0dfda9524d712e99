package sample

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/marks"
)

// Marked is a topic in which records lie that are dealt with one by one, beside
// marks that say which are, as it was when it was opened.
type Marked struct {
	Topic  string
	Reader *Reader
	Spans  []Span // all that each partition holds
}

// markedBytes is how much one fetch asks for.
const markedBytes = 4 << 20

// OpenMarked looks up what a topic holds.
func OpenMarked(ctx context.Context, client *kgo.Client, topic string) (*Marked, error) {
	reader, err := NewReader(client, Config{MaxBytes: markedBytes})
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	spans, err := reader.Tail(ctx, topic, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	return &Marked{Topic: topic, Reader: reader, Spans: spans}, nil
}

// Marks reads which records of a partition are dealt with. markOf gives the
// offsets of a record that is a mark.
func (m *Marked) Marks(ctx context.Context, of Span, markOf func(*kgo.Record) (offsets string, ok bool)) (*marks.Set, error) {
	var dealt marks.Set
	var failed error
	err := m.Reader.Range(ctx, m.Topic, of, func(r *kgo.Record) bool {
		offsets, is := markOf(r)
		if !is {
			return true
		}
		if err := dealt.Add(offsets); err != nil {
			failed = fmt.Errorf("topic %s partition %d offset %d: a mark that cannot be read: %w", m.Topic, r.Partition, r.Offset, err)
		}
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	return &dealt, err
}
