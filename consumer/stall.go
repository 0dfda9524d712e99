package consumer

import (
	"bytes"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// stallWatch is what is remembered of a partition between two looks for stalls.
type stallWatch struct {
	at    int64         // first unfinished offset
	since time.Duration // when it was first seen there
	told  time.Duration // when it was last reported; 0: not since it moved
}

// stall is a partition whose first unfinished record has stayed the same.
type stall struct {
	p       *partition
	offset  int64
	since   time.Duration // how long
	tenant  []byte        // of the lane that it waits for; nil if there is none
	state   string        // what that lane does
	handler time.Duration // how long its handler has been running
}

// reportStalls says what each stalled partition waits for.
func (e *engine) reportStalls() {
	for _, s := range e.stalls() {
		e.metrics.stalls.WithLabelValues(s.p.topic, s.p.label()).Inc()
		e.log.Warn("partition does not advance", zap.String("topic", s.p.topic), zap.Int32("partition", s.p.id),
			zap.Int64("offset", s.offset), zap.ByteString("tenant", s.tenant), zap.String("state", s.state),
			zap.Duration("for", s.since), zap.Duration("handler", s.handler))
	}
}

// stalls finds what is to be reported now.
func (e *engine) stalls() []stall {
	if e.cfg.StallAfter < 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []stall
	now := e.now()
	for _, p := range e.parts {
		first := e.sched.Behind(p.lanes, 1, nil)
		w := &p.stall
		if len(first) == 0 {
			*w = stallWatch{}
			continue
		}
		if w.since == 0 || w.at != first[0].Offset {
			*w = stallWatch{at: first[0].Offset, since: now}
			continue
		}
		if now-w.since < e.cfg.StallAfter || w.told != 0 && now-w.told < e.cfg.StallAfter {
			continue
		}
		w.told = now
		found = append(found, e.describe(p, w.at, now-w.since, now))
	}
	return found
}

func (e *engine) describe(p *partition, at int64, since, now time.Duration) stall {
	s := stall{p: p, offset: at, since: since, state: "to be read again"}
	e.sched.EachLane(p.lanes, func(l lane.State[entry]) bool {
		if l.First != at {
			return true
		}
		s.tenant = bytes.Clone(l.Tenant)
		s.state = stateOf(&l)
		return false
	})
	for w := range e.workers {
		if begun := time.Duration(w.since.Load()); w.running && begun != 0 && w.part.Load() == p && s.state == stateInHand {
			s.handler = max(s.handler, now-begun)
		}
	}
	return s
}

const stateInHand = "in hand"

// gateState is what a lane waits for that waits for a move.
func gateState(why uint8) string {
	switch why {
	case whyFence:
		return "waits at a fence for its move to end"
	case whyEarlier:
		return "waits for its records in an earlier partition to be committed"
	}
	return "waits for the routing table to be read to its end"
}

// stateOf is what a lane does, in a word.
func stateOf(l *lane.State[entry]) string {
	switch {
	case l.InHand > 0:
		return stateInHand
	case l.Parked:
		return "parked"
	case l.Held:
		return "waits for its dead letter"
	case l.BackOff:
		return "backs off"
	case l.Gate != nil && l.First >= l.Gate.Offset:
		return gateState(l.Gate.Why)
	case l.Records == 0:
		return "to be read again"
	case l.Grantable:
		return "runnable"
	}
	return "limited or paused"
}
