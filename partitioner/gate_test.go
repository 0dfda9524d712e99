package partitioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func values(records []*kgo.Record) (list []string) {
	for _, r := range records {
		list = append(list, string(r.Value))
	}
	return list
}

func TestAPausedTenantWaitsAndKeepsItsOrder(t *testing.T) {
	c := cluster(t, 2)
	src := swapping(tableOf(t, pinned(2, map[string]int32{"acme": 0, "other": 1})))
	p := producing(t, c, src, ProducerConfig{})
	var before, held, other outcome
	for i := range 10 {
		p.Produce(context.Background(), record("acme", i), before.promise())
	}
	p.Pause("orders", []byte("acme"))
	before.ok(t)
	for i := 10; i < 20; i++ {
		p.Produce(context.Background(), record("acme", i), held.promise())
		p.Produce(context.Background(), record("other", i), other.promise())
	}
	other.ok(t)
	if n := p.InFlight("orders", []byte("acme")); n != 0 {
		t.Errorf("%d records in flight of a tenant that is held back", n)
	}
	held.mu.Lock()
	if len(held.errs) != 0 {
		t.Errorf("%d records left while their tenant was held back", len(held.errs))
	}
	held.mu.Unlock()

	src.place(t, "acme", 1) // the queue goes by the new table
	p.Resume("orders", []byte("acme"))
	for i := 20; i < 30; i++ {
		p.Produce(context.Background(), record("acme", i), held.promise())
	}
	held.ok(t)
	home := map[int32][]string{}
	for _, r := range read(t, c, "orders", 40) {
		if string(r.Key) == "acme" {
			home[r.Partition] = append(home[r.Partition], string(r.Value))
		}
	}
	if got, want := strings.Join(home[0], " "), "0 1 2 3 4 5 6 7 8 9"; got != want {
		t.Errorf("partition 0 holds %s", got)
	}
	if got, want := strings.Join(home[1], " "), "10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29"; got != want {
		t.Errorf("partition 1 holds %s", got)
	}
}

func TestAFullQueueRefusesWithoutLosingWhatItHolds(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{MaxQueuedRecords: 3})
	p.Pause("orders", []byte("acme"))
	var kept, refused outcome
	for i := range 3 {
		p.Produce(context.Background(), record("acme", i), kept.promise())
	}
	p.Produce(context.Background(), record("acme", 3), refused.promise())
	if err := refused.wait(t)[0]; !errors.Is(err, ErrTenantMoving) || !strings.Contains(err.Error(), `tenant "acme"`) {
		t.Errorf("error is %v", err)
	}
	p.Resume("orders", []byte("acme"))
	kept.ok(t)
	if got := values(read(t, c, "orders", 3)); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("wrote %v", got)
	}
}

func TestTheQueueIsBoundedInBytes(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{MaxQueuedBytes: 1000})
	p.Pause("orders", []byte("acme"))
	defer p.Resume("orders", []byte("acme"))
	var refused outcome
	p.Produce(context.Background(), record("acme", strings.Repeat("x", 2000)), nil) // an empty queue takes any
	p.Produce(context.Background(), record("acme", "y"), refused.promise())
	if err := refused.wait(t)[0]; !errors.Is(err, ErrTenantMoving) {
		t.Errorf("error is %v", err)
	}
}

func TestACallersContextEndsItsPlaceInTheQueue(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{})
	p.Pause("orders", []byte("acme"))
	ctx, cancel := context.WithCancel(context.Background())
	var gone, stays outcome
	p.Produce(context.Background(), record("acme", 1), stays.promise())
	p.Produce(ctx, record("acme", 2), gone.promise())
	p.Produce(context.Background(), record("acme", 3), stays.promise())
	cancel()
	if err := gone.wait(t)[0]; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	p.Resume("orders", []byte("acme"))
	stays.ok(t)
	if got := values(read(t, c, "orders", 2)); !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("wrote %v", got)
	}
}

func TestProduceRefusesAContextThatHasEnded(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var o outcome
	p.Produce(ctx, record("acme", 1), o.promise())
	if err := o.wait(t)[0]; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "partition") {
		t.Errorf("error is %v", err)
	}
}

func TestSettleWaitsForWhatIsInFlight(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{})
	fault := withoutLeader(c, 0)
	var o outcome
	p.Produce(context.Background(), record("acme", 1), o.promise())
	p.Pause("orders", []byte("acme"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Settle(ctx, "orders", []byte("acme")); !errors.Is(err, context.Canceled) || p.InFlight("orders", []byte("acme")) != 1 {
		t.Errorf("error is %v, %d in flight", err, p.InFlight("orders", []byte("acme")))
	}
	var settled sync.WaitGroup
	settled.Go(func() {
		if err := p.Settle(patient(t), "orders", []byte("acme")); err != nil {
			t.Error(err)
		}
	})
	fault.Remove()
	settled.Wait()
	o.ok(t)
	if n := p.InFlight("orders", []byte("acme")); n != 0 {
		t.Errorf("%d in flight", n)
	}
	p.Resume("orders", []byte("acme"))
}

func TestPausingWhileTheQueueDrainsKeepsOrder(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{MaxTenantRecords: 2})
	var o outcome
	const n = 300
	p.Pause("orders", []byte("acme"))
	for i := range n {
		p.Produce(context.Background(), record("acme", i), o.promise())
		if i%3 == 0 {
			p.Resume("orders", []byte("acme"))
		} else {
			p.Pause("orders", []byte("acme"))
		}
	}
	p.Resume("orders", []byte("acme"))
	o.ok(t)
	for i, v := range values(read(t, c, "orders", n)) {
		if v != strconv.Itoa(i) {
			t.Fatalf("place %d holds record %s", i, v)
		}
	}
}

func TestIdleTenantsAreForgotten(t *testing.T) {
	c := cluster(t, 4)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 4})), ProducerConfig{})
	const tenants = 2 * gateShards * idleGates
	var o outcome
	for i := range tenants {
		p.Produce(context.Background(), record(fmt.Sprint("tenant-", i), i), o.promise())
	}
	o.ok(t)
	left := 0
	gates := p.topicOf("orders").gates
	for i := range gates.shards {
		gates.shards[i].mu.Lock()
		left += len(gates.shards[i].gates)
		gates.shards[i].mu.Unlock()
	}
	if left > gateShards*idleGates {
		t.Errorf("%d gates for tenants without anything in flight", left)
	}
}

// TestAFailedRecordIsFollowedByABarrier covers what a promise cannot tell: a
// record that failed may still be on its way. After Settle it must not be.
func TestAFailedRecordIsFollowedByABarrier(t *testing.T) {
	c := cluster(t, 2)
	p := producing(t, c, store.Fixed(tableOf(t, pinned(2, map[string]int32{"acme": 1}))), ProducerConfig{})
	settle := func() {
		t.Helper()
		if err := p.Settle(patient(t), "orders", []byte("acme")); err != nil {
			t.Fatal(err)
		}
	}
	settle() // nothing happened
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: kerr.InvalidRecord, Count: 1})
	if err := p.ProduceSync(patient(t), record("acme", "fails")).FirstErr(); !errors.Is(err, kerr.InvalidRecord) {
		t.Fatal(err)
	}
	settle()
	settle() // known by now
	if err := p.ProduceSync(patient(t), record("acme", "follows")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	settle()
	got := read(t, c, "orders", 2)
	if len(got) != 2 || got[0].Partition != 1 || string(got[1].Value) != "follows" {
		t.Fatalf("wrote %v", values(got))
	}
	control, err := routing.ParseControl([]byte(header(got[0], routing.HeaderControl)[0]))
	if err != nil || control.Kind != routing.ControlBarrier || control.Unit.Tenant != "acme" || control.Epoch != 1 {
		t.Errorf("control %+v, %v", control, err)
	}
	if len(got[0].Value) == 0 || string(got[0].Key) != string(routing.ControlKey(control.Move)) {
		t.Errorf("key %q, value %q", got[0].Key, got[0].Value)
	}
}

func TestATenantInAnotherTopicIsHeldBackByEitherName(t *testing.T) {
	c := cluster(t, 4, kfake.SeedTopics(2, "cell"))
	src := store.Fixed(tableWith(t, map[string]routing.TopicSpec{
		"orders": {Partitions: 4, Placements: map[string]routing.Placement{"umbrella": {Topic: "cell", Epoch: 1}}},
		"cell":   {Partitions: 2},
	}))
	p := producing(t, c, src, ProducerConfig{})
	tenant := []byte("umbrella")
	var o outcome
	for i, name := range []string{"orders", "cell"} {
		p.Pause(name, tenant)
		p.Produce(context.Background(), record("umbrella", i), o.promise())
		if n := p.topicOf(name).gates.queued(); n != 1 || p.InFlight("orders", tenant)+p.InFlight("cell", tenant) != 0 {
			t.Errorf("%s: %d records wait, %d and %d in flight", name, n, p.InFlight("orders", tenant), p.InFlight("cell", tenant))
		}
		p.Resume(name, tenant)
		o.ok(t)
	}
	p.Pause("orders", tenant)
	p.Pause("cell", tenant)
	for i := 2; i < 10; i++ {
		p.Produce(context.Background(), record("umbrella", i), o.promise())
	}
	p.Resume("orders", tenant) // they go on to the other gate
	eventually(t, "the queue has moved on", func() bool { return p.topicOf("cell").gates.queued() == 8 })
	p.Produce(context.Background(), record("umbrella", 10), o.promise())
	p.Resume("cell", tenant)
	o.ok(t)
	if got := strings.Join(values(read(t, c, "cell", 11)), " "); got != "0 1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("wrote %s", got)
	}
	for _, name := range []string{"orders", "cell"} {
		if n := p.InFlight(name, tenant); n != 0 {
			t.Errorf("%s: %d in flight", name, n)
		}
	}
}
