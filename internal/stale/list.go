package stale

import (
	"cmp"
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Row is what one producer's session has in quarantine of one tenant, from one
// partition behind one fence.
type Row struct {
	Tenant    []byte
	Session   string // hex; empty for records that came around partitioner.Producer
	Reason    string // one of consumer's Stale… words
	Topic     string // where they lay
	Partition int32
	Move      string // the move whose fence they lie behind
	Fence     int64
	// Count of records, and of those how many are Done: replayed, found to be in
	// the new home, or dropped.
	Count, Done int
	// Seqs and Offsets are the lowest and the highest of them, and Times when
	// workers met the first and the last.
	Seqs    [2]uint64
	Offsets [2]int64
	Times   [2]time.Time
}

type rowKey struct {
	tenant, session, reason, topic, move string
	partition                            int32
}

// List sums up the letters of a quarantine topic that a selection wants, by
// tenant, session, partition and move, in that order. It returns how many records
// in it are neither letters nor marks.
func List(ctx context.Context, client *kgo.Client, topic string, s Selection) (list []Row, foreign int, err error) {
	b, err := open(ctx, client, topic)
	if err != nil {
		return nil, 0, err
	}
	sums := map[rowKey]*Row{}
	for _, of := range b.Spans {
		n, err := b.letters(ctx, of, &s, func(f found) error {
			if !f.copied {
				addTo(sums, &f)
			}
			return nil
		})
		foreign += n
		if err != nil {
			return nil, foreign, err
		}
	}
	for _, row := range slices.SortedFunc(maps.Values(sums), func(a, b *Row) int {
		return cmp.Or(cmp.Compare(string(a.Tenant), string(b.Tenant)), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Reason, b.Reason))
	}) {
		list = append(list, *row)
	}
	return list, foreign, nil
}

func addTo(sums map[rowKey]*Row, f *found) {
	session := ""
	if f.Stamped {
		session = hex.EncodeToString(f.Route.Session[:])
	}
	key := rowKey{string(f.tenant), session, f.Reason, f.Origin.Topic, f.Move, f.Origin.Partition}
	row, ok := sums[key]
	if !ok {
		row = &Row{
			Tenant: slices.Clone(f.tenant), Session: session, Reason: f.Reason, Topic: f.Origin.Topic, Partition: f.Origin.Partition,
			Move: f.Move, Fence: f.Fence, Seqs: [2]uint64{f.Route.Seq, f.Route.Seq}, Offsets: [2]int64{f.Origin.Offset, f.Origin.Offset},
			Times: [2]time.Time{f.At, f.At},
		}
		sums[key] = row
	}
	row.Count++
	if f.done {
		row.Done++
	}
	row.Seqs = [2]uint64{min(row.Seqs[0], f.Route.Seq), max(row.Seqs[1], f.Route.Seq)}
	row.Offsets = [2]int64{min(row.Offsets[0], f.Origin.Offset), max(row.Offsets[1], f.Origin.Offset)}
	if f.At.Before(row.Times[0]) {
		row.Times[0] = f.At
	}
	if f.At.After(row.Times[1]) {
		row.Times[1] = f.At
	}
}
