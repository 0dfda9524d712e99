package lane

import (
	"math"
	"time"
)

// TierID names a tier of a Scheduler. The zero value is the tier that always
// exists.
type TierID int32

type tier struct {
	ent     entity // in core.root
	tenants group
	name    string
	cfg     Tier
	limit   int32 // grants in hand
	bucket  bucket
	timer   timer // armed while the bucket is empty
	times   histogram
	scale   float64 // weight before reserved shares are worked in
	raised  bool    // its reserved share is more than its weight gives
}

type tenant struct {
	ent     entity // in tier.tenants
	lanes   group
	tier    *tier
	name    []byte
	hash    uint64
	next    *tenant // of the same hash
	own     Tenant  // what SetTenant said
	pinned  bool    // own is set
	paused  bool
	limit   int32
	bucket  bucket
	timer   timer   // armed while the bucket is empty, or not yet full when nothing else keeps the entry
	mean    float64 // seconds per cost unit; 0: unknown
	count   int     // lanes
	over    int     // of these, overflowing
	parked  int
	backoff int
	records int
	bytes   int64
	handled uint64
}

// core is the part of a Scheduler that does not know what a record is.
type core struct {
	cfg      Config
	now      time.Duration // the latest time passed in
	root     group         // of tiers
	tiers    []*tier
	byName   map[string]TierID
	reserved bool // some tier has a reserved share
	members  int  // tiers counted in root when shares were last worked out
	tenants  map[uint64]*tenant
	entries  int // tenants
	spare    []*tenant
	timers   timers
	means    averages
	ready    int // lanes that are runnable but for their tenant's or tier's limits
}

// keep bounds the freed entries that wait to be used again, so that a burst
// does not hold its memory for ever.
const keep = 4096

// tenantOf finds or makes the entry of a tenant.
func (c *core) tenantOf(name []byte, hash uint64, id TierID) *tenant {
	if t := c.find(name, hash); t != nil {
		return t
	}
	var t *tenant
	if n := len(c.spare); n > 0 {
		t, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		t = &tenant{lanes: newGroup()}
	}
	*t = tenant{
		lanes: t.lanes, name: append(t.name[:0], name...),
		hash: hash, next: c.tenants[hash], tier: c.tiers[id], timer: timer{pos: -1, of: t},
		mean: c.means.get(hash),
	}
	t.ent.init(1, t)
	c.tenants[hash] = t
	c.entries++
	c.applyTenant(t)
	return t
}

func (c *core) find(name []byte, hash uint64) *tenant {
	t := c.tenants[hash]
	for t != nil && string(t.name) != string(name) {
		t = t.next
	}
	return t
}

// applyTenant works out t's limits from its own, its tier's and the
// scheduler's values.
func (c *core) applyTenant(t *tenant) {
	base := t.tier.cfg.Tenant
	weight, conc, rate, burst := t.own.Weight, t.own.Concurrency, t.own.Rate, t.own.Burst
	if weight == 0 {
		weight = base.Weight
	}
	if conc == 0 {
		conc = base.Concurrency
	}
	if conc == 0 {
		conc = c.cfg.TenantConcurrency
	}
	if rate == 0 {
		rate = base.Rate
		if burst == 0 {
			burst = base.Burst
		}
	}
	t.tier.tenants.setWeight(&t.ent, quantize(weight))
	t.limit = limitOf(conc)
	t.bucket.set(rate, burst, c.now)
}

// limitOf turns "not positive: no limit" into a number to compare with.
func limitOf(n int) int32 {
	if n <= 0 || n > math.MaxInt32 {
		return math.MaxInt32
	}
	return int32(n)
}

// refreshTenant puts t where it belongs after any change to it or its lanes.
func (c *core) refreshTenant(t *tenant) {
	g := &t.tier.tenants
	if len(t.lanes.ready.s) > 0 && !t.paused && t.ent.running < t.limit && t.timer.pos < 0 {
		g.enqueue(&t.ent)
	} else {
		g.dequeue(&t.ent)
	}
	g.settle(&t.ent)
	c.refreshTier(t.tier)
}

func (c *core) refreshTier(tr *tier) {
	if len(tr.tenants.ready.s) > 0 && tr.ent.running < tr.limit && tr.timer.pos < 0 {
		c.root.enqueue(&tr.ent)
	} else {
		c.root.dequeue(&tr.ent)
	}
	c.root.settle(&tr.ent)
	if c.reserved {
		c.share()
	}
}

// expect is the handler time, in seconds per cost unit, expected of t's next
// record.
func (c *core) expect(t *tenant) float64 {
	switch {
	case t.mean > 0:
		return t.mean
	case t.tier.times.p90 > 0:
		return t.tier.times.p90
	}
	return c.cfg.Guess.Seconds()
}

// learn notes that n records of t with the given total cost took seconds. One
// grant moves the mean by an eighth for each record, at most by half.
func (c *core) learn(t *tenant, n int, cost, seconds float64) {
	if n == 0 || cost <= 0 {
		return
	}
	x := max(seconds/cost, 1e-9)
	t.tier.times.add(x, float64(n))
	if t.mean == 0 {
		t.mean = x
		return
	}
	t.mean += (x - t.mean) * min(float64(n)/8, 0.5)
}

// drop frees t's entry once nothing is left to remember: no lane, no grant in
// hand, no debt, no setting, and a full token bucket.
func (c *core) drop(t *tenant) {
	if t.count > 0 || t.ent.busy || t.ent.debtPos >= 0 || t.pinned || t.paused {
		return
	}
	if wait := t.bucket.wait(t.bucket.burst, c.now); wait > 0 {
		c.timers.set(&t.timer, c.now+wait)
		return
	}
	c.timers.stop(&t.timer)
	if t.mean > 0 {
		c.means.put(t.hash, t.mean)
	}
	t.tier.tenants.forget(&t.ent)
	c.unlink(t)
	c.entries--
	if len(c.spare) < keep {
		t.lanes.reset()
		c.spare = append(c.spare, t)
	}
}

func (c *core) unlink(t *tenant) {
	if p := c.tenants[t.hash]; p == t {
		if t.next == nil {
			delete(c.tenants, t.hash)
		} else {
			c.tenants[t.hash] = t.next
		}
	} else {
		for p.next != t {
			p = p.next
		}
		p.next = t.next
	}
	t.next = nil
}

// expire drops what the clocks have passed, a bounded number at a time.
func (c *core) expire(tr *tier) {
	for range expiries {
		e := tr.tenants.expired()
		if e == nil {
			break
		}
		c.drop(e.owner.(*tenant))
	}
	if c.root.expired() != nil && c.reserved {
		c.share()
	}
}

// retier moves t to another tier with its debt and its grants in hand.
func (c *core) retier(t *tenant, to *tier) {
	from := t.tier
	if from == to {
		return
	}
	running := t.ent.running
	debt := max(t.ent.v-from.tenants.now, 0)
	t.ent.running = 0
	from.tenants.dequeue(&t.ent)
	from.tenants.settle(&t.ent)
	from.tenants.forget(&t.ent)
	from.ent.running -= running
	c.refreshTier(from)

	t.tier, t.ent.v = to, to.tenants.now+debt
	t.ent.running = running
	if running > 0 {
		to.tenants.wake(&t.ent)
		to.ent.running += running
		if !to.ent.busy {
			c.root.wake(&to.ent)
		}
	}
	c.applyTenant(t)
	c.refreshTenant(t)
	to.tenants.remember(&t.ent)
}
