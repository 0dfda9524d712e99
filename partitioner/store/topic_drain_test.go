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

// prepare opens a move of acme to a partition, with time enough for any test.
func prepare(id string, partition int32) routing.Edit {
	return prepareFor(time.Hour, id, partition)
}

func prepareFor(d time.Duration, id string, partition int32) routing.Edit {
	return routing.PrepareMove("orders", routing.Move{ID: id, Tenant: "acme", To: []int32{partition}, Deadline: time.Now().Add(d)})
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

func TestASessionThatNeverAcknowledgesIsWaitedForOneLeaseAfterItsLast(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		coordinator, closeCoordinator := opened(t, cfg)
		defer closeCoordinator()
		update(t, coordinator, wrappedOrders()...)
		producer, closeProducer := opened(t, cfg)
		s := register(t, producer, SessionConfig{Client: "killed"})
		update(t, coordinator, prepare("m1", 5))
		s.stop() // as kill -9 would: no word to anyone
		s.running.Wait()
		closeProducer()
		began := time.Now()
		over, err := coordinator.AwaitDrained(t.Context(), "m1", nil)
		if err != nil || len(over) != 1 || over[0].ID != s.ID() {
			t.Fatalf("over: %+v, %v", over, err)
		}
		if waited := time.Since(began); waited < DefaultLease-DefaultRenewal || waited > DefaultLease+2*time.Second {
			t.Errorf("waited %v for a lease of %v", waited, DefaultLease)
		}
		if sessions, err := coordinator.Sessions(t.Context()); err != nil || len(sessions) != 0 {
			t.Errorf("sessions are %+v, %v", sessions, err)
		}
	})
}

func TestAWaitEndsWithItsMove(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		coordinator, closeCoordinator := opened(t, cfg)
		defer closeCoordinator()
		update(t, coordinator, wrappedOrders()...)
		s := register(t, coordinator, SessionConfig{Client: "busy"})
		update(t, coordinator, prepare("m1", 5))
		waited := make(chan error, 1)
		waiting := make(chan struct{}, 1)
		go func() {
			_, err := coordinator.AwaitDrained(t.Context(), "m1", func([]routing.Session) { waiting <- struct{}{} })
			waited <- err
		}()
		<-waiting
		update(t, coordinator, routing.AbortMove("orders", "m1"))
		if err := <-waited; !errors.Is(err, routing.ErrMoveNotOpen) {
			t.Errorf("error is %v, want ErrMoveNotOpen", err)
		}
		if _, err := coordinator.AwaitDrained(t.Context(), "m2", nil); !errors.Is(err, routing.ErrMoveNotOpen) {
			t.Errorf("error is %v, want ErrMoveNotOpen", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAnyWriterAbortsAMovePastItsDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		left := cfg
		left.LeaveExpired = true
		coordinator, closeCoordinator := opened(t, left)
		update(t, coordinator, wrappedOrders()...)
		update(t, coordinator, prepareFor(30*time.Second, "m1", 5))
		follower, closeFollower := opened(t, left)
		defer closeFollower()
		closeCoordinator() // it is killed
		<-time.After(time.Minute)
		if topic, _ := follower.Table().Topic("orders"); !topic.Moving() {
			t.Fatal("a store that leaves expired moves alone aborted one")
		}
		worker, closeWorker := opened(t, cfg)
		defer closeWorker()
		began := time.Now()
		awaitTable(t, follower, 3)
		if took := time.Since(began); took > 2*expiryJitter {
			t.Errorf("the abort took %v", took)
		}
		topic, _ := awaitTable(t, worker, 3).Topic("orders")
		if topic.Moved() || partitionOf(t, follower.Table(), "acme") != 1 {
			t.Error("the move is still there, or its tenant elsewhere")
		}
		history, err := follower.History(t.Context())
		if err != nil || !strings.Contains(history[len(history)-1].Reason, "past its deadline") {
			t.Errorf("history is %+v, %v", history, err)
		}
	})
}
