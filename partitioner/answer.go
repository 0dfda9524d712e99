package partitioner

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/store"
)

// answered is every record's promise.
func (p *Producer) answered(r *kgo.Record, err error) {
	f := findFlight(r)
	if err = Cause(r, err); err == nil && !p.mayAcknowledge(f) {
		if !p.txn.possible {
			p.keep(f)
			return
		}
		err = f.fail(store.ErrStaleTable)
		p.txn.spoil(err)
	}
	f.part.done(f.size, err)
	p.leave(f)
	p.finish(f, err)
}

// refuse ends a flight that kgo did not get. Its promise is called later: the
// caller may hold a lock that the promise takes.
func (p *Producer) refuse(f *flight, err error) {
	f.count(err)
	p.answer(f, err)
}

// answer ends a flight whose outcome does not come from kgo.
func (p *Producer) answer(f *flight, err error) {
	if !p.answers.put(f, err) {
		p.finish(f, err)
	}
}

// finish calls the caller's promise.
func (p *Producer) finish(f *flight, err error) {
	p.serial.Lock()
	f.report(err)
	if f.promise != nil {
		f.promise(f.caller, err)
	}
	p.serial.Unlock()
	p.pending.done()
}

// expire takes a flight out of its tenant's queue because its caller's context
// has ended.
func (p *Producer) expire(g *gate, f *flight) {
	if g.shard.pull(g, f) {
		p.refuse(f, f.fail(fmt.Errorf("while the tenant was held back: %w", f.ctx.Err())))
	}
}

// failQueued ends what Close could not wait for.
func (p *Producer) failQueued() {
	for _, topic := range p.topics.Range {
		for i := range topic.(*topicState).gates.shards {
			s := &topic.(*topicState).gates.shards[i]
			for _, f := range s.drop() {
				p.refuse(f, f.fail(ErrClosed))
			}
			for _, f := range s.dropLate() {
				p.refuse(f, f.fail(fmt.Errorf("%w: %w", ErrClosed, store.ErrStaleTable)))
			}
		}
	}
}
