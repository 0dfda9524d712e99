package demo

import (
	"context"
	"sync"
	"time"
)

const (
	// sleepFrom is what a lane may owe before it sleeps: shorter sleeps take
	// longer than they say.
	sleepFrom = 2 * time.Millisecond
	// credit is how far a lane that was kept from running may catch up.
	credit = 100 * time.Millisecond
)

// cost makes each record take a fixed time of its tenant's lane, exact on
// average: a lane runs up a debt and sleeps it off. A tenant that sends less
// than it could is never in debt.
type cost struct {
	planned time.Duration

	mu   sync.Mutex // guards each and paid
	each time.Duration
	paid map[string]time.Time
}

func newCost(each time.Duration) *cost {
	return &cost{planned: each, each: each, paid: map[string]time.Time{}}
}

// atLeast makes a record cost each, if that is more than what was planned.
func (c *cost) atLeast(each time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each = max(c.planned, each)
}

// pay returns when the tenant has paid for one record, or ctx has ended.
func (c *cost) pay(ctx context.Context, tenant string) error {
	debt := c.owe(tenant, time.Now())
	if debt < sleepFrom {
		return ctx.Err()
	}
	timer := time.NewTimer(debt)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// owe adds one record and gives what the tenant owes now.
func (c *cost) owe(tenant string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.paid[tenant]
	if earliest := now.Add(-credit); until.Before(earliest) {
		until = earliest
	}
	until = until.Add(c.each)
	c.paid[tenant] = until
	return until.Sub(now)
}
