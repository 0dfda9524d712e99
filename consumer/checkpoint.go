package consumer

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// laneKeyVersion is the version of what the runtime itself does to form a lane
// key (classify.go). Change it with that.
const laneKeyVersion = 1

// fingerprint is of all of a configuration that forms lane keys, or 0 when part
// of it is not declared.
func (c *Config) fingerprint() uint64 {
	if c.Order == OrderKeys && c.OrderKeyVersion == "" || c.MetadataChars < 0 {
		return 0
	}
	return nonZero(xxhash.Sum64(fields(
		[]byte{laneKeyVersion, byte(c.Order), byte(c.NoTenant)}, []byte(c.OrderKeyVersion),
	)))
}

// fingerprintOf adds where a topic's records have their tenant.
func fingerprintOf(config uint64, rule routing.TenantRule) uint64 {
	if config == 0 {
		return 0
	}
	return nonZero(xxhash.Sum64(fields(binary.BigEndian.AppendUint64(nil, config), []byte{byte(rule.From)}, []byte(rule.Arg))))
}

// fields joins byte strings so that no two lists give the same.
func fields(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

func nonZero(x uint64) uint64 { return max(x, 1) }

// cursor is where the client begins to fetch: at the frontier, or at the first
// record.
func (at *begin) cursor() int64 {
	if at.checkpoint != nil {
		return max(at.checkpoint.Frontier, at.start)
	}
	return at.offset
}

const (
	// epochTries is how often the ends of leader epochs are asked for, and
	// epochPause the wait between: a leader that has just changed answers a
	// moment later, and without its answer more repeats.
	epochTries = 8
	epochPause = 150 * time.Millisecond
)

// checkpoints opens the metadata of commits. What cannot be trusted is ignored
// for its reason: the committed offset alone counts then. An error is ctx's,
// whose end must not pass for an answer: a rebalance ends it at any time, and
// the client asks again then.
func (b *beginnings) checkpoints(ctx context.Context, resolved map[topicPartition]begin, fetched map[string]map[int32]kgo.Offset, metadata map[topicPartition]string, starts kadm.ListedOffsets) error {
	open := make(map[topicPartition]offset.Checkpoint)
	for tp, at := range resolved {
		if at.fresh {
			continue
		}
		committed := fetched[tp.topic][tp.id].EpochOffset().Offset
		c, why := offset.Open(checkpointText(metadata[tp]), at.identity, committed)
		if why == offset.Valid && listed(starts, tp.topic, tp.id) == unknownOffset {
			why = offset.NoEpoch // the log cannot be looked at
		}
		if why != offset.Valid {
			b.ignored(tp, why)
			continue
		}
		open[tp] = c
	}
	ends := b.epochEnds(ctx, open)
	if ctx.Err() != nil {
		return fmt.Errorf("asking for the ends of leader epochs: %w", ctx.Err())
	}
	for tp, c := range open {
		end, ok := ends[tp]
		switch {
		case !ok:
			b.ignored(tp, offset.NoEpoch)
		case c.Cut(end):
			b.ignored(tp, offset.Truncated)
		default:
			at := resolved[tp]
			// What was lost to retention is counted when its lane is found.
			at.checkpoint, at.start, at.epoch, at.lost = &c, listed(starts, tp.topic, tp.id), -1, 0
			resolved[tp] = at
		}
	}
	return nil
}

// epochEnds asks where the leader epochs of checkpoints end, again for those
// that have no answer.
func (b *beginnings) epochEnds(ctx context.Context, open map[topicPartition]offset.Checkpoint) map[topicPartition]int64 {
	known := make(map[topicPartition]int64, len(open))
	for try := 1; len(known) < len(open); try++ {
		var ask kadm.OffsetForLeaderEpochRequest
		for tp, c := range open {
			if _, ok := known[tp]; !ok {
				ask.Add(tp.topic, tp.id, c.LeaderEpoch)
			}
		}
		// An error is in no answer: then each partition's is missing.
		ends, _ := b.admin.OffsetForLeaderEpoch(ctx, ask)
		for topic, partitions := range ends {
			for id, end := range partitions {
				if end.Err == nil {
					known[topicPartition{topic, id}] = end.EndOffset
				}
			}
		}
		if try == epochTries || ctx.Err() != nil {
			break
		}
		if len(known) < len(open) {
			pause(ctx, epochPause)
		}
	}
	return known
}

// checkpointText is the part of a commit's metadata that names lanes: the first
// one that is not something else.
func checkpointText(metadata string) string {
	for part := range strings.FieldsSeq(metadata) {
		if !strings.HasPrefix(part, instantPrefix) {
			return part
		}
	}
	return ""
}
