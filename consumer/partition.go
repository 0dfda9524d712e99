package consumer

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

type topicPartition struct {
	topic string
	id    int32
}

// partition is one assignment of a partition. All but the first block is
// guarded by the engine's lock.
type partition struct {
	topicPartition
	token   Token
	rule    routing.TenantRule
	instant time.Time // the group's start instant, carried on in each commit; zero: none
	lanes   *lane.Partition[entry]
	gone    atomic.Bool // taken away: what is still in hand counts for nothing

	identity offset.Identity // what the metadata of its commits is about
	limit    offset.Limit    // of that metadata; Chars 0: none

	progress  *offset.Tracker // nil until it is known where the partition begins
	metadata  string          // of the last acknowledged commit
	rereads   rereads
	end       int64 // high watermark, as of the last fetch; unknownOffset before
	committed int64 // last acknowledged offset, or unknownOffset
	stall     stallWatch
	troubles  troubles
	stopped   error      // why nothing more is admitted
	anew      *partition // the same assignment, begun anew at a lower offset
	partitionMoves
	held    int64  // bytes that its records keep in memory
	handled uint64 // records done
}

// commit is what is to be committed of p now, in a request with so many
// partitions; false while that is unknown.
func (p *partition) commit(sched *lane.Scheduler[entry], partitions int) (offset.Commit, bool) {
	if p.progress == nil {
		return offset.Commit{}, false
	}
	p.progress.Unbar()
	if x, open := p.moves.Unfinished(); open {
		p.progress.Bar(x)
	}
	limit, id := p.limit, p.identity
	if limit.Chars > 0 {
		limit.Chars = offset.CharsFor(p.chars(), partitions)
	} else {
		id.Fingerprint = 0 // nothing is to be named
	}
	var behind []offset.Lane
	for _, b := range sched.Behind(p.lanes, limit.Want(), nil) {
		behind = append(behind, offset.Lane(b))
	}
	return p.progress.Commit(id, behind, limit), true
}

// chars is how much a commit may say. While a partition recovers, a lane may be
// named twice, for its inherited name and for what the cursor has found of it: a
// second crash would lose most of the frontier if that did not fit.
func (p *partition) chars() int {
	if !p.progress.Recovering() {
		return p.limit.Chars
	}
	return max(p.limit.Chars, min(2*p.limit.Chars, offset.BrokerChars))
}

// names is how many lanes a commit of p can name for sure.
func (p *partition) names() int {
	const fixed, each = 160, 10 // characters, at most
	if p.identity.Fingerprint == 0 {
		return 0
	}
	return max(p.limit.Chars-fixed, 0) / each
}

// laneItem is a lane's place for a record.
type laneItem = lane.Item[entry]

// entry is a record in a lane. Until it is copied it pins the fetch that it
// came with.
type entry struct {
	rec *kgo.Record
	in  *arrival
}

// arrival is what records of one partition that were fetched together have in
// common. The bytes of a fetch are held until its last record is done or
// copied; copies are held one by one.
type arrival struct {
	at     time.Duration // on the engine's clock
	bytes  int64         // charged for all records; not used for copies
	left   int           // records that still pin the fetch
	fault  *fault        // why no handler gets them; nil: one does
	copies bool          // these records are copies
	parts  []part        // of slabs, that its records are in
	kept   bool          // one of them failed: others than its lane may refer to it
}

// recordOverhead is what a record costs in memory beside its fields' bytes:
// the client's struct and its place in a lane.
const recordOverhead = 256

// charge adds what n more records of the fetch, with so many bytes of fields,
// keep in memory, and returns how many bytes that is more. The last part of a
// fetch may leave none of it, and a stopped partition takes no more of it.
func (in *arrival) charge(fields, n int, open bool) int64 {
	if in.left == 0 || !open {
		freed := in.bytes
		in.bytes = 0
		return -freed
	}
	more := int64(fields + n*recordOverhead)
	in.bytes += more
	return more
}

// pass takes a record that goes into no lane off what pins the fetch.
func (in *arrival) pass() { in.left-- }

// freed is how many bytes become free when an item is done or copied.
func (in *arrival) freed(it *lane.Item[entry]) int64 {
	if in.copies {
		return int64(it.Bytes)
	}
	if in.left--; in.left == 0 {
		return in.bytes
	}
	return 0
}

// label is the partition's number as a metric's label.
func (tp topicPartition) label() string { return strconv.Itoa(int(tp.id)) }
