package offset

import (
	"cmp"
	"math"
	"slices"
)

// Tracker is the progress of one partition in one assignment. It is not safe
// for concurrent use.
type Tracker struct {
	next   int64     // next offset to admit
	floor  int64     // inherited frontier
	bar    int64     // no frontier is above it
	names  inherited // virtual lanes
	epochs []epochStart
	merged []Lane // Commit's memory
}

type epochStart struct {
	offset int64 // records from here on
	epoch  int32
}

// NewTracker follows a partition from an offset below which all is done: the
// committed one when there is nothing more to know, or a reset position.
func NewTracker(at int64) *Tracker {
	return &Tracker{next: at, floor: at, bar: math.MaxInt64}
}

// Resume follows a partition from a valid checkpoint: the main cursor starts at
// its frontier, and its names are virtual lanes. Names below the log's start
// are counted as lost and wait for what is left from there on.
func Resume(c Checkpoint, logStart int64) (t *Tracker, lost int) {
	f := max(c.Frontier, logStart)
	t = &Tracker{next: f, floor: f, bar: math.MaxInt64, names: newInherited(c.Lanes, f)}
	t.epochs = append(t.epochs, epochStart{offset: c.Watermark, epoch: c.LeaderEpoch})
	return t, t.Lost(logStart)
}

// Next is the next offset to admit.
func (t *Tracker) Next() int64 { return t.next }

// Frontier is the highest offset that may be claimed: the inherited frontier
// until the main cursor is beyond it, then the next offset to admit; never above
// the bar.
func (t *Tracker) Frontier() int64 { return min(max(t.floor, t.next), t.bar) }

// Bar keeps the frontier, and so the watermark, from passing an offset at which
// the partition, not a lane, has something unfinished: a fence whose move has
// not ended.
func (t *Tracker) Bar(offset int64) { t.bar = offset }

// Unbar ends Bar.
func (t *Tracker) Unbar() { t.bar = math.MaxInt64 }

// Admitted notes that the main cursor has passed everything below next, after a
// whole batch was admitted: records, control records, and gaps alike.
// leaderEpoch is that of the batch's last record, −1 if unknown. False: next is
// lower than before, so the log is not the one that was read; nothing is
// changed, and the caller begins anew at the reset position.
func (t *Tracker) Admitted(next int64, leaderEpoch int32) bool {
	if next < t.next {
		return false
	}
	if n := len(t.epochs); n == 0 || t.epochs[n-1].epoch != leaderEpoch {
		t.epochs = append(t.epochs, epochStart{offset: t.next, epoch: leaderEpoch})
	}
	t.next = next
	return true
}

// LeaderEpoch is the epoch known for the record at an offset, −1 if unknown. It
// may be a later epoch than the record's own, never one from which the log had
// been cut below the offset.
func (t *Tracker) LeaderEpoch(offset int64) int32 {
	for i := len(t.epochs) - 1; i >= 0; i-- {
		if t.epochs[i].offset <= offset {
			return t.epochs[i].epoch
		}
	}
	return -1
}

// Lost notes that the log now starts at start: virtual lanes that waited below
// wait for what is left. It returns how many did.
func (t *Tracker) Lost(start int64) int {
	t.next = max(t.next, start)
	t.floor = max(t.floor, start)
	return t.names.moveUp(-1<<63, start)
}

// Snapshot is how far the partition is done. behind are the lanes with the
// lowest first unfinished offsets, ascending: all of them, or at least n+1.
func (t *Tracker) Snapshot(n int, behind []Lane) State {
	lanes := t.merge(behind)
	s := State{Frontier: t.Frontier()}
	if len(lanes) > n {
		s.Frontier = min(s.Frontier, lanes[n].Offset)
		lanes = lanes[:n]
	}
	for len(lanes) > 0 && lanes[len(lanes)-1].Offset >= s.Frontier {
		lanes = lanes[:len(lanes)-1]
	}
	s.Watermark = s.Frontier
	if len(lanes) > 0 {
		s.Watermark = lanes[0].Offset
	}
	s.Lanes = slices.Clone(lanes)
	return s
}

func (t *Tracker) merge(behind []Lane) []Lane {
	if t.names.left() == 0 {
		return behind
	}
	t.merged = append(t.names.appendTo(t.merged[:0]), behind...)
	slices.SortStableFunc(t.merged, func(a, b Lane) int { return cmp.Compare(a.Offset, b.Offset) })
	return t.merged
}

// Commit is one partition's part of an offset commit.
type Commit struct {
	Offset      int64 // the watermark
	LeaderEpoch int32 // known at Offset−1, −1 if unknown
	Metadata    string
	State       State // what the metadata claims
}

// Commit makes what to commit: the watermark, and the frontier with as many
// names as fit.
func (t *Tracker) Commit(id Identity, behind []Lane, l Limit) Commit {
	full := t.Snapshot(l.Want()-1, behind)
	text, s := Encode(id, full, t.LeaderEpoch, l.chars())
	t.trim(s.Watermark)
	return Commit{
		Offset: s.Watermark, LeaderEpoch: t.LeaderEpoch(s.Watermark - 1),
		Metadata: text, State: s,
	}
}

// trim forgets leader epochs that end below the watermark.
func (t *Tracker) trim(watermark int64) {
	for len(t.epochs) > 1 && t.epochs[1].offset < watermark {
		t.epochs = t.epochs[1:]
	}
}

// Limit bounds a partition's metadata. The zero value is the default.
type Limit struct {
	Names int // most lanes named; 0: as many as fit
	Chars int // most characters; 0: DefaultChars
}

func (l Limit) chars() int {
	if l.Chars <= 0 {
		return DefaultChars
	}
	return l.Chars
}

// Want is how many lanes to ask for as behind: one more than can be named. A
// name takes at least five bytes, which are more than six characters.
func (l Limit) Want() int {
	n := l.chars() / 6
	if l.Names > 0 {
		n = min(n, l.Names)
	}
	return n + 1
}

// Halved is the limit after a broker answered OFFSET_METADATA_TOO_LARGE to a
// commit of the given text.
func (l Limit) Halved(text string) Limit {
	return Limit{Names: l.Names, Chars: max(len(text)/2, 1)}
}
