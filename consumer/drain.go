package consumer

import (
	"context"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// drain lets the workers finish what they have of these partitions, until only
// as many lanes are left unfinished as a commit can name, nothing of the rest
// can run, or ctx ends. A record that fails meanwhile is not waited for: it
// would hold up every stop. Then nothing more of the partitions is begun.
func (e *engine) drain(ctx context.Context, parts []*partition) {
	e.mu.Lock()
	e.draining++
	for _, p := range parts {
		e.sched.Drain(p.lanes, p.names())
	}
	for !e.drained(parts) {
		changed := e.changed
		e.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		}
		e.mu.Lock()
		if ctx.Err() != nil {
			break
		}
	}
	for _, p := range parts {
		e.sched.Stop(p.lanes)
	}
	e.draining--
	e.mu.Unlock()
}

// drained says that no more can be waited for.
func (e *engine) drained(parts []*partition) bool {
	for _, p := range parts {
		if p.lanes.InHand() > 0 || p.rereads.surrender != nil || e.pending(p) {
			return false
		}
	}
	return true
}

// pending says that a lane of p can run, or waits for its dead letter.
func (e *engine) pending(p *partition) bool {
	found := false
	e.sched.EachLane(p.lanes, func(l lane.State[entry]) bool {
		found = l.Grantable || l.Held
		return !found
	})
	return found
}
