package consumer_test

import (
	"context"
	"math"
	"strconv"
	"sync"

	"github.com/tenantlane/tenantlane/consumer"
)

// gate holds handlers back until the test lets them go on.
type gate struct {
	mu sync.Mutex
	// guards the fields below
	last    int // values above it wait
	changed chan struct{}
}

func newGate() *gate { return &gate{last: math.MaxInt, changed: make(chan struct{})} }

// close lets values pass up to last.
func (g *gate) close(last int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = last
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *gate) open() { g.close(math.MaxInt) }

// then is a handler that works as h once its record may pass.
func (g *gate) then(h consumer.Handler) consumer.Handler {
	return func(ctx context.Context, r *consumer.Record) error {
		value, err := strconv.Atoi(string(r.Value))
		if err != nil {
			return consumer.Permanent(err)
		}
		for {
			g.mu.Lock()
			pass, changed := value <= g.last, g.changed
			g.mu.Unlock()
			if pass {
				return h(ctx, r)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
