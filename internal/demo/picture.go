package demo

import (
	"fmt"
	"slices"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/top"
	"github.com/tenantlane/tenantlane/lagwatch"
)

// pictured is how many tenants of each worker are in a picture.
const pictured = 50

// picture is what the watcher saw, with what the workers' tenants do.
func (w *crew) picture(seen *lagwatch.Evaluation) *top.Snapshot {
	w.mu.Lock()
	workers := slices.Clone(w.workers)
	w.mu.Unlock()
	s := &top.Snapshot{At: seen.At, Seen: seen, Workers: len(workers)}
	for i, worker := range workers {
		for _, t := range worker.Tenants(consumer.TenantFilter{Most: pictured}) {
			s.Tenants = append(s.Tenants, top.Tenant{
				Worker: fmt.Sprintf("worker-%d", i+1), Name: string(t.Tenant), State: string(t.State),
				Depth: t.Depth, Skipped: t.Skipped, Running: t.InFlight, Rate: t.Rate, ETA: t.ETA,
			})
		}
	}
	return s
}
