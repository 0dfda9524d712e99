package lane

import "time"

// Item is one record in a lane.
type Item[R any] struct {
	// Offset is the record's offset; ascending within a lane.
	Offset int64
	// Rec is the record. The scheduler drops its copy when it is done.
	Rec R
	// Bytes is what it is charged in Bytes.
	Bytes int32
	// Cost feeds rate limits and estimates. 0 means 1.
	Cost float32
}

func (it *Item[R]) cost() float64 {
	if it.Cost == 0 {
		return 1
	}
	return float64(it.Cost)
}

// ID says which lane a record belongs to. The bytes are copied when a lane is
// made and not kept otherwise.
type ID struct {
	// Tenant owns the lane: fairness, limits, pause and the tenant lock go by
	// it, across partitions. The same tenant at two rates or in two tiers (of
	// two topics) needs two names here.
	Tenant []byte
	// Key is the order key; unique for the lane within its partition. By
	// default the tenant.
	Key []byte
	// Tier is the tenant's tier. A tenant moves to the one of its last record.
	Tier TierID
	// Unordered lets any number of the lane's records be in hand at once.
	Unordered bool
}

// Verdict says what became of a record.
type Verdict uint8

const (
	// Queued: it is in the lane.
	Queued Verdict = iota
	// Skipped: the lane overflows and remembers the offset; a re-read must
	// bring it.
	Skipped
	// Unwanted: a re-read's record that its lane does not wait for: drop it.
	Unwanted
	// Full: a re-read's record that its lane waits for and has no room for:
	// bring it again, and of this lane nothing after it before.
	Full
	// Gone: the partition was revoked: drop it.
	Gone
)

// String is the verdict in a word.
func (v Verdict) String() string {
	return [...]string{"queued", "skipped", "unwanted", "full", "gone"}[v]
}

// Outcome says how a lane goes on after a grant.
type Outcome uint8

const (
	// Continue: records that were not done come back to the lane's front and
	// may run at once.
	Continue Outcome = iota
	// Retry: the record after the done ones failed; it may run again after
	// Result.Delay. An ordered lane waits for it, an unordered one goes on.
	Retry
	// Park: it failed for good; the lane waits for ResumeLane or SkipFirst.
	Park
	// Hold: it waits for something else, such as the acknowledgement of its
	// dead letter, until Unhold. An ordered lane waits too, an unordered one
	// goes on.
	Hold
)

// String is the outcome in a word.
func (o Outcome) String() string {
	return [...]string{"continue", "retry", "park", "hold"}[o]
}

// Grant is the right to run some records of a lane, from Take to Release.
type Grant[R any] struct {
	// Items are the records, in order. They are copies: valid after Release,
	// until the Batch is used again.
	Items []Item[R]
	// Attempt is how often Items[0] has failed before. The others have not.
	Attempt int

	lane     *lane[R]
	num      int64   // of Items[0], in an unordered lane
	cost     float64 // of Items
	est      float64 // seconds charged at the start
	reported int     // leading Items that Report finished
}

// Partition is the assignment that the records came from.
func (g *Grant[R]) Partition() *Partition[R] { return g.lane.p }

// Tier is the tier that the tenant is in now.
func (g *Grant[R]) Tier() string { return g.lane.t.tier.name }

// Ref names Items[i] for Unhold, once the grant is released with the outcome
// Hold for it.
func (g *Grant[R]) Ref(i int) Ref[R] {
	return Ref[R]{lane: g.lane, gen: g.lane.gen, num: g.num + int64(i), offset: g.Items[i].Offset}
}

// Ref names a held record. It outlives the lane: what is done with it then does
// nothing.
type Ref[R any] struct {
	lane   *lane[R]
	gen    uint32
	num    int64 // in an unordered lane
	offset int64
}

func (r Ref[R]) get() *lane[R] {
	if r.lane == nil || r.lane.gen != r.gen || r.lane.state&revoked != 0 {
		return nil
	}
	return r.lane
}

// Batch is a worker's own memory for grants, used again by each Take.
type Batch[R any] struct {
	Grants []Grant[R]
	items  []Item[R]
}

// Reset forgets the grants and the records that they hold.
func (b *Batch[R]) Reset() {
	clear(b.Grants)
	clear(b.items)
	b.Grants, b.items = b.Grants[:0], b.items[:0]
}

// Result is what a worker did with a grant.
type Result struct {
	// Done is how many leading Items are finished, whatever finished them.
	Done int
	// Outcome is what becomes of the lane. Other than Continue it is about
	// Items[Done].
	Outcome Outcome
	// Delay is how long a Retry waits.
	Delay time.Duration
	// Uncounted keeps the handling out of the record's failed attempts: it was
	// told to come back, or was cut short.
	Uncounted bool
	// Busy is the handler time that the grant took.
	Busy time.Duration
}
