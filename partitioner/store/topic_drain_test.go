package store

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// wrappedOrders is a topic that moves are possible in, with a pinned tenant.
func wrappedOrders() []routing.Edit {
	return []routing.Edit{
		routing.SetTopic("orders", routing.TopicSpec{Partitions: 8, Wrapped: true}),
		routing.SetPlacement("orders", "acme", to(1)),
	}
}

// prepare opens a move of acme to a partition.
func prepare(id string, partition int32) routing.Edit {
	return routing.PrepareMove("orders", routing.Move{ID: id, Tenant: "acme", To: []int32{partition}, Deadline: time.Now().Add(30 * time.Second)})
}

// acknowledging is a producer's list of drained moves.
type acknowledging struct{ id atomic.Pointer[string] }

func (a *acknowledging) drained() []string {
	if id := a.id.Load(); id != nil {
		return []string{*id}
	}
	return nil
}

func TestAMoveWaitsForEachSessionThatRegisteredBefore(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		coordinator, closeCoordinator := opened(t, cfg)
		defer closeCoordinator()
		update(t, coordinator, wrappedOrders()...)
		producer, closeProducer := opened(t, cfg)
		defer closeProducer()
		var first, second acknowledging
		a := register(t, producer, SessionConfig{Client: "billing", Drained: first.drained})
		b := register(t, producer, SessionConfig{Client: "shipping", Drained: second.drained})
		update(t, coordinator, prepare("m1", 5))
		late := register(t, producer, SessionConfig{Client: "late"})
		var told [][]routing.Session
		progress := func(waiting []routing.Session) { told = append(told, waiting) }

		first.id.Store(new("m1"))
		a.Announce()
		short, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		_, err := coordinator.AwaitDrained(short, "m1", progress)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "shipping") || strings.Contains(err.Error(), "billing") {
			t.Errorf("error is %v, want shipping to be waited for", err)
		}
		if last := told[len(told)-1]; len(last) != 1 || last[0].ID != b.ID() {
			t.Errorf("the last wait was for %+v", last)
		}
		second.id.Store(new("m1"))
		b.Announce()
		began := time.Now()
		if over, err := coordinator.AwaitDrained(t.Context(), "m1", nil); err != nil || len(over) != 0 || time.Since(began) > time.Second {
			t.Errorf("over: %v, %v after %v", over, err, time.Since(began))
		}
		for _, s := range []*Session{a, b, late} {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
