package partitioner

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
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
