package partitioner

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stampedAs is what a record was stamped with when it was sent first, by this
// Producer or another.
type stampedAs struct {
	session [16]byte
	seq     uint64
}

// Resend sends a record that was sent before and is to count as the same one:
// it goes to where its tenant is now, stamped with the session and sequence of
// the first time, and with the epoch of now. It returns once the outcome is
// known, or ctx ends. Whoever looks for copies of a record looks for these two.
func (p *Producer) Resend(ctx context.Context, r *kgo.Record, session [16]byte, seq uint64) error {
	w := &waiter{done: make(chan struct{}), left: 1}
	f := newFlight(ctx, r, nil)
	f.as = &stampedAs{session, seq}
	f.promise = func(r *kgo.Record, err error) { w.finish(f, r, err) }
	w.begin(f)
	if err := p.begin(f); err != nil { //nolint:contextcheck // f has ctx
		f.count(err)
		p.finish(f, err)
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		p.abandon(ctx, w)
	}
	return w.results.FirstErr()
}

// identify gives a flight its sequence, unless it has one from before, and the
// session that goes with it.
func (p *Producer) identify(f *flight) (session [16]byte) {
	switch {
	case f.again:
	case f.as != nil:
		f.seq = f.as.seq
	default:
		f.seq = p.seq.Add(1)
	}
	if f.as != nil {
		return f.as.session
	}
	return p.session
}
