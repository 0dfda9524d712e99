package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// tableOfMoves is a wrapped topic with one pinned tenant for each coordinator.
func tableOfMoves(ctx context.Context, t *testing.T, table *store.Topic) {
	t.Helper()
	changeTable(ctx, t, table, routing.SetTopic("orders", routing.TopicSpec{Partitions: 8, Wrapped: true}),
		pinned("tenant-0", 0), pinned("tenant-1", 0))
}

func prepared(id, tenant string, partition int32, d time.Duration) routing.Edit {
	return routing.PrepareMove("orders", routing.Move{ID: id, Tenant: tenant, To: []int32{partition}, Deadline: time.Now().Add(d)})
}

// TestTableOfTwoCoordinators lets two coordinators make moves at once, each of a
// tenant of its own, with a session that acknowledges all of them.
func TestTableOfTwoCoordinators(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b broker) {
		ctx, cfg := deadline(t, 2*time.Minute), b.tableConfig(t)
		producer := openTable(ctx, t, cfg)
		tableOfMoves(ctx, t, producer)
		session, err := producer.Register(ctx, store.SessionConfig{Client: t.Name(), Drained: func() (ids []string) {
			topic, _ := producer.Table().Topic("orders")
			for _, m := range topic.Moves() {
				if m.Open() {
					ids = append(ids, m.ID)
				}
			}
			return ids
		}})
		if err != nil {
			t.Fatal(err)
		}
		announcing, done := context.WithCancel(ctx)
		var announcer, coordinators sync.WaitGroup
		announcer.Go(func() {
			for announcing.Err() == nil {
				changed := producer.Changed()
				session.Announce()
				select {
				case <-changed:
				case <-announcing.Done():
				}
			}
		})
		const moves = 6
		for c := range 2 {
			table := openTable(ctx, t, cfg)
			coordinators.Go(func() { moveAlong(ctx, t, table, c, moves) })
		}
		coordinators.Wait()
		done()
		announcer.Wait()
		if err := producer.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		topic, _ := producer.Table().Topic("orders")
		if n := len(topic.Moves()); topic.Moving() || n != 2*moves || topic.Epoch() < 2+2*moves {
			t.Errorf("%d moves, one open: %v, epoch %d", n, topic.Moving(), topic.Epoch())
		}
		for c := range 2 {
			if p := topic.Partition(fmt.Appendf(nil, "tenant-%d", c), nil); p != moves {
				t.Errorf("tenant %d is in partition %d, want %d", c, p, moves)
			}
		}
		if err := session.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// moveAlong moves a tenant through the partitions, one after the other.
func moveAlong(ctx context.Context, t *testing.T, table *store.Topic, coordinator, moves int) {
	change := func(edit routing.Edit) error {
		for {
			_, err := table.Update(ctx, store.Author{Actor: t.Name()}, func(present *routing.Table) (*routing.Table, error) { return present.Edit(edit) })
			if !errors.Is(err, store.ErrFenced) {
				return err
			}
		}
	}
	for i := range int32(moves) {
		id := fmt.Sprintf("m-%d-%d", coordinator, i)
		err := change(prepared(id, fmt.Sprintf("tenant-%d", coordinator), i+1, time.Minute))
		if err == nil {
			_, err = table.AwaitDrained(ctx, id, nil)
		}
		if err == nil {
			err = change(routing.SwitchMove("orders", id, []routing.Fence{{Partition: i, Offset: int64(i)}}))
		}
		if err != nil {
			t.Errorf("%s: %v", id, err)
			return
		}
	}
}

// TestTableMoveWhoseCoordinatorIsKilled leaves a prepared move, and half a
// switch of it in an open transaction: a follower aborts it after its deadline.
func TestTableMoveWhoseCoordinatorIsKilled(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b broker) {
		ctx, cfg := deadline(t, time.Minute), b.tableConfig(t)
		follower := openTable(ctx, t, cfg)
		tableOfMoves(ctx, t, follower)
		changeTable(ctx, t, follower, prepared("m1", "tenant-0", 5, 100*time.Millisecond))
		dead := b.client(t, kgo.TransactionalID(cfg.Prefix+"routing"), kgo.TransactionTimeout(5*time.Second))
		if err := dead.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		half := &kgo.Record{Topic: cfg.RoutingTopic(), Key: []byte("placement/orders/tenant-0"), Value: []byte(`{"v":1,"partitions":[5],"epoch":3}`)}
		if err := dead.ProduceSync(ctx, half).FirstErr(); err != nil {
			t.Fatal(err)
		}
		table := awaitRevision(ctx, t, follower, 3)
		topic, _ := table.Topic("orders")
		if p := topic.Partition([]byte("tenant-0"), nil); topic.Moved() || p != 0 {
			t.Errorf("moves are %v, the tenant is in partition %d", topic.Moves(), p)
		}
		_, err := follower.Update(ctx, store.Author{}, func(present *routing.Table) (*routing.Table, error) {
			return present.Edit(routing.SwitchMove("orders", "m1", []routing.Fence{{Partition: 0, Offset: 1}}))
		})
		if !errors.Is(err, routing.ErrMoveNotOpen) {
			t.Errorf("the coordinator that wakes up switches with %v, want ErrMoveNotOpen", err)
		}
	})
}
