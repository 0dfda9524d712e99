package partitioner

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// registry is a Source that keeps account of one Producer, whose lease ends and
// comes back when a test says so.
type registry struct {
	*swap

	mu sync.Mutex
	// guards all below
	cfg   store.SessionConfig
	stale bool
	terms uint64
	told  []string      // acknowledged last
	news  chan struct{} // closed and replaced when told changes
}

func registering(t *routing.Table) *registry {
	return &registry{swap: swapping(t), news: make(chan struct{})}
}

func (r *registry) register(_ context.Context, cfg store.SessionConfig) (registration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cfg, r.terms = cfg, 1
	return r, nil
}

func (r *registry) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stale {
		return store.ErrStaleTable
	}
	return nil
}

func (r *registry) Registrations() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.terms
}

func (r *registry) Announce() {
	drained := r.cfg.Drained()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = drained
	close(r.news)
	r.news = make(chan struct{})
}

func (r *registry) Close(context.Context) error { return nil }

// lapse ends the lease, and renew registers anew.
func (r *registry) lapse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = true
}

func (r *registry) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = false
	r.terms++
}

func (r *registry) acknowledged(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.told, id)
}

// awaitDrained waits for the acknowledgement of a move.
func (r *registry) awaitDrained(t testing.TB, id string) {
	t.Helper()
	for ctx := patient(t); ; {
		r.mu.Lock()
		news, done := r.news, slices.Contains(r.told, id)
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			t.Fatalf("move %s was not acknowledged", id)
		}
	}
}

// edit publishes an edited table.
func (s *swap) edit(t testing.TB, edits ...routing.Edit) *routing.Topic {
	t.Helper()
	next, err := s.Table().Edit(edits...)
	if err != nil {
		t.Fatal(err)
	}
	s.set(next)
	topic, _ := next.Topic("orders")
	return topic
}

func deadline() time.Time { return time.UnixMilli(4_000_000_000_000) }

// prepare opens a move of a tenant.
func (s *swap) prepare(t testing.TB, id, tenant string, to int32) {
	t.Helper()
	s.edit(t, routing.PrepareMove("orders", routing.Move{ID: id, Tenant: tenant, To: []int32{to}, Deadline: deadline()}))
}

// prepareSlots opens a move of the slots of some tenants.
func (s *swap) prepareSlots(t testing.TB, id string, to int32, slots ...int32) {
	t.Helper()
	topic, _ := s.Table().Topic("orders")
	slices.Sort(slots)
	m := routing.Move{ID: id, Deadline: deadline()}
	for _, slot := range slices.Compact(slots) {
		m.Slots = append(m.Slots, routing.SlotMove{Slot: slot, From: topic.SlotPartition(slot), To: to})
	}
	s.edit(t, routing.PrepareMove("orders", m))
}

// finish switches a move with fences behind what its old homes hold, as a
// coordinator writes them; ahead moves each back, as if what lies behind were
// written later.
func (s *swap) finish(t testing.TB, c *kfake.Cluster, id string, ahead int64) {
	t.Helper()
	topic, _ := s.Table().Topic("orders")
	m, _ := topic.Move(id)
	var fences []routing.Fence
	for _, p := range slices.Sorted(slices.Values(m.From)) {
		fences = append(fences, routing.Fence{Partition: p, Offset: c.PartitionInfo("orders", p).HighWatermark - ahead})
	}
	s.edit(t, routing.SwitchMove("orders", id, fences))
}

func (s *swap) slotOf(tenant string) int32 {
	topic, _ := s.Table().Topic("orders")
	return topic.Lookup([]byte(tenant), nil).Slot
}

func stampOf(t testing.TB, headers []string) routing.RouteHeader {
	t.Helper()
	if len(headers) != 1 {
		t.Fatalf("%d stamps", len(headers))
	}
	stamp, err := routing.ParseRouteHeader([]byte(headers[0]))
	if err != nil {
		t.Fatal(err)
	}
	return stamp
}

// wrapped is orders for wrapped producers, with tenants pinned.
func wrapped(partitions int32, tenants map[string]int32) routing.TopicSpec {
	spec := pinned(partitions, tenants)
	spec.Wrapped, spec.Epoch = true, 1
	return spec
}
