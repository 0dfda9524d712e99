package consumer

import (
	"fmt"
	"slices"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/offset"
)

// named says that a name of a commit is left that may be a lane of the tenant.
func (e *engine) named(tenant []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.parts {
		if p.progress != nil && p.progress.Recovering() {
			if _, waits := p.progress.Claim(offset.Name(tenant)); waits {
				return true
			}
		}
	}
	return false
}

// resumeTenant ends a pause and unparks lanes. It returns how many had stood
// still.
func (e *engine) resumeTenant(tenant []byte) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	paused, parked := e.unpauseTenant(tenant), 0
	for _, p := range e.parts {
		parked += e.unpark(p, tenant)
	}
	e.wakeOne()
	e.signalHungry() // what they have skipped is wanted now
	if paused {
		return e.lanesOfTenant(tenant)
	}
	return parked
}

// unpark resumes the parked lanes of a tenant in p and returns their number.
func (e *engine) unpark(p *partition, tenant []byte) int {
	var keys, foreign [][]byte
	for l := range e.lanesOf(p) {
		if l.Parked && string(l.Tenant) == string(tenant) {
			keys = append(keys, slices.Clone(l.Key))
			p.troubles.over(l.First)
			if l.Records > 0 && l.Head.in.fault != nil {
				foreign = append(foreign, keys[len(keys)-1])
			}
		}
	}
	for _, key := range foreign {
		e.unload(p, key)
	}
	for _, key := range keys {
		e.sched.ResumeLane(p.lanes, key)
	}
	return len(keys)
}

// skipRecord finishes a record unhandled. It returns the lane's name.
func (e *engine) skipRecord(tenant []byte, at Place) (*partition, uint32, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.parts[topicPartition{at.Topic, at.Partition}]
	if p == nil {
		return nil, 0, ErrNotOwned
	}
	l, err := e.skippable(p, tenant, at.Offset)
	if err != nil {
		return nil, 0, err
	}
	key := slices.Clone(l.Key)
	it, ok := e.sched.SkipFirst(p.lanes, key)
	if !ok {
		return nil, 0, ErrInHand
	}
	e.hold(p, -it.Rec.in.freed(&it))
	e.failed = slices.DeleteFunc(e.failed, func(f failedLetter) bool { return f.p == p && f.in.rec.Offset == at.Offset })
	p.troubles.over(at.Offset)
	e.metrics.skipped.WithLabelValues(p.topic).Inc()
	e.wakeOne()
	e.signalRoom()
	e.signalHungry()
	e.signalChanged()
	return p, offset.Name(key), nil
}

// skippable finds the lane whose first record is at an offset, and says why
// that must not be skipped.
func (e *engine) skippable(p *partition, tenant []byte, at int64) (lane.State[entry], error) {
	first := int64(unknownOffset)
	for l := range e.lanesOf(p) {
		if string(l.Tenant) != string(tenant) {
			continue
		}
		if l.First != at {
			first = l.First
			continue
		}
		switch {
		case l.InHand > 0:
			return l, ErrInHand
		case l.Records == 0:
			return l, ErrNotInMemory
		case !l.Parked && !l.Held && !l.BackOff && l.Attempts == 0 && !e.paused(tenant):
			return l, ErrNotInTrouble
		}
		return l, nil
	}
	if first != unknownOffset {
		return lane.State[entry]{}, fmt.Errorf("%w: that is at offset %d", ErrNotFirst, first)
	}
	return lane.State[entry]{}, ErrNotFirst
}

func (e *engine) paused(tenant []byte) bool {
	_, paused := e.pauses[string(tenant)]
	return paused
}

// limitTenant applies an operator's limits.
func (e *engine) limitTenant(tenant []byte, l Limits) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.limits, string(tenant))
	if l != (Limits{}) {
		if e.limits == nil {
			e.limits = make(map[string]Limits)
		}
		e.limits[string(tenant)] = l
	}
	e.setTenant(tenant)
	e.wakeOne()
}

// setTenant gives a tenant an operator's limits, and otherwise what its lanes
// allow.
func (e *engine) setTenant(tenant []byte) {
	l := lane.Tenant(e.limits[string(tenant)])
	if l.Concurrency == 0 && e.unlocked(tenant) {
		l.Concurrency = -1
	}
	e.sched.SetTenant(tenant, l, e.now())
}

// unlocked says that a tenant's lanes run together where nothing limits them:
// those of records without a tenant, which are not one tenant's, and those of
// a tenant that is spread by key. A limit of its tier holds.
func (e *engine) unlocked(tenant []byte) bool {
	if len(tenant) == 0 {
		return true
	}
	for _, rt := range *e.routes.Load() {
		if rt.spread[string(tenant)] && rt.topic.Tier(tenant).MaxConcurrency == 0 {
			return true
		}
	}
	return false
}

// flagsCommitted says that the acknowledged commits tell of each lane of a
// tenant whether it is parked or paused.
func (e *engine) flagsCommitted(tenant []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.parts {
		var said map[uint32]offset.Lane
		for l := range e.lanesOf(p) {
			if string(l.Tenant) != string(tenant) {
				continue
			}
			if said == nil {
				said = p.said()
			}
			named := said[offset.Name(l.Key)]
			if named.Parked != l.Parked || named.Paused != e.paused(tenant) {
				return false
			}
		}
	}
	return true
}

// said are the lanes that the last acknowledged commit of p names.
func (p *partition) said() map[uint32]offset.Lane {
	lanes := make(map[uint32]offset.Lane)
	c, _ := offset.Decode(p.metadata)
	for _, l := range c.Lanes {
		lanes[l.Name] = l
	}
	return lanes
}

// doneCommitted says that the acknowledged commit of p shows a record of a
// lane to be done.
func (e *engine) doneCommitted(p *partition, name uint32, at int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.committed > at {
		return true
	}
	c, why := offset.Decode(p.metadata)
	return why == offset.Valid && c.Done(name, at)
}
