package consumer

import (
	"time"
)

// Depth is how many of a tenant's records wait in this worker, those being
// handled included. What is not fetched yet is not in it.
func (rt *Runtime) Depth(tenant []byte) int { return rt.engine.statusOf(tenant).Depth }

// ETA estimates how long the tenant's Depth takes to drain: see
// TenantStatus.ETA.
func (rt *Runtime) ETA(tenant []byte) time.Duration { return rt.engine.statusOf(tenant).ETA }

// ParkedLanes is how many lanes wait for an operator. It looks at every lane.
func (rt *Runtime) ParkedLanes() int {
	rt.engine.mu.Lock()
	defer rt.engine.mu.Unlock()
	n := 0
	for _, p := range rt.engine.parts {
		n += rt.engine.parkedLanes(p)
	}
	return n
}

// Partitions is how many partitions the worker owns.
func (rt *Runtime) Partitions() int {
	rt.engine.mu.Lock()
	defer rt.engine.mu.Unlock()
	return len(rt.engine.parts)
}
