package lane

import (
	"math"
	"time"
)

// bucket is a token bucket on passed-in time; a nil one has no limit. It is not x/time/rate's Limiter
// because tokens of records that a grant did not get to are given back, costs
// are fractional, and the caller's lock makes the Limiter's own a waste.
type bucket struct {
	rate   float64 // tokens per second
	burst  float64 // most tokens at rest
	tokens float64
	at     time.Duration // when tokens held
}

// with is the bucket after a change of its limit: it keeps its tokens, up to
// the new burst, and one that had no limit starts full.
func (b *bucket) with(rate, burst float64, now time.Duration) *bucket {
	if rate <= 0 {
		return nil
	}
	if burst <= 0 {
		burst = max(rate, 1)
	}
	if b == nil {
		return &bucket{rate: rate, burst: burst, tokens: burst, at: now}
	}
	b.fill(now)
	b.rate, b.burst, b.tokens = rate, burst, min(b.tokens, burst)
	return b
}

func (b *bucket) fill(now time.Duration) {
	if now > b.at {
		b.tokens = min(b.burst, b.tokens+b.rate*(now-b.at).Seconds())
		b.at = now
	}
}

// wait is how long until a record of the given cost may run: 0 for at once. A
// cost above the burst waits for a full bucket and leaves it in debt.
func (b *bucket) wait(cost float64, now time.Duration) time.Duration {
	if b == nil {
		return 0
	}
	b.fill(now)
	missing := min(cost, b.burst) - b.tokens
	if missing <= 1e-9 {
		return 0
	}
	seconds := missing / b.rate
	if seconds > 1e9 {
		return time.Duration(math.MaxInt64 / 4)
	}
	return max(time.Duration(math.Ceil(seconds*1e9)), 1)
}

// full is how long until the bucket is full.
func (b *bucket) full(now time.Duration) time.Duration {
	if b == nil {
		return 0
	}
	return b.wait(b.burst, now)
}

// spend takes tokens out; a negative cost gives them back.
func (b *bucket) spend(cost float64) {
	if b != nil {
		b.tokens = min(b.burst, b.tokens-cost)
	}
}
