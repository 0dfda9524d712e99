package lane

import (
	"hash/maphash"
	"time"
)

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
	// Tier is the tenant's tier. A tenant moves to the one of its last new
	// lane or of its last Push into an empty one.
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

// Scheduler holds the lanes of one worker. It is not safe for concurrent use.
// R is what the caller keeps for a record, best a pointer.
type Scheduler[R any] struct {
	core    core
	seed    maphash.Seed
	spare   []*lane[R]
	parts   []*Partition[R] // assigned
	ghosts  []*lane[R]      // revoked, with a grant in hand
	passes  uint64
	lowest  lowest // Behind's memory
	records int
	bytes   int64
}

// New makes a Scheduler with one tier of weight 1 and no limits. The error
// names the field of cfg that is out of its range.
func New[R any](cfg Config) (*Scheduler[R], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Scheduler[R]{
		seed: maphash.MakeSeed(),
		core: core{
			cfg: cfg, byName: map[string]TierID{}, means: newAverages(cfg.Averages),
		},
	}
	s.core.setTier("", Tier{})
	return s, nil
}

func (s *Scheduler[R]) hash(b []byte) uint64 { return maphash.Bytes(s.seed, b) }

// Push admits the main cursor's next record. Offsets ascend within a lane. It
// answers Queued, Skipped or Gone.
func (s *Scheduler[R]) Push(p *Partition[R], id ID, it Item[R]) Verdict {
	if p.revoked {
		return Gone
	}
	l := s.laneOf(p, &id)
	if l.over || l.n >= s.core.cfg.LaneRecords || l.bytes >= s.core.cfg.LaneBytes {
		s.skip(l, it.Offset, it.Offset)
		return Skipped
	}
	s.add(l, id.Tier, it)
	return Queued
}

// add puts a record at the end of a lane that may have it.
func (s *Scheduler[R]) add(l *lane[R], id TierID, it Item[R]) {
	l.push(it)
	s.account(l, 1, int64(it.Bytes))
	if l.loose != nil {
		l.loosePush()
	} else if l.n > 1 {
		return
	}
	if l.n == 1 {
		l.p.first[l.index] = it.Offset
		if tr := s.core.tiers[id]; tr != l.t.tier {
			s.core.retier(l.t, tr)
		}
	}
	s.refreshLane(l)
	s.core.refreshTenant(l.t)
}

// Take grants up to most lanes to a worker that has nothing in hand, in b,
// whose former content it overwrites. It returns the number of grants; 0 means
// that nothing may run before the next Push, Release, change of a setting, or
// NextWake.
func (s *Scheduler[R]) Take(now time.Duration, most int, b *Batch[R]) int {
	b.Reset()
	s.Advance(now)
	c := &s.core
	left := c.cfg.TakeTime.Seconds()
	var behind *tenant // granted, has more, and has the least virtual time of these
	for len(b.Grants) < most && left > 0 {
		e := c.root.min()
		if e == nil {
			break
		}
		tr := e.owner.(*tier)
		t := tr.tenants.min().owner.(*tenant)
		if behind != nil && behind.before(t) {
			break
		}
		l := t.lanes.min().owner.(*lane[R])
		if c.limited(tr, t, l.next1().cost(), now) {
			continue
		}
		left -= s.grant(tr, t, l, b)
		if l.n > len(b.Grants[len(b.Grants)-1].Items) && (behind == nil || t.before(behind)) {
			behind = t
		}
	}
	return len(b.Grants)
}

// before says that t would be served before u if its lane were not in hand.
// Then a worker takes nothing else beside that lane: the tenant with the
// cheapest handler would get a quantum each time others get a millisecond.
func (t *tenant) before(u *tenant) bool {
	if t.tier == u.tier {
		return t.ent.v < u.ent.v
	}
	return t.tier.ent.v < u.tier.ent.v
}

// next1 is the record that the lane's next grant starts with.
func (l *lane[R]) next1() *Item[R] {
	if u := l.loose; u != nil {
		if len(u.again) > 0 {
			return l.at(int(u.again[0].num - u.base))
		}
		return l.at(u.fresh)
	}
	return l.at(0)
}

// limited arms the timer of the tenant or tier that has no tokens for a record
// of the given cost, and takes it out of the queue until then.
func (c *core) limited(tr *tier, t *tenant, cost float64, now time.Duration) bool {
	if tr.bucket != nil {
		if wait := tr.bucket.wait(cost, now); wait > 0 {
			c.timers.set(&tr.alarm, now+wait, tr)
			c.refreshTier(tr)
			return true
		}
	}
	if t.bucket != nil {
		if wait := t.bucket.wait(cost, now); wait > 0 {
			c.timers.set(&t.alarm, now+wait, t)
			c.refreshTenant(t)
			return true
		}
	}
	return false
}

// grant gives the lane's next records out and returns their expected time.
func (s *Scheduler[R]) grant(tr *tier, t *tenant, l *lane[R], b *Batch[R]) float64 {
	c := &s.core
	unit := c.expect(t)
	g := Grant[R]{lane: l}
	from := len(b.items)
	most := c.fit(tr, t, unit)
	if l.loose != nil {
		var n int
		g.num, n = l.looseTake(most)
		for i := range n {
			b.items = append(b.items, *l.at(int(g.num-l.loose.base) + i))
		}
		g.Attempt = int(l.loose.mark(g.num).attempts)
	} else {
		for i := 0; i < min(most, l.n) && l.at(i).Offset < l.p.limit; i++ {
			b.items = append(b.items, *l.at(i))
		}
		g.Attempt = int(l.attempts)
	}
	g.Items = b.items[from:len(b.items):len(b.items)]
	for i := range g.Items {
		g.cost += g.Items[i].cost()
	}
	g.est = unit * g.cost
	b.Grants = append(b.Grants, g)
	tr.bucket.spend(g.cost)
	t.bucket.spend(g.cost)
	l.p.running++
	t.lanes.start(&l.ent, g.est)
	tr.tenants.start(&t.ent, g.est)
	c.root.start(&tr.ent, g.est)
	s.refreshLane(l)
	c.refreshTenant(t)
	return g.est
}

// fit is how many records of cost 1 a grant may have by the quantum, the time
// for a lane and the tokens at hand.
func (c *core) fit(tr *tier, t *tenant, unit float64) int {
	n := float64(c.cfg.Quantum)
	n = min(n, c.cfg.LaneTime.Seconds()/unit)
	if tr.bucket != nil {
		n = min(n, tr.bucket.tokens)
	}
	if t.bucket != nil {
		n = min(n, t.bucket.tokens)
	}
	return max(int(n), 1)
}

// Release takes a grant back. It says whether the result counts: false after
// the partition was revoked. Each grant is released once; a worker may release
// grants in any order.
func (s *Scheduler[R]) Release(g *Grant[R], r Result, now time.Duration) bool {
	l, c := g.lane, &s.core
	c.now = max(c.now, now)
	t := l.t
	tr := t.tier
	tried, cost := g.tried(r)
	busy := r.Busy.Seconds()
	c.learn(t, tried, cost, busy)
	tr.bucket.spend(cost - g.cost)
	t.bucket.spend(cost - g.cost)
	l.p.running--
	t.lanes.end(&l.ent, busy-g.est, busy)
	tr.tenants.end(&t.ent, busy-g.est, busy)
	c.root.end(&tr.ent, busy-g.est, busy)
	live := l.state&revoked == 0
	if live {
		g.forgetReported(&r)
		t.handled += uint64(r.Done)
		s.progress(l, g, r, now)
	}
	s.after(l)
	c.expire(tr)
	return live
}

// tried counts the records that the handler got, and their cost.
func (g *Grant[R]) tried(r Result) (n int, cost float64) {
	n = r.Done
	if r.Outcome != Continue && n < len(g.Items) {
		n++
	}
	if n == len(g.Items) {
		return n, g.cost
	}
	for i := range n {
		cost += g.Items[i].cost()
	}
	return n, cost
}

// progress drops what is done and notes what the lane waits for.
func (s *Scheduler[R]) progress(l *lane[R], g *Grant[R], r Result, now time.Duration) {
	if l.loose != nil {
		s.looseProgress(l, g, r, now)
	} else {
		s.orderedProgress(l, r, now)
	}
	switch r.Outcome {
	case Park:
		l.set(parked)
	case Hold:
		if l.loose == nil {
			l.set(held)
		}
	}
}

func (s *Scheduler[R]) orderedProgress(l *lane[R], r Result, now time.Duration) {
	s.finish(l, r.Done)
	if r.Outcome == Continue {
		return
	}
	if !r.Uncounted {
		l.attempts++
	}
	if r.Outcome == Retry && r.Delay > 0 {
		l.set(backoff)
		s.core.timers.set(&l.alarm, now+r.Delay, l)
	}
}

// after puts a lane where it belongs once something about it has changed, or
// frees it, and its tenant's entry too when nothing is left of it.
func (s *Scheduler[R]) after(l *lane[R]) {
	t := l.t
	idle := l.n == 0 && !l.over && l.ent.running == 0
	if !idle && l.state&revoked == 0 {
		l.p.first[l.index] = l.unfinished()
	}
	s.refreshLane(l)
	if idle {
		s.free(l)
	}
	s.core.refreshTenant(t)
	if idle {
		s.core.drop(t)
	}
}

// Advance lets everything run whose time has come. Take does it by itself.
func (s *Scheduler[R]) Advance(now time.Duration) {
	s.core.now = max(s.core.now, now)
	for {
		of := s.core.timers.expired(now)
		if of == nil {
			return
		}
		switch o := of.(type) {
		case *lane[R]:
			o.unset(backoff)
			if o.loose != nil {
				s.looseWake(o, now)
			}
			s.refreshLane(o)
			s.core.refreshTenant(o.t)
		case *tenant:
			s.core.refreshTenant(o)
			s.core.drop(o)
		case *tier:
			s.core.refreshTier(o)
		}
	}
}

// NextWake is when the next lane, tenant or tier becomes runnable by itself,
// on the clock of now. False: nothing waits for time.
func (s *Scheduler[R]) NextWake() (time.Duration, bool) {
	if len(s.core.timers) == 0 {
		return 0, false
	}
	return s.core.timers[0].due, true
}
