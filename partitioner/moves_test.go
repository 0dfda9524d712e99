package partitioner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func (p *Producer) waitingRecords() int { return p.topicOf("orders").gates.queued() }

func TestAMoveHoldsItsTenantUntilItHasEnded(t *testing.T) {
	for _, switched := range []bool{true, false} {
		c := cluster(t, 3)
		src := registering(tableOf(t, wrapped(3, map[string]int32{"acme": 0, "other": 0})))
		reg := prometheus.NewPedanticRegistry()
		p := producing(t, c, src, ProducerConfig{Registerer: reg})
		slow := withoutLeader(c, 0)
		var before, held, other outcome
		p.Produce(context.Background(), record("acme", 1), before.promise())
		src.prepare(t, "m1", "acme", 1)
		p.Produce(context.Background(), record("acme", 2), held.promise())
		eventually(t, "the record waits", func() bool { return p.waitingRecords() == 1 })
		if src.acknowledged("m1") {
			t.Error("acknowledged with a record in flight")
		}
		p.Produce(context.Background(), record("other", 1), other.promise())
		slow.Remove()
		before.ok(t)
		other.ok(t)
		src.awaitDrained(t, "m1")
		p.Produce(context.Background(), record("acme", 3), held.promise())
		if n := p.waitingRecords(); n != 2 {
			t.Errorf("%d records wait", n)
		}
		want, epoch, ended := int32(1), uint64(2), "switched"
		if switched {
			src.finish(t, c, "m1", 0)
		} else {
			want, epoch, ended = 0, 1, "aborted"
			src.edit(t, routing.AbortMove("orders", "m1"))
		}
		held.ok(t)
		p.Produce(context.Background(), record("acme", 4), held.promise())
		held.ok(t)
		var got []string
		for _, r := range read(t, c, "orders", 5) {
			if stamp := stampOf(t, header(r, routing.HeaderRoute)); string(r.Key) == "acme" && string(r.Value) != "1" {
				got = append(got, string(r.Value))
				if r.Partition != want || stamp.Epoch != epoch {
					t.Errorf("record %s lies in partition %d with epoch %d", r.Value, r.Partition, stamp.Epoch)
				}
			}
		}
		if !slices.Equal(got, []string{"2", "3", "4"}) {
			t.Errorf("order %v", got)
		}
		eventually(t, "the end is seen", func() bool { return len(p.moves.drained()) == 0 })
		metrics := gather(t, reg)
		if metrics["tenantlane_producer_moves_total orders"] != 1 || metrics["tenantlane_producer_move_drain_seconds orders"] != 1 ||
			metrics["tenantlane_producer_open_moves orders"] != 0 {
			t.Errorf("%s: metrics %v", ended, metrics)
		}
		p.empty(t)
	}
}

func TestAMoveOfSlotsHoldsWhatIsRoutedByThem(t *testing.T) {
	c := cluster(t, 4)
	spec := wrapped(4, map[string]int32{"pinned": 3})
	spec.Slots = 4
	src := registering(tableOf(t, spec))
	p := producing(t, c, src, ProducerConfig{})
	in := src.slotOf("pinned")
	var moved, beside []string // tenants in the slot of pinned, and in others
	for tenant := range strings.FieldsSeq("a b c d e f g h i j k l m n o p") {
		if src.slotOf(tenant) == in {
			moved = append(moved, tenant)
		} else {
			beside = append(beside, tenant)
		}
	}
	old := int32(0)
	for _, tenant := range append(slices.Clone(moved), beside...) {
		r, err := p.ProduceSync(patient(t), record(tenant, 0)).First()
		if err != nil {
			t.Fatal(err)
		}
		if tenant == moved[0] {
			old = r.Partition
		}
	}
	slow := withoutLeader(c, 3)
	defer slow.Remove()
	var stuck, held, free outcome
	if old != 3 { // the whale of the slot is always in flight and no part of it
		p.Produce(context.Background(), record("pinned", 1), stuck.promise())
	}
	src.prepareSlots(t, "s1", (old+1)%4, in)
	src.awaitDrained(t, "s1")
	for _, tenant := range moved {
		p.Produce(context.Background(), record(tenant, 1), held.promise())
	}
	for _, tenant := range beside {
		if r := src.slotOf(tenant) % 4; r != 3 {
			p.Produce(context.Background(), record(tenant, 1), free.promise())
		}
	}
	free.ok(t)
	if n := p.waitingRecords(); n != len(moved) {
		t.Errorf("%d records wait, want %d", n, len(moved))
	}
	slow.Remove()
	src.finish(t, c, "s1", 0)
	held.ok(t)
	stuck.ok(t)
	for _, r := range held.records {
		if r.Partition != (old+1)%4 {
			t.Errorf("%s went to partition %d", r.Key, r.Partition)
		}
	}
}

func TestAMoveOfOneTenantDoesNotWaitForItsSlot(t *testing.T) {
	c := cluster(t, 2)
	spec := wrapped(2, nil)
	spec.Slots, spec.Shared = 1, []int32{0} // all tenants share it
	src := registering(tableOf(t, spec))
	p := producing(t, c, src, ProducerConfig{})
	slow := withoutLeader(c, 0)
	defer slow.Remove()
	var o outcome
	p.Produce(context.Background(), record("mate", 1), o.promise())
	src.prepare(t, "m1", "acme", 1)
	src.awaitDrained(t, "m1")
	slow.Remove()
	o.ok(t)
}

func TestAPauseAndAMoveMustBothLetGo(t *testing.T) {
	for _, resumeFirst := range []bool{true, false} {
		c := cluster(t, 2)
		src := registering(tableOf(t, wrapped(2, map[string]int32{"acme": 0})))
		p := producing(t, c, src, ProducerConfig{})
		p.Pause("orders", []byte("acme"))
		src.prepare(t, "m1", "acme", 1)
		src.awaitDrained(t, "m1")
		var o outcome
		p.Produce(context.Background(), record("acme", 1), o.promise())
		ends := []func(){
			func() { p.Resume("orders", []byte("acme")) },
			func() {
				src.finish(t, c, "m1", 0)
				eventually(t, "the end is seen", func() bool { return len(p.moves.drained()) == 0 })
			},
		}
		if !resumeFirst {
			slices.Reverse(ends)
		}
		ends[0]()
		if n := p.waitingRecords(); n != 1 {
			t.Errorf("%d records wait for the other one", n)
		}
		ends[1]()
		o.ok(t)
		if o.records[0].Partition != 1 {
			t.Errorf("went to partition %d", o.records[0].Partition)
		}
		p.empty(t)
	}
}

func TestWhatWaitsForMovesIsBounded(t *testing.T) {
	c := cluster(t, 2)
	spec := wrapped(2, nil)
	spec.Slots, spec.Shared = 1, []int32{0}
	src := registering(tableOf(t, spec))
	p := producing(t, c, src, ProducerConfig{MaxQueuedRecords: 2, MaxWaitingRecords: 3})
	src.prepareSlots(t, "s1", 1, 0)
	src.awaitDrained(t, "s1")
	var kept, refused outcome
	p.Produce(context.Background(), record("a", 1), kept.promise())
	p.Produce(context.Background(), record("a", 2), kept.promise())
	p.Produce(context.Background(), record("a", 3), refused.promise())
	p.Produce(context.Background(), record("b", 1), kept.promise())
	p.Produce(context.Background(), record("c", 1), refused.promise())
	for _, err := range refused.wait(t) {
		if !errors.Is(err, ErrTenantMoving) {
			t.Errorf("error is %v", err)
		}
	}
	src.finish(t, c, "s1", 0)
	kept.ok(t)
	p.empty(t)
	if p.waiting.records.Load() != 0 || p.waiting.bytes.Load() != 0 {
		t.Error("something still counts as waiting")
	}
}

func TestAFailedRecordKeepsTheAcknowledgementBackUntilABarrier(t *testing.T) {
	c := cluster(t, 2)
	src := registering(tableOf(t, wrapped(2, map[string]int32{"acme": 0})))
	p := producing(t, c, src, ProducerConfig{})
	bad := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: kerr.InvalidRecord, Count: -1})
	defer bad.Remove()
	if err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr(); !errors.Is(err, kerr.InvalidRecord) {
		t.Fatal(err)
	}
	src.prepare(t, "m1", "acme", 1)
	eventually(t, "the barrier fails too", func() bool { return bad.Hits() > 1 })
	if src.acknowledged("m1") {
		t.Error("acknowledged while the record may still be written")
	}
	bad.Remove()
	src.awaitDrained(t, "m1")
	control, err := routing.ParseControl([]byte(header(read(t, c, "orders", 1)[0], routing.HeaderControl)[0]))
	if err != nil || control.Kind != routing.ControlBarrier {
		t.Errorf("the log holds %+v, %v", control, err)
	}
}

// TestARecordThatWasCountedSeesAMoveThatOpenedMeanwhile opens a move between the
// routing of a record and its being counted: it must leave again.
func TestARecordThatWasCountedSeesAMoveThatOpenedMeanwhile(t *testing.T) {
	c := cluster(t, 2)
	src := &flipping{swap: swapping(tableOf(t, pinned(2, map[string]int32{"acme": 0})))}
	p := producing(t, c, src, ProducerConfig{})
	if err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	next, err := src.Table().Edit(routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{1}, Deadline: deadline()}))
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	f := newFlight(patient(t), record("acme", 2), o.promise())
	f.topic = p.topicOf("orders")
	p.pending.add()
	src.next.Store(next)
	blocked, err := p.try(f, nil)
	if blocked != nil || err != nil {
		t.Fatal(blocked, err)
	}
	if p.waitingRecords() != 1 || p.InFlight("orders", []byte("acme")) != 0 {
		t.Errorf("%d wait, %d in flight", p.waitingRecords(), p.InFlight("orders", []byte("acme")))
	}
	if next, err = next.Edit(routing.AbortMove("orders", "m1")); err != nil {
		t.Fatal(err)
	}
	src.next.Store(next)
	src.set(next)
	o.ok(t)
}

func TestAMoveInAPlacementsTopicHoldsWhoeverIsSentThere(t *testing.T) {
	c := cluster(t, 2, kfake.SeedTopics(1, "front"))
	front := pinned(1, nil)
	front.Placements["acme"] = routing.Placement{Topic: "orders", Epoch: 1}
	front.Epoch = 1
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{
		"orders": wrapped(2, map[string]int32{"acme": 0}), "front": front,
	}})
	if err != nil {
		t.Fatal(err)
	}
	src := registering(table)
	p := producing(t, c, src, ProducerConfig{})
	src.prepare(t, "m1", "acme", 1)
	src.awaitDrained(t, "m1")
	var o outcome
	p.Produce(context.Background(), &kgo.Record{Topic: "front", Key: []byte("acme")}, o.promise())
	if n := p.waitingRecords(); n != 1 {
		t.Errorf("%d records wait", n)
	}
	src.finish(t, c, "m1", 0)
	o.ok(t)
	if r := o.records[0]; r.Topic != "orders" || r.Partition != 1 {
		t.Errorf("went to %s/%d", r.Topic, r.Partition)
	}
}
