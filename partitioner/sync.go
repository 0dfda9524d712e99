package partitioner

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ProduceSync produces records and waits for their outcomes, which come in the
// order in which they are known. When ctx ends first, the records that are left
// have an error that wraps ctx's and may still be written; they are not touched
// any more.
//
// A record may wait for the client's linger, 10 ms by default: a client that is
// used this way should have kgo.ProducerLinger(0).
func (p *Producer) ProduceSync(ctx context.Context, records ...*kgo.Record) kgo.ProduceResults {
	w := &waiter{done: make(chan struct{}), left: len(records)}
	if len(records) == 0 {
		return nil
	}
	for _, r := range records {
		f := newFlight(ctx, r, nil)
		f.promise = func(r *kgo.Record, err error) { w.finish(f, r, err) }
		w.begin(f)
		if err := p.begin(f); err != nil { //nolint:contextcheck // f has ctx
			f.count(err)
			p.finish(f, err) // this promise takes no lock of a caller's
		}
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		p.abandon(ctx, w)
	}
	return w.results
}

// waiter is one call of ProduceSync. Promises change it one at a time.
type waiter struct {
	done chan struct{}

	mu sync.Mutex
	// guards all below
	flights map[*flight]struct{} // not finished
	results kgo.ProduceResults
	left    int
}

func (w *waiter) begin(f *flight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.flights == nil {
		w.flights = make(map[*flight]struct{}, w.left)
	}
	w.flights[f] = struct{}{}
}

func (w *waiter) finish(f *flight, r *kgo.Record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.flights, f)
	w.results = append(w.results, kgo.ProduceResult{Record: r, Err: err})
	if w.left--; w.left == 0 {
		close(w.done)
	}
}

// abandon gives the records that are left back to their caller, as of now.
func (p *Producer) abandon(ctx context.Context, w *waiter) {
	p.serial.Lock() // no promise is at work
	defer p.serial.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for f := range w.flights {
		r := f.caller
		theirs := *r
		f.caller, f.promise = &theirs, nil
		w.results = append(w.results, kgo.ProduceResult{Record: r, Err: fmt.Errorf("record may still be produced: %w", ctx.Err())})
	}
}
