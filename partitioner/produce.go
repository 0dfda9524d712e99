package partitioner

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// Produce hands a record over and returns; promise, which may be nil, is called
// once with the record and its error when the outcome is known. As with kgo,
// promises are called one at a time and must not block: to produce from within
// one, start a goroutine.
//
// ctx bounds the caller's own wait: for room (see [OnFull]) and in the queue of
// a tenant that is held back. Once kgo has the record, the end of ctx no longer
// ends it, since that would fail the records around it. Values of ctx, or of
// the record's Context if it has one, reach the client's hooks.
//
// The record is copied, so it may be produced again from its promise or later.
// On success its Partition, Offset, Timestamp (if it had none) and the like are
// set, and its Topic too where the tenant is placed in another one. Its own
// Timestamp counts as event time and travels in the header tl-time; the
// record's timestamp in Kafka is the time of production.
//
// An error that arises here is a [*RouteError]; others are the client's.
func (p *Producer) Produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	f := newFlight(ctx, r, promise)
	if err := p.begin(f); err != nil { //nolint:contextcheck // f has ctx
		p.refuse(f, err)
	}
}

// begin takes a flight from its caller. After an error the flight must be
// refused.
func (p *Producer) begin(f *flight) error {
	p.pending.add()
	if f.rec.Topic == "" {
		f.rec.Topic = p.topic
	}
	f.topic = p.topicOf(f.rec.Topic)
	return p.send(f, nil)
}

// send hands a flight to kgo or to its tenant's queue, waiting for room if it
// has to. An error means that it is in neither. from is the gate whose queue the
// flight comes out of, or nil if it comes from its caller.
func (p *Producer) send(f *flight, from *gate) error {
	var at *place
	for {
		if err := p.ended(f, from); err != nil {
			return p.giveUp(f, at, err)
		}
		blocked, err := p.try(f, from)
		switch {
		case blocked == nil:
			return p.giveUp(f, at, err)
		case at == nil || at.line != blocked || at.turned():
			if p.cfg.OnFull == RefuseOnFull && from == nil {
				return f.fail(blocked.full)
			}
			if at != nil && at.line != blocked {
				at.leave()
			}
			f.waited = true
			at = blocked.stand() // and try again: room may have come in between
		default:
			if err := p.wait(f, at, from); err != nil {
				return p.giveUp(f, at, fmt.Errorf("%w: %w", blocked.full, err))
			}
		}
	}
}

// giveUp leaves the line, if any, and makes the flight's error, if any.
func (p *Producer) giveUp(f *flight, at *place, err error) error {
	if at != nil {
		at.leave()
	}
	if err == nil {
		return nil
	}
	return f.fail(err)
}

// ended tells why a flight must not go on.
func (p *Producer) ended(f *flight, from *gate) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	select {
	case <-p.end(from):
		return ErrClosed
	default:
		return nil
	}
}

// end is closed when a flight must not go on: one from its caller when Close
// begins, a queued one when Close gives up.
func (p *Producer) end(from *gate) <-chan struct{} {
	if from != nil {
		return p.ctx.Done()
	}
	return p.closing
}

// lookAgain is after how long a caller in line tries again without its turn. The
// share that a tenant or partition may take grows with what others leave, and
// they tell only those who wait for the very room that they leave.
const lookAgain = 50 * time.Millisecond

func (p *Producer) wait(f *flight, at *place, from *gate) error {
	again := time.NewTimer(lookAgain)
	defer again.Stop()
	select {
	case <-at.turn:
		return nil
	case <-again.C:
		return nil
	case <-f.ctx.Done():
		return f.ctx.Err()
	case <-p.end(from):
		return ErrClosed
	}
}

// try routes a flight and hands it over. If a line is returned, there is no
// room there.
//
// The order is what moves rely on: the flight is counted at its tenant's open
// gate first, and the table is read again after that. So once a gate is closed,
// or the table has a move, and nothing is in flight, no record is left that goes
// by an older table.
func (p *Producer) try(f *flight, from *gate) (*line, error) {
	for {
		table := p.table()
		if err := p.route(f, table); err != nil {
			return nil, err
		}
		if err := p.mayRoute(f, from); err != nil {
			return nil, err
		}
		if known := f.part.dest.count.Load(); known > 0 && f.partition >= known {
			if err := p.findPartition(f, from); err != nil {
				return nil, err
			}
		}
		how, blocked, err := p.enter(f, from, table)
		if how == opened {
			continue
		} else if how != passed {
			return blocked, err
		}
		if p.member.with != nil {
			f.by = p.member.routed.enter(f.revision)
		}
		if p.table() != table {
			p.leave(f)
			continue
		}
		if !f.part.take(f.size, p.budget.share(p.partitionMax, 1)) {
			p.leave(f)
			return &f.part.room.line, nil
		}
		p.handOver(f)
		return nil, nil
	}
}

// table is what records are routed by: in a transaction that of its begin.
func (p *Producer) table() *routing.Table {
	if p.txn.possible {
		if t := p.txn.table.Load(); t != nil {
			return t
		}
	}
	return p.src.Table()
}

// enter counts a flight at its gates and in the budget. A flight that has not
// passed is in a gate's queue, unless a line or an error says otherwise.
func (p *Producer) enter(f *flight, from *gate, table *routing.Table) (how passage, blocked *line, err error) {
	if f.move != nil {
		return p.enqueue(f.home().gates.shard(f.tenant), f, from, table)
	}
	for i, t := range f.gated() {
		s := t.gates.shard(f.tenant)
		g, how := s.enter(f, from, p.budget.share(p.tenantMax, 2), f.slotted(i))
		switch how { //nolint:exhaustive // enter knows no other
		case passed:
			f.entered[i] = g
			continue
		case full:
			p.leaveGates(f, i)
			return full, &g.room.line, nil
		}
		p.leaveGates(f, i) // before it is in the queue, where others take it from
		return p.enqueue(s, f, from, nil)
	}
	if !p.budget.take(f.size) {
		p.leaveGates(f, len(f.gated()))
		return full, &p.budget.line, nil
	}
	return passed, nil, nil
}

// enqueue puts a flight into the queue of its tenant's gate, unless that has
// opened meanwhile. showed is the table that has an open move of the flight, if
// that is why: it closes the gate here. Whoever opens gates looks at them after
// a newer table is published, so it finds any that was closed by this one.
func (p *Producer) enqueue(s *shard, f *flight, from *gate, showed *routing.Table) (passage, *line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, inTransaction := s.gate(f.tenant), p.txn.table.Load() != nil
	if showed != nil && p.src.Table() == showed {
		s.holdForMove(g)
	}
	switch {
	case inTransaction && (showed != nil || !g.lets(from)):
		return shut, nil, ErrTenantMoving // the move may wait for the transaction's end
	case g.lets(from):
		return opened, nil, nil
	case g.push(f, from == g, p.queueMax):
	case g.held != 0:
		return shut, nil, ErrTenantMoving
	default:
		return full, &g.room.line, nil // the queue moves
	}
	f.waited = true
	if f.ctx.Done() != nil {
		f.unwatch = context.AfterFunc(f.ctx, func() { p.expire(g, f) })
	}
	return queued, nil, nil
}

// leave undoes enter.
func (p *Producer) leave(f *flight) {
	if f.by != nil {
		f.by.inFlight.Add(-1)
	}
	p.leaveGates(f, len(f.gated()))
	p.budget.give(f.size)
}

// leaveGates undoes the first n of a flight's gates.
func (p *Producer) leaveGates(f *flight, n int) {
	for i, g := range f.entered[:n] {
		p.mayDrain(g, g.shard.give(g, f.size, f.slotted(i)))
	}
}

func (p *Producer) handOver(f *flight) {
	if f.waited {
		p.metrics.waited(f.topic.name, time.Since(f.start))
	}
	f.rec.Partition = f.partition
	if f.partition != byFallback {
		f.stamp(p.identify(f))
	}
	p.client.Produce(f, &f.rec, p.promise)
}

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

// mayDrain starts to empty a gate's queue, if that is to be done.
func (p *Producer) mayDrain(g *gate, drain bool) {
	if drain {
		p.lifecycle.start(func() { p.drain(g) })
	}
}

// drain empties a gate's queue into kgo. New records join the queue until it is
// empty, so that none overtakes.
func (p *Producer) drain(g *gate) {
	for f := g.shard.pop(g); f != nil; f = g.shard.pop(g) {
		if err := p.send(f, g); err != nil {
			p.refuse(f, err)
		}
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

// route decides where a flight goes by a table.
func (p *Producer) route(f *flight, table *routing.Table) error {
	v := f.topic.by(table)
	f.revision, f.tenant, f.kind, f.epoch = table.Revision(), nil, 0, 0
	f.gates, f.move, f.wrapped = 0, nil, v.topic != nil && v.topic.Wrapped()
	if f.reserved {
		p.placeAt(f, f.topic.own, -1)
		return ErrReservedHeader
	}
	if v.topic == nil {
		p.placeAt(f, f.topic.own, byFallback)
		return nil
	}
	tenant, ok := TenantOf(v.rule, &f.rec)
	if !ok {
		return p.routeWithoutTenant(f, v)
	}
	f.tenant = tenant
	f.passes[0], f.gates = f.topic, 1
	d, home, r := f.topic.own, v.topic, v.topic.Lookup(tenant, f.rec.Key)
	if r.Topic != "" {
		other := p.topicOf(r.Topic)
		f.passes[1], f.gates = other, 2
		d = other.own
		to, ok := table.Topic(r.Topic)
		if !ok {
			p.placeAt(f, d, byFallback)
			return nil
		}
		f.wrapped = f.wrapped || to.Wrapped()
		home, r = to, to.Lookup(tenant, f.rec.Key)
	}
	f.kind, f.epoch = r.Kind, r.Epoch
	if home.Moving() {
		f.move = home.OpenMove(tenant, r.Slot, r.Kind)
	}
	if r.Kind == routing.KindSpreadRandom {
		r.Partition = p.spread.pick(r.Partitions)
	}
	p.placeAt(f, d, r.Partition)
	if r.Partition < 0 {
		return ErrNoKey
	}
	return nil
}

func (p *Producer) routeWithoutTenant(f *flight, v *topicView) error {
	if p.own.cfg.OnNoTenant != SpreadNoTenant {
		p.placeAt(f, f.topic.own, -1)
		return ErrNoTenant
	}
	f.kind = routing.KindSpreadRandom
	p.placeAt(f, f.topic.own, p.spread.pick(v.shared))
	return nil
}

func (p *Producer) placeAt(f *flight, d *dest, partition int32) {
	f.rec.Topic, f.partition, f.part = d.name, partition, d.part(max(partition, -1))
}
