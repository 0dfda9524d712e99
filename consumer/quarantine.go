package consumer

import (
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// QuarantineSuffix is what a topic's name gets to name the topic that takes its
// stale records.
const QuarantineSuffix = ".tl-quarantine"

// Headers of a record in quarantine, after those of the record itself. Its value
// is the record's own, and its key says where it lay, as topic/partition/offset:
// every group that meets the record writes the same key.
const (
	HeaderStaleReason = "tl-stale-reason" // why it is here, one of the Stale… words
	HeaderStaleKey    = "tl-stale-key"    // the record's own key; left out if that is nil
	HeaderStaleMove   = "tl-stale-move"   // the move whose fence it lies behind
	HeaderStaleFence  = "tl-stale-fence"  // that fence's offset in the record's partition, decimal
	HeaderStaleEpoch  = "tl-stale-epoch"  // of the unit since that move, decimal; the record's own is in tl-route
	HeaderStaleGroup  = "tl-stale-group"  // whose worker met it
	HeaderStaleTime   = "tl-stale-time"   // when, Unix ms
)

// The reasons of quarantine.
const (
	// StaleEpoch is a record that a session wrote by an older placement behind
	// the fence that ended it.
	StaleEpoch = "stale_epoch"
	// StaleUnstamped is a record without tl-route there: it came around
	// partitioner.Producer.
	StaleUnstamped = "unstamped"
)

// Staleness is why a record is stale.
type Staleness struct {
	Reason string // one of the Stale… words
	Move   string // the move's id
	Fence  int64  // its offset in the record's partition
	Epoch  uint64 // of the unit since the move
}

// Quarantined is the record to write to a quarantine topic for r, which a group's
// worker found stale. It goes into the partition with the number of r's, modulo
// those there are.
func Quarantined(r *kgo.Record, topic, group string, why Staleness) *kgo.Record {
	at := Place{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	letter := copyRecord(r)
	letter.Topic, letter.Timestamp = topic, time.Time{} // as with dead letters
	letter.Key = []byte(at.String())
	letter.Headers = append(slices.Clip(letter.Headers),
		header(HeaderStaleReason, why.Reason),
		header(HeaderStaleMove, why.Move),
		header(HeaderStaleFence, strconv.FormatInt(why.Fence, 10)),
		header(HeaderStaleEpoch, strconv.FormatUint(why.Epoch, 10)),
		header(HeaderStaleGroup, group),
		header(HeaderStaleTime, strconv.FormatInt(time.Now().UnixMilli(), 10)),
	)
	if r.Key != nil {
		letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: HeaderStaleKey, Value: slices.Clone(r.Key)})
	}
	return letter
}
