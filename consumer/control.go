package consumer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"
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
