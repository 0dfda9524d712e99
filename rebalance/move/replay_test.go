package move

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// replay handles a history by a group of one worker a partition that crash at
// random, in random order, under the rules, and says what breaks.
type replay struct {
	*history
	homes func([]Home) []Home
	parts [6]replayed
	// last is where each record was handled, by tenant, producer and sequence.
	last map[[3]int]place
}

// replayed is a partition: what is done in memory, and what is committed.
type replayed struct {
	holds     Partition
	cursor    int
	done      []bool
	committed []bool // done, by the latest commit
	commit    GroupCommit
	room      int // names that a commit has room for
}

func (h *history) newReplay(seed uint64, homes func([]Home) []Home) *replay {
	own := *h
	own.rng = rand.New(rand.NewPCG(seed, 2))
	r := &replay{history: &own, homes: homes, last: map[[3]int]place{}}
	for p := range r.parts {
		r.parts[p].committed = make([]bool, len(h.logs[p]))
		r.parts[p].room = r.rng.IntN(3)
		r.begin(p)
	}
	return r
}

// replay replays from random starts.
func (h *history) replay(seed uint64, homes func([]Home) []Home) error {
	r := h.newReplay(seed, homes)
	for p := range r.parts {
		r.start(p)
	}
	return r.toTheEnd()
}

// toTheEnd lets the group work until all is done.
func (r *replay) toTheEnd() error {
	for steps := 0; ; steps++ {
		if steps > 5000 {
			return fmt.Errorf("the group does not get on: %v", r.unfinished())
		}
		if err := r.step(); err != nil {
			return err
		}
		if len(r.unfinished()) == 0 {
			return nil
		}
	}
}

// start lets a group begin in the middle of a partition, at times.
func (r *replay) start(p int) {
	if r.rng.IntN(3) > 0 {
		return
	}
	n := 0
	for n < len(r.logs[p]) && r.rng.IntN(3) > 0 {
		n++
	}
	for !r.doTo(p, n) {
		n--
	}
}

// doTo lets the first n of a partition be done, as by a commit of before these
// moves' workers came, if the order allows: nothing done that waits for earlier
// homes.
func (r *replay) doTo(p, n int) bool {
	for i := range n {
		if !r.mayRun(p, i) {
			return false
		}
	}
	for i := range n {
		if x := &r.logs[p][i]; x.control == nil && !x.stale {
			r.last[[3]int{x.tenant, x.producer, x.seq}] = place{int8(p), int8(i)}
		}
		r.parts[p].done[i] = true
	}
	r.commit(p)
	r.begin(p)
	return true
}

// skipTo lets the group begin there, without what is before: it handles none of
// that, and has committed where it begins.
func (r *replay) skipTo(at [6]int) {
	for p, n := range at {
		for i := range n {
			r.parts[p].done[i] = true
		}
		r.commit(p)
		r.begin(p)
	}
}

func (r *replay) begin(p int) {
	q := &r.parts[p]
	q.holds, q.cursor, q.done = Assign(r.topic(), int32(p)), 0, slices.Clone(q.committed)
	for q.cursor < len(q.done) && q.done[q.cursor] {
		q.cursor++
	}
}

func (r *replay) unfinished() (list []place) {
	for p := range r.parts {
		for i, done := range r.parts[p].done {
			if !done {
				list = append(list, place{int8(p), int8(i)})
			}
		}
	}
	return list
}

func (r *replay) step() error {
	p := r.rng.IntN(len(r.parts))
	switch n := r.rng.IntN(12); {
	case n == 0:
		r.begin(p) // the worker crashed
		return nil
	case n < 4:
		r.commit(p)
		return nil
	}
	return r.run(p)
}

// run handles the first unfinished record of a random lane of a partition, if
// the rules allow.
func (r *replay) run(p int) error {
	q := &r.parts[p]
	if len(q.done) == 0 {
		return nil
	}
	from := r.rng.IntN(len(q.done))
	at := slices.Index(q.done[from:], false)
	if at < 0 {
		return nil
	}
	x := &r.logs[p][from+at]
	for i := range q.done { // the first of its lane
		y := &r.logs[p][i]
		if !q.done[i] && (i == from+at || x.control == nil && y.control == nil && y.lane() == x.lane()) {
			at, x = i, y
			break
		}
	}
	if x.control != nil {
		q.holds.Fence(r.topic(), *x.control, int64(at))
		if ask, needed := q.holds.Unexplained(); needed {
			q.holds.Synced(r.topic(), ask)
		}
		q.done[at] = true
		return nil
	}
	if !r.mayRun(p, at) {
		return nil
	}
	q.done[at] = true
	verdict, _ := q.holds.Judge(r.topic(), r.placed(p, at), true, nil)
	if x.stale != (verdict == Quarantine) {
		return fmt.Errorf("record %d of partition %d: stale is %v, verdict %v", at, p, x.stale, verdict)
	}
	if verdict == Quarantine {
		return nil
	}
	return r.handle(x, place{int8(p), int8(at)})
}

func (r *replay) placed(p, at int) Placed {
	x := &r.logs[p][at]
	return Placed{
		Tenant: []byte(pastTenants[x.tenant]), Slot: 0, Kind: x.header.Kind, Epoch: x.header.Epoch,
		Partition: int32(p), Offset: int64(at),
	}
}

func (r *replay) mayRun(p, at int) bool {
	x := &r.logs[p][at]
	if x.control != nil {
		return true
	}
	_, homes := r.parts[p].holds.Judge(r.topic(), r.placed(p, at), true, nil)
	return len(Undone(r.homes(homes), x.lane(), func(q int32) (GroupCommit, bool) { return r.parts[q].commit, true })) == 0
}

// handle checks the order of each producer's records of a tenant, or of a key
// where either of two was spread by key.
func (r *replay) handle(x *past, at place) error {
	own := [3]int{x.tenant, x.producer, x.seq}
	for other, where := range r.last {
		if other[0] != own[0] || other[1] != own[1] || other[2] <= own[2] {
			continue
		}
		y := &r.logs[where.partition][where.offset]
		if (x.header.Kind == routing.KindSpreadKey || y.header.Kind == routing.KindSpreadKey) && x.key != y.key {
			continue
		}
		if where.partition != at.partition || where.offset < at.offset {
			return fmt.Errorf("record %v at %v was handled after record %v at %v", own, at, other, where)
		}
	}
	r.last[own] = at
	return nil
}

// commit commits what is done: W, F and the lanes that are behind. Everything
// done above F is done again after a crash.
func (r *replay) commit(p int) {
	q := &r.parts[p]
	w := slices.Index(q.done, false)
	if w < 0 {
		w = len(q.done)
	}
	names := map[uint32]int64{}
	frontier := w
	for ; frontier < len(q.done); frontier++ {
		x := &r.logs[p][frontier]
		if q.done[frontier] {
			continue
		}
		if x.control != nil {
			break
		}
		if _, named := names[x.lane()]; !named {
			if len(names) == q.room {
				break
			}
			names[x.lane()] = int64(frontier)
		}
	}
	q.commit = GroupCommit{
		Watermark: int64(w), Valid: true, Frontier: int64(frontier),
		Names: func(lane uint32) (int64, bool) { at, named := names[lane]; return at, named },
	}
	for i := range q.committed {
		x := &r.logs[p][i]
		at, named := int64(0), false
		if x.control == nil {
			at, named = names[x.lane()]
		}
		q.committed[i] = q.committed[i] && i < frontier || i < w || i < frontier && !(named && int64(i) >= at)
	}
}
