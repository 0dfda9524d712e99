package lane_test

import (
	"fmt"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/offset"
)

// chooser is where a world's randomness comes from: a generator for long runs,
// rapid's draws for short ones that shrink.
type chooser interface{ Intn(n int) int }

// world is partitions' logs, what was committed, and one worker after another
// that reads, runs, fails, loses partitions and dies. It drives the scheduler
// and the tracker as the runtime does and holds them to what a reader with
// perfect memory knows.
type world struct {
	rnd     chooser
	keys    []key
	tenants int
	tiers   []lane.TierID // of each tenant
	logs    []*logOf
	cfg     lane.Config
	limit   offset.Limit
	bound   int // records in memory at which polling stops
	life    *life
	now     time.Duration
	epoch   int64
	calm    bool // nothing fails any more
	failure string
}

type key struct {
	tenant    int
	unordered bool
	bytes     []byte
	owner     []byte
	name      uint32
}

type kind uint8

const (
	gap kind = iota
	control
	data
)

type record struct {
	key     int
	kind    kind
	gone    bool // by retention or compaction
	handled bool // in any life, or skipped by the operator
}

// logOf is a partition's log and its last acknowledged commit.
type logOf struct {
	recs   []record // by offset
	start  int64
	byKey  map[int][]int64 // offsets of each key
	oldest map[int]int     // place in byKey of the first that still has to be handled

	committed int64
	metadata  string
}

// life is one worker process.
type life struct {
	s     *lane.Scheduler[int64]
	parts []*part // by partition; nil: not assigned
	hand  []inHand
	holds []hold
}

// hold is a record that waits for its dead letter to be acknowledged.
type hold struct {
	h   inHand
	ref lane.Ref[int64]
	off int64
}

// part is one assignment.
type part struct {
	log      *logOf
	id       int
	p        *lane.Partition[int64]
	t        *offset.Tracker
	base     offset.State // what the commit claimed that it began with
	pass     *lane.Pass[int64]
	scout    bool
	last     map[int]int64 // the highest offset done of each key
	inMemory map[int64]bool
	gates    map[int]int64 // of each key that waits: where
	letters  *letters
}

type inHand struct {
	g    lane.Grant[int64]
	part *part
	key  int
	offs []int64

	reported int
}

func newWorld(rnd chooser) *world {
	w := &world{rnd: rnd, tenants: 2 + rnd.Intn(4), bound: 6 + rnd.Intn(30)}
	w.tiers = make([]lane.TierID, w.tenants)
	mask := uint32(1<<32 - 1)
	if rnd.Intn(3) == 0 {
		mask = 3 // most names collide
	}
	for i := range 3 + rnd.Intn(8) {
		tenant := i % w.tenants
		k := key{
			tenant: tenant, unordered: tenant == 1 && rnd.Intn(2) == 0,
			bytes: fmt.Appendf(nil, "key-%d", i), owner: fmt.Appendf(nil, "tenant-%d", tenant),
		}
		k.name = offset.Name(k.bytes) & mask
		w.keys = append(w.keys, k)
	}
	w.cfg = lane.Config{
		Name:              func(b []byte) uint32 { return offset.Name(b) & mask },
		TenantConcurrency: []int{1, 2, -1}[rnd.Intn(3)],
		Quantum:           1 + rnd.Intn(5),
		LaneTime:          time.Second,
		TakeTime:          time.Second,
		Averages:          8,
	}
	if rnd.Intn(4) > 0 {
		w.cfg.LaneRecords = 1 + rnd.Intn(5)
	}
	w.limit = offset.Limit{Names: 1 + rnd.Intn(6)}
	for range 1 + rnd.Intn(3) {
		w.logs = append(w.logs, &logOf{byKey: map[int][]int64{}, oldest: map[int]int{}})
	}
	w.born()
	return w
}

func (w *world) failf(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

func (w *world) identity() offset.Identity {
	return offset.Identity{Cluster: "a-cluster", Topic: [16]byte{1}, Fingerprint: 7}
}

// born starts a new worker with every partition.
func (w *world) born() {
	s, err := lane.New[int64](w.cfg)
	if err != nil {
		panic(err)
	}
	s.SetTier("gold", lane.Tier{Weight: 3, Reserved: 0.5, MaxConcurrency: 4}, w.now)
	w.life = &life{s: s, parts: make([]*part, len(w.logs))}
	for i := range w.logs {
		w.assign(i)
	}
}

// assign begins an assignment from what was committed.
func (w *world) assign(id int) {
	w.epoch++
	log := w.logs[id]
	p := &part{
		log: log, id: id, p: w.life.s.Assign("t", int32(id), w.epoch),
		last: map[int]int64{}, inMemory: map[int64]bool{}, gates: map[int]int64{},
	}
	ident := w.identity()
	if w.rnd.Intn(8) == 0 {
		ident.Fingerprint++ // the worker forms other lane keys
	}
	if c, why := offset.Open(log.metadata, ident, log.committed); why == offset.Valid {
		p.t, _ = offset.Resume(c, log.start)
		p.base = c.State
	} else {
		at := max(log.committed, log.start)
		p.t = offset.NewTracker(at)
		p.base = offset.State{Watermark: at, Frontier: at}
	}
	w.life.parts[id] = p
}

func (w *world) id(k int) lane.ID {
	return lane.ID{
		Tenant: w.keys[k].owner, Key: w.keys[k].bytes, Unordered: w.keys[k].unordered,
		Tier: w.tiers[w.keys[k].tenant],
	}
}

// claims says that a state shows the record at off to be done.
func (w *world) claims(s offset.State, log *logOf, off int64) bool {
	if off < s.Watermark {
		return true
	}
	if off >= s.Frontier {
		return false
	}
	name := w.keys[log.recs[off].key].name
	for _, l := range s.Lanes {
		if l.Name == name && l.Offset <= off {
			return false
		}
	}
	return true
}

// handle is what a handler that succeeds means to the world.
func (w *world) handle(h *inHand, off int64, live bool) {
	r := &h.part.log.recs[off]
	k := w.keys[r.key]
	if w.claims(h.part.base, h.part.log, off) {
		w.failf("partition %d offset %d was handled again although the commit showed it done", h.part.id, off)
	}
	if !k.unordered {
		if first := h.part.log.first(r.key); first < off && !r.handled {
			w.failf("partition %d key %d: offset %d was handled before %d", h.part.id, r.key, off, first)
		}
		if live && h.part.last[r.key] >= off+1 {
			w.failf("partition %d key %d: offset %d was handled after %d", h.part.id, r.key, off, h.part.last[r.key]-1)
		}
		h.part.last[r.key] = off + 1
	}
	if live && !h.part.inMemory[off] {
		w.failf("partition %d offset %d was handled twice in one assignment", h.part.id, off)
	}
	r.handled = true
	delete(h.part.inMemory, off)
}

// first is the lowest offset of a key that still has to be handled.
func (l *logOf) first(k int) int64 {
	offs := l.byKey[k]
	i := l.oldest[k]
	for i < len(offs) && (l.recs[offs[i]].handled || l.recs[offs[i]].gone) {
		i++
	}
	l.oldest[k] = i
	if i == len(offs) {
		return int64(len(l.recs))
	}
	return offs[i]
}
