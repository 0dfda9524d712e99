package lane

import (
	"cmp"
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
	bucket  *bucket
	alarm   alarm // set while the bucket is empty
	times   histogram
	scale   float64 // weight before reserved shares are worked in
	raised  bool    // its reserved share is more than its weight gives
}

type tenant struct {
	ent     entity // in tier.tenants
	tier    *tier
	lanes   group
	name    []byte
	short   [24]byte // the name, if it fits
	hash    uint64
	mean    float64 // seconds per cost unit; 0: unknown
	bucket  *bucket
	own     *Tenant // what SetTenant said; an entry that has it stays
	limit   int32   // grants in hand
	alarm   alarm   // set while the bucket is empty, or not yet full when nothing else keeps the entry
	paused  bool
	count   int32 // lanes
	over    int32 // of these, overflowing
	gates   [Whys]int32
	parked  int32
	backoff int32
	records int
	bytes   int64
	handled uint64
	speed   speed // of finishing records
}

// core is the part of a Scheduler that does not know what a record is.
type core struct {
	cfg      Config
	now      time.Duration // the latest time passed in
	root     group         // of tiers
	tiers    []*tier
	byName   map[string]TierID
	reserved bool // some tier has a reserved share
	busy     int  // tiers that were busy when shares were last worked out
	tenants  table[tenant]
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
		t = &tenant{}
		t.ent = entity{weight: 1, owner: t}
	}
	t.name = append(t.short[:0], name...)
	t.hash, t.tier, t.mean = hash, c.tiers[id], c.means.get(hash)
	t.speed = speed{}
	c.tenants.insert(hash, t)
	c.applyTenant(t)
	return t
}

func (c *core) find(name []byte, hash uint64) *tenant {
	t, i := c.tenants.seek(hash, hash)
	for t != nil && string(t.name) != string(name) {
		t, i = c.tenants.seek(hash, i+1)
	}
	return t
}

// applyTenant works out t's limits from its own, its tier's and the
// scheduler's values.
func (c *core) applyTenant(t *tenant) {
	var own Tenant
	if t.own != nil {
		own = *t.own
	}
	base := &t.tier.cfg.Tenant
	if own.Rate == 0 {
		own.Rate, own.Burst = base.Rate, cmp.Or(own.Burst, base.Burst)
	}
	t.tier.tenants.setWeight(&t.ent, quantize(cmp.Or(own.Weight, base.Weight)))
	t.limit = limitOf(cmp.Or(own.Concurrency, base.Concurrency, c.cfg.TenantConcurrency))
	t.bucket = t.bucket.with(own.Rate, own.Burst, c.now)
}

// waitForTokens reconsiders t after a change of its limits. Unless it waits for
// something else it is looked at again at once, by Advance.
func (c *core) waitForTokens(t *tenant) {
	if t.alarm.set() {
		c.timers.set(&t.alarm, c.now, t)
	}
	c.refreshTenant(t)
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
	if len(t.lanes.ready) > 0 && !t.paused && t.ent.running < t.limit && !t.alarm.set() {
		g.enqueue(&t.ent)
	} else {
		g.dequeue(&t.ent)
	}
	g.settle(&t.ent)
	c.refreshTier(t.tier)
}

func (c *core) refreshTier(tr *tier) {
	if len(tr.tenants.ready) > 0 && tr.ent.running < tr.limit && !tr.alarm.set() {
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
	if t.count > 0 || t.ent.busy || t.ent.place == inDebt || t.own != nil || t.paused {
		return
	}
	if wait := t.bucket.full(c.now); wait > 0 {
		c.timers.set(&t.alarm, c.now+wait, t)
		return
	}
	c.timers.stop(&t.alarm)
	if t.mean > 0 {
		c.means.put(t.hash, t.mean)
	}
	t.tier.tenants.forget(&t.ent)
	c.tenants.remove(t.hash, t)
	t.lanes.reset()
	t.ent.v, t.handled, t.bucket = 0, 0, nil
	if len(c.spare) < keep {
		c.spare = append(c.spare, t)
	}
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
	c.root.expired()
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
