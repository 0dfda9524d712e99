package consumer

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// counted is a counter's value.
func counted(t *testing.T, c *prometheus.CounterVec, labels ...string) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.WithLabelValues(labels...).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func TestR0NothingIsAdmittedBeforeTheTableWasReadToItsEnd(t *testing.T) {
	inHouse(t, 2, 1, Config{}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		w.see()
		h.send("acme", 1)
		x := h.moveTenant("m1", "acme", 1)
		stale := h.sendTo(0, "acme", "stale", 1, routing.KindTenant)
		// The group has passed the fence; only the table tells of it.
		h.commits[topicPartition{"orders", 0}] = stored{offset: x[0].Offset + 1}
		w.view.away = true
		w.assign(0)
		w.poll(100)
		w.fetch(0, 100) // the client had it already
		if s := h.seen(); s != "" || w.cursors[0] != 3 {
			t.Fatalf("handled %q by an old table, cursor %d", s, w.cursors[0])
		}
		w.view.away = false
		h.settle()
		if s := h.seen(); s != "" || len(h.quarantine) != 1 {
			t.Errorf("handled %q, %d in quarantine, want the stale record of offset %d", s, len(h.quarantine), stale)
		}
		if c := h.commits[topicPartition{"orders", 0}]; c.offset != stale+1 {
			t.Errorf("committed %d", c.offset)
		}
	})
}

func TestR0NothingIsReadAgainEitherBeforeTheTableWasRead(t *testing.T) {
	inHouse(t, 2, 1, Config{}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		w.see()
		x := h.moveTenant("m1", "acme", 1)
		stale := h.sendTo(0, "acme", "stale", 1, routing.KindTenant)
		w.view.away = true
		at := fresh()
		at.committed, at.offset, at.behindTable = stale, stale, true
		at.checkpoint = &offset.Checkpoint{Identity: testIdentity(), LeaderEpoch: 1, State: offset.State{
			Watermark: stale, Frontier: stale + 1, Lanes: []offset.Lane{{Name: offset.Name([]byte("acme")), Offset: stale}},
		}}
		w.begin(0, at)
		time.Sleep(time.Second)
		if s := h.seen(); s != "" {
			t.Fatalf("handled %q, behind the fence at %v, by an old table", s, x)
		}
		w.view.away = false
		h.settle()
		if s := h.seen(); s != "" || len(h.quarantine) != 1 {
			t.Errorf("handled %q, %d in quarantine", s, len(h.quarantine))
		}
	})
}

func TestR0APartitionOfUnwrappedProducersDoesNotWaitForTheTable(t *testing.T) {
	inHouse(t, 2, 1, Config{}, func(t *testing.T, h *house) {
		w := h.workers[0]
		spec := h.table.Spec()
		orders := spec.Topics["orders"]
		orders.Wrapped = false
		spec.Topics["orders"] = orders
		table, err := routing.NewTable(spec)
		if err != nil {
			t.Fatal(err)
		}
		h.table = table
		w.see()
		h.sendTo(0, "acme", "1", 0, routing.KindSlot)
		if behind := w.wrapped(map[string]map[int32]kgo.Offset{"orders": nil}); behind["orders"] {
			t.Error("its partitions would wait")
		}
	})
}

func TestASwapOfTwoTenantsFinishesWithTinyBuffers(t *testing.T) {
	cfg := Config{MaxRecords: 16, LaneRecords: 2, Concurrency: 2}
	inHouse(t, 2, 2, cfg, func(t *testing.T, h *house) {
		h.place("a", 0)
		h.place("b", 1)
		h.workers[0].assign(0)
		h.workers[1].assign(1)
		for i := range 100 {
			h.send("a", i+1)
			h.send("b", i+1)
		}
		h.prepare("m1", "a", 1)
		h.prepare("m2", "b", 0)
		x, y := h.fence("m1"), h.fence("m2")
		h.confirm("m1", x)
		h.confirm("m2", y)
		for i := range 100 {
			h.send("a", 101+i)
			h.send("b", 101+i)
		}
		for _, w := range h.workers {
			w.see()
		}
		h.finish(400)
		h.wantOrder(400)
	})
}

func TestABatchOfTwoThousandSlotsFinishesWithTinyBuffers(t *testing.T) {
	cfg := Config{MaxRecords: 32, LaneRecords: 2, Concurrency: 2}
	inHouse(t, 2, 2, cfg, func(t *testing.T, h *house) {
		const slots = 4096
		table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {
			Partitions: 2, Slots: slots, Wrapped: true, Shared: []int32{0},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		h.table = table
		for i, w := range h.workers {
			w.see()
			w.assign(int32(i))
		}
		const tenants = 3000
		send := func(value int) {
			for i := range tenants {
				h.send(fmt.Sprintf("t%d", i), value)
			}
		}
		send(1)
		var moves []routing.SlotMove
		for slot := range int32(2000) {
			moves = append(moves, routing.SlotMove{Slot: slot, From: 0, To: 1})
		}
		h.edit(routing.PrepareMove("orders", routing.Move{ID: "m1", Slots: moves, Deadline: time.Now().Add(time.Minute)}))
		x := h.fence("m1")
		h.confirm("m1", x)
		send(2)
		h.workers[1].see()
		h.workers[1].poll(5000)
		h.workers[1].look()
		if n := h.workers[1].left(); n != 0 {
			t.Errorf("%d records in the memory of a worker all of whose lanes wait", n)
		}
		h.finish(2 * tenants)
		h.wantOrder(2 * tenants)
	})
}

func TestStoppingDoesNotWaitForLanesThatWait(t *testing.T) {
	inHouse(t, 2, 1, Config{}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		h.moveTenant("m1", "acme", 1)
		h.send("acme", 1, 2)
		w.assign(1)
		w.poll(100)
		w.look()
		begin := time.Now()
		w.give(1)
		if d := time.Since(begin); d > 100*time.Millisecond {
			t.Errorf("the hand-over took %v", d)
		}
		if c := h.commits[topicPartition{"orders", 1}]; c.offset != 0 {
			t.Errorf("committed %d", c.offset)
		}
	})
}

func TestALaneThatWaitsDoesNotHoldTheCursor(t *testing.T) {
	for _, policy := range []TooFar{TooFarPause, TooFarDeadLetter} {
		cfg := Config{MaxDistance: 10, MaxRecords: 16, LaneRecords: 2, TooFar: policy}
		inHouse(t, 2, 1, cfg, func(t *testing.T, h *house) {
			w := h.workers[0]
			h.place("acme", 0)
			h.moveTenant("m1", "acme", 1)
			h.send("acme", 1)
			for i := range 100 {
				h.sendTo(1, "other", strconv.Itoa(i+1), 0, routing.KindSlot)
			}
			w.assign(1)
			h.settle()
			if len(w.far()) > 0 || w.cursors[1] != 101 {
				t.Errorf("policy %d: the partition is read up to %d of 101, paused %v", policy, w.cursors[1], w.far())
			}
			if st := w.statusOf([]byte("acme")); st.State != StateMoved || st.Waiting != 1 {
				t.Errorf("policy %d: the lane that waits is %+v", policy, st)
			}
		})
	}
}

func TestOperatorsSeeWhatAMovedLaneWaitsFor(t *testing.T) {
	inHouse(t, 2, 1, Config{StallAfter: time.Minute}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		h.moveTenant("m1", "acme", 1)
		h.place("other", 1)
		h.send("acme", 1, 2)
		w.assign(1)
		h.prepare("m2", "other", 0)
		h.fence("m2")
		h.send("other", 1)
		w.see()
		h.settle()
		moved, fenced := w.statusOf([]byte("acme")), w.statusOf([]byte("other"))
		if moved.State != StateMoved || moved.Waiting != 1 || moved.Depth != 0 || fenced.State != StateFence {
			t.Errorf("status %+v and %+v", moved, fenced)
		}
		w.stalls()
		time.Sleep(2 * time.Minute)
		if found := w.stalls(); len(found) != 1 || found[0].state != gateState(whyEarlier) || string(found[0].tenant) != "acme" {
			t.Errorf("stalls %+v", found)
		}
		p := w.owned(nil)[0]
		if st := w.progressOf(p); st.Waiting != 2 || st.BehindTable {
			t.Errorf("progress %+v", st)
		}
	})
}
