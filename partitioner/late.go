package partitioner

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance/move"
)

// A late record is one that a broker acknowledged after the lease had ended
// under which it was sent. A move may have ended its partition before it, so
// that workers set it aside: it must not be reported as written before a table
// is seen that knows.
//
//	answered, lease held all the while ──────────────────────────────▶ promise
//	answered later ──▶ late ──lease again──▶ before the fence, or none ─▶ promise
//	                    ▲  │                 behind it ──▶ sent again, before anything newer
//	                    └──┘ its move is open
//
// Since a lease starts with a table that has all moves that did not wait for
// this Producer, nothing here depends on a clock being right.

// mayAcknowledge tells whether a record that was written surely lies before
// every fence.
func (p *Producer) mayAcknowledge(f *flight) bool {
	if !f.wrapped || f.gates == 0 || p.member.with == nil {
		return true
	}
	session := p.member.present()
	// In this order: a lease that holds now is of the term that is read next or
	// of an earlier one, and none can be earlier than the record's.
	leased := session.Err() == nil
	return move.InTime(f.term, session.Registrations(), leased)
}

// keep takes a late record's promise back until it is decided.
func (p *Producer) keep(f *flight) {
	f.part.written(f.size)
	if f.by != nil {
		f.by.inFlight.Add(-1)
	}
	p.budget.give(f.size)
	home := int(f.gates) - 1
	p.leaveGates(f, home)
	p.moves.late.Add(1)
	p.metrics.late(f.rec.Topic)
	f.entered[home].shard.keep(f.entered[home], f, f.slotted(home)) // from here on it is watchMoves'
	p.moves.wake()
}

// keep ends a late record's time in flight and holds everything newer back.
func (s *shard) keep(g *gate, f *flight, slotted int64) {
	s.mu.Lock()
	g.late = append(g.late, f)
	g.held |= byLate
	s.mu.Unlock()
	s.give(g, f.size, slotted) // drains nothing, since the gate is held
}

// verdict is what becomes of a late record.
type verdict uint8

const (
	undecided verdict = iota
	acknowledge
	sendAgain
	giveUp
)

// decideLate decides what can be decided, and gives how many late records are
// left.
func (p *Producer) decideLate() (left int64) {
	if p.moves.late.Load() == 0 {
		return 0
	}
	// The lease holds first, and the table is read second: so it is one that
	// knows of every fence that may lie before a record that was answered.
	stale := p.member.present().Err() != nil
	table := p.src.Table()
	for name, state := range p.topics.Range {
		topic, _ := table.Topic(name.(string))
		for i := range state.(*topicState).gates.shards {
			s := &state.(*topicState).gates.shards[i]
			p.settleLate(s.decide(func(f *flight) verdict { return p.judge(f, topic, stale) }))
		}
	}
	return p.moves.late.Load()
}

// judge decides one late record by a topic of the present table.
func (p *Producer) judge(f *flight, topic *routing.Topic, stale bool) verdict {
	if p.deliveryTimeout > 0 && time.Since(f.rec.Timestamp) > p.deliveryTimeout {
		return giveUp
	}
	if stale {
		return undecided
	}
	if topic == nil {
		return acknowledge
	}
	placed := move.Placed{
		Tenant: f.tenant, Slot: topic.Lookup(f.tenant, f.rec.Key).Slot, Kind: f.kind, Epoch: f.epoch,
		Partition: f.rec.Partition, Offset: f.rec.Offset,
	}
	switch move.Late(topic, placed) {
	case move.Acknowledge:
		return acknowledge
	case move.Resend:
		return sendAgain
	case move.Wait:
	}
	return undecided
}

// decided is what became of a shard's late records.
type decided struct {
	acknowledged, givenUp []*flight
	again                 []string // topics of those that are in their gates' queues
	drain                 []*gate
}

// decide moves each record that is sent again to the front of its gate's queue,
// by its sequence, and opens the gates where none is left undecided.
func (s *shard) decide(judge func(*flight) verdict) (d decided) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gates {
		if len(g.late) == 0 {
			continue
		}
		slices.SortFunc(g.late, func(a, b *flight) int { return cmp.Compare(a.seq, b.seq) })
		g.late = slices.DeleteFunc(g.late, func(f *flight) bool {
			switch judge(f) {
			case undecided:
				return false
			case acknowledge:
				d.acknowledged = append(d.acknowledged, f)
			case giveUp:
				d.givenUp = append(d.givenUp, f)
			case sendAgain:
				d.again = append(d.again, f.rec.Topic)
				f.sendAgain()
				g.push(f, true, limit{})
			}
			return true
		})
		if s.settle(g) {
			d.drain = append(d.drain, g)
		}
	}
	return d
}

func (p *Producer) settleLate(d decided) {
	p.moves.late.Add(-int64(len(d.acknowledged) + len(d.givenUp) + len(d.again)))
	for _, f := range d.acknowledged {
		f.part.acknowledged(f.size)
		p.answer(f, nil)
	}
	for _, f := range d.givenUp {
		p.refuse(f, f.fail(store.ErrStaleTable))
	}
	for _, topic := range d.again {
		p.metrics.resent(topic)
	}
	for _, g := range d.drain {
		p.mayDrain(g, true)
	}
}

// dropLate empties the lists of late records.
func (s *shard) dropLate() (dropped []*flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gates {
		dropped, g.late = append(dropped, g.late...), nil
	}
	return dropped
}
