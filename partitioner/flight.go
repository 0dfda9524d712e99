package partitioner

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// byFallback is the partition of a flight that the fallback decides.
const byFallback = -2

// flight is one record on its way through a Producer: the copy that kgo gets,
// and what must be undone when its promise is called.
//
// It is also that record's context. That detaches the record from the caller's
// cancellation (kgo fails a whole batch when the context of its first record
// ends), carries the caller's values to hooks, and lets the Partitioner and the
// promise find the flight without a map or a closure.
type flight struct {
	rec     kgo.Record               // what is produced
	caller  *kgo.Record              // what the caller handed in; Producer.serial guards it
	promise func(*kgo.Record, error) // the caller's; Producer.serial guards it
	ctx     context.Context          // the caller's, for its own wait
	values  context.Context          // whose values hooks see
	size    int64                    // upper bound of what kgo counts
	start   time.Time                // when Produce was called
	as      *stampedAs               // of a record that is sent again; else nil

	topic *topicState // that the caller named

	// Set by routing, again after each wait.
	by        *revision     // counts it, if anybody asks
	tenant    []byte        // nil: without a tenant, or in a topic outside the table
	part      *partition    // where it goes
	move      *routing.Move // open, and holds it back
	passes    [2]*topicState
	entered   [2]*gate // of passes
	epoch     uint64
	revision  uint64
	term      uint64 // the registration under which it is sent; 0 without one
	partition int32  // that of part, or byFallback
	gates     uint8  // how many of passes there are; see gated
	kind      routing.Kind
	wrapped   bool // a topic has producers: wrapped

	seq      uint64 // in the header tl-route; 0 before it was sent
	again    bool   // was sent and must be sent once more, by the same seq
	reserved bool   // the caller's headers hold one of ours that acts
	waited   bool   // in a queue or a line

	unwatch func() bool // stops watching ctx, while queued; the shard's lock guards it

	headers [2]kgo.RecordHeader // the stamps, of a record without headers of its own
	buf     [maxRoute + maxTime]byte
}

type flightKey struct{}

// Deadline is none: the record outlives its caller.
func (f *flight) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is nil, which blocks for ever.
func (f *flight) Done() <-chan struct{} { return nil }

// Err is nil.
func (f *flight) Err() error { return nil }

// Value gives the caller's value.
func (f *flight) Value(key any) any {
	if key == (flightKey{}) {
		return f
	}
	return f.values.Value(key)
}

// findFlight finds the flight of a record whose context may have been wrapped.
func findFlight(r *kgo.Record) *flight {
	if f, ok := r.Context.(*flight); ok {
		return f
	}
	if r.Context == nil {
		return nil
	}
	f, _ := r.Context.Value(flightKey{}).(*flight)
	return f
}

// The most that the stamps can take: a tl-route of version, kind, uvarint
// epoch, session and uvarint sequence, and a 64-bit number in decimal.
const (
	maxRoute  = 1 + 1 + 10 + 16 + 10
	maxTime   = 20
	stampSize = len(routing.HeaderRoute) + maxRoute + len(routing.HeaderTime) + maxTime
)

func newFlight(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) *flight { //nolint:contextcheck // nil is Background
	if ctx == nil {
		ctx = context.Background() // as kgo does
	}
	f := &flight{rec: *r, caller: r, promise: promise, ctx: ctx, values: ctx, start: time.Now(), partition: -1}
	if r.Context != nil {
		f.values = r.Context
	}
	f.rec.Context = f
	f.size = int64(len(r.Key) + len(r.Value) + stampSize)
	for i := range r.Headers {
		h := &r.Headers[i]
		f.size += int64(len(h.Key) + len(h.Value))
		f.reserved = f.reserved || h.Key == routing.HeaderControl
	}
	return f
}

// stamp writes the headers. It happens before kgo sees the record: kgo counts a
// record's bytes when it is buffered and again when it is done, so headers
// added in between would leave its buffer accounting wrong for ever.
//
// The event time goes into a header and Timestamp is the time of now, because kgo
// counts RecordDeliveryTimeout from Timestamp: a record about last week would
// time out at once, and one that waited for its tenant sooner than others. A
// tl-time that the record brings along stays, so that a
// record that is forwarded keeps its event time.
//
// A record that goes out again has stamps: its tl-time stays, and its tl-route
// gets another epoch, yet the same session and sequence, by which both copies
// are known as one record.
func (f *flight) stamp(session [16]byte) {
	h := routing.RouteHeader{Kind: f.kind, Epoch: f.epoch, Session: session, Seq: f.seq}
	buf := f.buf[:0]
	if f.again {
		buf = make([]byte, 0, maxRoute) // buf holds its tl-time
	}
	route := h.Append(buf)
	headers, timed := f.ownHeaders()
	headers = append(headers, kgo.RecordHeader{Key: routing.HeaderRoute, Value: slices.Clip(route)})
	if !timed {
		millis := strconv.AppendInt(route, f.eventTime().UnixMilli(), 10)[len(route):]
		headers = append(headers, kgo.RecordHeader{Key: routing.HeaderTime, Value: slices.Clip(millis)})
	}
	f.rec.Headers = headers
	if f.rec.Timestamp = f.start; f.waited {
		f.rec.Timestamp = time.Now()
	}
}

func (f *flight) eventTime() time.Time {
	if t := f.rec.Timestamp; !t.IsZero() {
		return t
	}
	return f.start
}

// ownHeaders copies the caller's headers, with room for two more, and tells
// whether tl-time is among them. A tl-route that a forwarded record brought
// along is left out: it speaks of another place.
func (f *flight) ownHeaders() (own []kgo.RecordHeader, timed bool) {
	own = f.headers[:0]
	if n := len(f.rec.Headers) + 2; n > len(f.headers) {
		own = make([]kgo.RecordHeader, 0, n)
	}
	for _, h := range f.rec.Headers {
		timed = timed || h.Key == routing.HeaderTime
		if h.Key != routing.HeaderRoute {
			own = append(own, h)
		}
	}
	return own, timed
}

// gated gives the topics whose gates the flight has to pass: whoever holds the
// tenant back knows it by the topic that callers name or by the one where its
// records are.
func (f *flight) gated() []*topicState { return f.passes[:f.gates] }

// home is the topic whose moves concern the flight.
func (f *flight) home() *topicState { return f.passes[f.gates-1] }

// slotted is 1 if the last of the flight's gates, where its home is, counts it as
// routed by its slot.
func (f *flight) slotted(gate int) int64 {
	if gate == int(f.gates)-1 && f.kind == routing.KindSlot {
		return 1
	}
	return 0
}

// sendAgain makes the flight ready to be sent once more: kgo is done with the
// record, and its caller's context no longer ends it.
func (f *flight) sendAgain() {
	f.again, f.waited = true, true
	f.ctx = context.WithoutCancel(f.ctx)
	f.rec.Context = f // hooks may have wrapped it
	f.rec.Topic = f.topic.name
}

// choose answers the partition that was decided when the record was routed. n
// is what kgo knows at this moment.
func (f *flight) choose(r *kgo.Record, n int) int {
	f.part.dest.saw(int32(n))
	if int(f.partition) < n {
		return int(f.partition)
	}
	return refuse(r, f.fail(ErrOutOfRange))
}

// fail makes the error of this flight.
func (f *flight) fail(why error) error {
	e := &RouteError{
		Topic: f.rec.Topic, Tenant: string(f.tenant), Partition: max(f.partition, -1),
		Epoch: f.epoch, Revision: f.revision, Err: why,
	}
	if f.part != nil {
		e.Partitions = f.part.dest.count.Load()
	}
	return e
}

// count counts a flight that kgo did not get, where it was to go.
func (f *flight) count(err error) {
	if f.part != nil {
		f.part.refuse(err)
	}
}

// report copies what became of the record to the caller's. Its headers and its
// context stay the caller's own, so that it can be produced again.
func (f *flight) report(err error) {
	r := f.caller
	r.Partition, r.Attrs = f.rec.Partition, f.rec.Attrs
	r.ProducerID, r.ProducerEpoch = f.rec.ProducerID, f.rec.ProducerEpoch
	r.Offset, r.LeaderEpoch = f.rec.Offset, f.rec.LeaderEpoch
	if err != nil {
		r.Offset, r.LeaderEpoch, r.ProducerID, r.ProducerEpoch = -1, -1, -1, -1
		return
	}
	r.Topic = f.rec.Topic
	if r.Timestamp.IsZero() {
		r.Timestamp = f.rec.Timestamp
	}
}
