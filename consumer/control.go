package consumer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/offset"
)

// Act says who does something to a tenant, and why. Both are logged with it.
type Act struct{ Actor, Reason string }

// Effect is what an act came to.
type Effect struct {
	// Lanes is how many of the tenant's lanes it concerned.
	Lanes int
	// Committed says that the group's commits tell of it, so that it outlives
	// this worker. False: nothing of the tenant is unfinished here, or more
	// lanes are behind than a commit can name, or the commit was not
	// acknowledged in time. The act holds at this worker all the same.
	Committed bool
}

var (
	// ErrNotRunning is the answer to an act on a Runtime that has not joined
	// its group yet, or that has stopped.
	ErrNotRunning = errors.New("the worker does not run")
	// ErrRecovering is the answer when the worker, just started, has not found
	// yet what the commits say of the tenant.
	ErrRecovering = errors.New("the worker has not found the tenant's records again yet")
	// ErrNotOwned is wrapped when a partition is not one of this worker's.
	ErrNotOwned = errors.New("the partition is not owned by this worker")
	// ErrNotFirst is wrapped when a record is not the first unfinished one of
	// a lane of its tenant.
	ErrNotFirst = errors.New("it is not the first unfinished record of its lane")
	// ErrNotInTrouble is wrapped when a record that is to be skipped is
	// neither parked nor failing, and its tenant is not paused.
	ErrNotInTrouble = errors.New("it is neither parked nor failing, and its tenant is not paused")
	// ErrInHand is wrapped when a record that is to be skipped is being
	// handled at this moment.
	ErrInHand = errors.New("it is being handled")
	// ErrNotInMemory is wrapped when a record that is to be skipped has to be
	// read again first.
	ErrNotInMemory = errors.New("it is not in memory yet")
)

// PauseTenant begins no more handlings of a tenant's records at this worker,
// in any partition, until ResumeTenant. What runs goes on; records go on to be
// read, and wait. The pause goes along to another worker with each partition
// in which the tenant has unfinished records. It answers once that is
// committed, or cannot be.
func (rt *Runtime) PauseTenant(ctx context.Context, tenant []byte, act Act) (Effect, error) {
	if err := rt.controllable(); err != nil {
		return Effect{}, err
	}
	e := rt.engine
	e.mu.Lock()
	e.pauseTenant(tenant, pauseNote{act, time.Now()})
	lanes := e.lanesOfTenant(tenant)
	e.mu.Unlock()
	rt.logAct("tenant paused", tenant, act, zap.Int("lanes", lanes))
	return Effect{Lanes: lanes, Committed: lanes > 0 && rt.confirm(ctx, func() bool { return e.flagsCommitted(tenant) })}, nil
}

// ResumeTenant undoes PauseTenant, and lets the tenant's parked lanes go on,
// each with the record that it was parked for. Effect.Lanes counts lanes that
// had stood still. It answers once the commits say so.
func (rt *Runtime) ResumeTenant(ctx context.Context, tenant []byte, act Act) (Effect, error) {
	if err := rt.controllable(); err != nil {
		return Effect{}, err
	}
	if err := rt.awaitNames(ctx, tenant); err != nil {
		return Effect{}, err
	}
	lanes := rt.engine.resumeTenant(tenant)
	rt.logAct("tenant resumed", tenant, act, zap.Int("lanes", lanes))
	return Effect{Lanes: lanes, Committed: rt.confirm(ctx, func() bool { return rt.engine.flagsCommitted(tenant) })}, nil
}

// Place names a record.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
}

// String is the place as topic/partition/offset.
func (at Place) String() string { return fmt.Sprintf("%s/%d/%d", at.Topic, at.Partition, at.Offset) }

// SkipRecord ends a record unhandled, and lets its lane go on with the next.
// The record must be the first unfinished one of a lane of the tenant, and
// parked, failing, or its tenant paused: so no record is skipped but the one
// that an operator has looked at. It answers once the commits say that the
// record is done.
func (rt *Runtime) SkipRecord(ctx context.Context, tenant []byte, at Place, act Act) (Effect, error) {
	if err := rt.controllable(); err != nil {
		return Effect{}, err
	}
	if err := rt.awaitNames(ctx, tenant); err != nil {
		return Effect{}, err
	}
	p, name, err := rt.engine.skipRecord(tenant, at)
	if err != nil {
		return Effect{}, fmt.Errorf("record %s of tenant %q: %w", at, tenant, err)
	}
	rt.logAct("record skipped", tenant, act,
		zap.String("topic", at.Topic), zap.Int32("partition", at.Partition), zap.Int64("offset", at.Offset))
	done := rt.confirm(ctx, func() bool { return rt.engine.doneCommitted(p, name, at.Offset) })
	return Effect{Lanes: 1, Committed: done}, nil
}

// Limits are what one tenant gets. The zero value of a field means what its
// tier says.
type Limits struct {
	// Weight is its share of handler time relative to its tier's other tenants
	// with work, at least 0.
	Weight float64
	// Concurrency is how many of its lanes run at once. Negative: no limit.
	Concurrency int
	// Rate is how many of its records are begun a second, and Burst how many
	// at once after a rest. A negative rate: no limit.
	Rate, Burst float64
}

// validate names the first field that is out of its range.
func (l Limits) validate() error {
	for _, f := range []struct {
		name  string
		value float64
		least float64
	}{{"Weight", l.Weight, 0}, {"Rate", l.Rate, math.Inf(-1)}, {"Burst", l.Burst, 0}} {
		if math.IsNaN(f.value) || math.IsInf(f.value, 0) || f.value < f.least {
			return fmt.Errorf("consumer.Limits: %s %v is out of range", f.name, f.value)
		}
	}
	return nil
}

// LimitTenant gives a tenant limits of its own at this worker, at once; the
// zero Limits take them back. They end with the worker: what is to stay belongs
// into the routing table, as a tier.
func (rt *Runtime) LimitTenant(tenant []byte, limits Limits, act Act) error {
	if err := limits.validate(); err != nil {
		return err
	}
	rt.engine.limitTenant(tenant, limits)
	rt.logAct("tenant limited", tenant, act, zap.Float64("weight", limits.Weight), zap.Int("concurrency", limits.Concurrency),
		zap.Float64("rate", limits.Rate), zap.Float64("burst", limits.Burst))
	return nil
}

// controllable says that there is a client to commit with.
func (rt *Runtime) controllable() error {
	select {
	case <-rt.connected:
		if !rt.stopped.Load() {
			return nil
		}
	default:
	}
	return ErrNotRunning
}

// namesPause is the wait between two looks at what is found again.
const namesPause = 20 * time.Millisecond

// awaitNames waits until what commits say of a tenant's lanes is found in the
// log again: until then there is nothing to resume.
func (rt *Runtime) awaitNames(ctx context.Context, tenant []byte) error {
	for rt.engine.named(tenant) {
		if ctx.Err() != nil {
			return fmt.Errorf("tenant %q: %w", tenant, ErrRecovering)
		}
		pause(ctx, namesPause)
	}
	return nil
}

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

func (rt *Runtime) logAct(what string, tenant []byte, act Act, more ...zap.Field) {
	rt.log.Info(what, append(more, zap.ByteString("tenant", tenant),
		zap.String("actor", act.Actor), zap.String("reason", act.Reason))...)
}

// confirmations is how many commits are waited for until one tells of an act.
const confirmations = 3

// confirm commits until the acknowledged commits say what ok looks for.
func (rt *Runtime) confirm(ctx context.Context, ok func() bool) bool {
	for range confirmations {
		limited, cancel := context.WithTimeout(ctx, commitTimeout)
		rt.commit(limited, rt.engine.owned(nil))
		cancel()
		if ok() {
			return true
		}
		pause(ctx, rt.cfg.CommitInterval)
	}
	return ok()
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
