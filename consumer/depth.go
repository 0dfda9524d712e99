package consumer

import (
	"bytes"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// Depth is how many of a tenant's records wait in this worker, those being
// handled included. What is not fetched yet is not in it.
func (rt *Runtime) Depth(tenant []byte) int {
	rt.engine.mu.Lock()
	defer rt.engine.mu.Unlock()
	st, _ := rt.engine.sched.Tenant(tenant)
	return st.Records
}

// ETA estimates how long the tenant's Depth takes to drain: its records times
// its mean handler time, divided by how many of its lanes run at once. It is a
// lower bound when other tenants compete, and 0 without work.
func (rt *Runtime) ETA(tenant []byte) time.Duration {
	rt.engine.mu.Lock()
	defer rt.engine.mu.Unlock()
	st, ok := rt.engine.sched.Tenant(tenant)
	if !ok || st.Records == 0 {
		return 0
	}
	return time.Duration(st.Records) * st.Mean / time.Duration(max(st.InHand, 1))
}

// Resume lets the parked lanes of a tenant go on, each with the record that it
// was parked for. It returns how many there were.
func (rt *Runtime) Resume(tenant []byte) int {
	e := rt.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	resumed := 0
	for _, p := range e.parts {
		for _, key := range e.parkedKeys(p, tenant) {
			if e.sched.ResumeLane(p.lanes, key) {
				resumed++
			}
		}
	}
	e.wakeOne()
	e.signalHungry() // what they have skipped is wanted now
	return resumed
}

func (e *engine) parkedKeys(p *partition, tenant []byte) [][]byte {
	var keys [][]byte
	e.sched.EachLane(p.lanes, func(l lane.State[entry]) bool {
		if l.Parked && bytes.Equal(l.Tenant, tenant) {
			keys = append(keys, bytes.Clone(l.Key))
		}
		return true
	})
	return keys
}

// Partitions is how many partitions the worker owns.
func (rt *Runtime) Partitions() int {
	rt.engine.mu.Lock()
	defer rt.engine.mu.Unlock()
	return len(rt.engine.parts)
}
