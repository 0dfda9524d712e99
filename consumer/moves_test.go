package consumer

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
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

func TestAFenceHoldsItsUnitUntilItsMoveHasEnded(t *testing.T) {
	for _, end := range []string{"confirmed", "void", "forgotten"} {
		t.Run(end, func(t *testing.T) {
			inHouse(t, 2, 1, Config{}, func(t *testing.T, h *house) {
				w := h.workers[0]
				h.place("acme", 0)
				w.see()
				w.assign(0)
				h.send("acme", 1)
				h.prepare("m1", "acme", 1)
				if end == "forgotten" {
					h.abort("m1") // a coordinator that was late
					h.logs[0].add(0, fenceOf("m1", "acme", 2))
				} else {
					h.fence("m1")
				}
				h.sendTo(0, "other", "1", 0, routing.KindSlot)
				h.sendTo(0, "acme", "2", 1, routing.KindTenant)
				w.poll(100)
				synctest.Wait()
				if s := h.seen(); s != "acme:1 other:1 " && s != "other:1 acme:1 " { // two lanes run at once
					t.Fatalf("handled %q", s)
				}
				if s := w.waits(); s != "fence:1 " {
					t.Errorf("lanes wait for %q", s)
				}
				w.commit()
				if c := h.commits[topicPartition{"orders", 0}]; c.offset != 1 {
					t.Errorf("committed %d, which is past the fence at 1", c.offset)
				}
				switch end {
				case "confirmed":
					h.confirm("m1", []routing.Fence{{Partition: 0, Offset: 1}})
				case "void":
					h.abort("m1")
				}
				w.see()
				h.settle()
				want, stale := "acme:1 other:1 acme:2 ", 0
				if end == "confirmed" {
					want, stale = "acme:1 other:1 ", 1
				}
				if s := h.seen(); s != want || len(h.quarantine) != stale {
					t.Errorf("handled %q, %d in quarantine", s, len(h.quarantine))
				}
				if c := h.commits[topicPartition{"orders", 0}]; c.offset != 4 {
					t.Errorf("committed %d", c.offset)
				}
			})
		})
	}
}

func TestAnUnknownFenceIsNotVoidBeforeTheTableWasReadAgain(t *testing.T) {
	inHouse(t, 2, 1, Config{}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		w.see()
		w.assign(0)
		h.moveTenant("m1", "acme", 1)
		h.sendTo(0, "acme", "stale", 1, routing.KindTenant)
		w.view.away = true
		w.poll(100)
		w.look()
		w.reopen()
		synctest.Wait()
		if s := h.seen() + w.waits(); s != "fence:1 " {
			t.Fatalf("handled, and waiting: %q", s)
		}
		w.view.away = false
		h.settle()
		if s := h.seen(); s != "" || len(h.quarantine) != 1 {
			t.Errorf("handled %q, %d in quarantine", s, len(h.quarantine))
		}
	})
}

func TestAPartitionTakenOverDuringAMoveHoldsTheUnitBack(t *testing.T) {
	inHouse(t, 2, 2, Config{}, func(t *testing.T, h *house) {
		h.place("acme", 0)
		for _, w := range h.workers {
			w.see()
		}
		h.workers[0].assign(0)
		h.prepare("m1", "acme", 1)
		x := h.fence("m1")
		// The group is past the fence before its end, so the next owner does
		// not read it.
		h.commits[topicPartition{"orders", 0}] = stored{offset: x[0].Offset + 1}
		h.workers[0].lose(0)
		h.sendTo(0, "acme", "stale", 1, routing.KindTenant)
		w := h.workers[1]
		w.assign(0)
		w.poll(100)
		if s := h.seen() + w.waits(); s != "fence:1 " {
			t.Fatalf("handled, and waiting: %q", s)
		}
		h.confirm("m1", x)
		w.see()
		h.settle()
		if s := h.seen(); s != "" || len(h.quarantine) != 1 {
			t.Errorf("handled %q, %d in quarantine", s, len(h.quarantine))
		}
	})
}

func TestR1AStaleRecordGoesToQuarantineInItsLanesOrder(t *testing.T) {
	inHouse(t, 2, 1, Config{Retry: Retry{Min: time.Second, Max: time.Minute}}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		w.see()
		w.assign(0)
		fails := 3
		h.post = func() error {
			if fails--; fails >= 0 {
				return errTest
			}
			return nil
		}
		h.moveTenant("m1", "acme", 1)
		h.sendTo(0, "acme", "stale", 1, routing.KindTenant)
		h.sendTo(0, "other", "1", 0, routing.KindSlot)
		w.see()
		w.poll(100)
		if s := h.seen(); s != "other:1 " || len(h.quarantine) != 0 {
			t.Fatalf("handled %q, %d in quarantine", s, len(h.quarantine))
		}
		w.commit()
		if c := h.commits[topicPartition{"orders", 0}]; c.offset != 1 {
			t.Errorf("committed %d before the stale record at 1 was acknowledged", c.offset)
		}
		time.Sleep(5 * time.Minute)
		h.settle()
		if len(h.quarantine) != 1 || h.seen() != "other:1 " {
			t.Fatalf("%d in quarantine, handled %q", len(h.quarantine), h.seen())
		}
		letter := h.quarantine[0]
		if letter.Topic != "orders.tl-quarantine" || string(letter.Key) != "orders/0/1" || string(letter.Value) != "stale" {
			t.Errorf("letter %+v", letter)
		}
		got := headers(letter)
		want := map[string]string{
			HeaderStaleReason: StaleEpoch, HeaderStaleMove: "m1", HeaderStaleFence: "0", HeaderStaleEpoch: "2",
			HeaderStaleKey: "acme", HeaderStaleGroup: "g",
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("header %s: %q, want %q", key, got[key], value)
			}
		}
		if c := h.commits[topicPartition{"orders", 0}]; c.offset != 3 {
			t.Errorf("committed %d", c.offset)
		}
	})
}

func TestR1ElsewhereStaleRecordsAreHandledAndCounted(t *testing.T) {
	inHouse(t, 2, 1, Config{}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		h.moveTenant("m1", "acme", 1)
		spec := h.table.Spec()
		orders := spec.Topics["orders"]
		orders.Wrapped = false
		spec.Topics["orders"] = orders
		var err error
		if h.table, err = routing.NewTable(spec); err != nil {
			t.Fatal(err)
		}
		w.see()
		w.assign(0)
		h.logs[0].add(0, unstamped("acme", "1"))
		h.settle()
		if s := h.seen(); s != "acme:1 " || len(h.quarantine) != 0 {
			t.Errorf("handled %q, %d in quarantine", s, len(h.quarantine))
		}
		if n := counted(t, w.metrics.stale, "orders", staleHandled); n != 1 {
			t.Errorf("%v counted", n)
		}
	})
}

func TestR1AnUnstampedRecordBehindAFenceIsStale(t *testing.T) {
	inHouse(t, 2, 1, Config{}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		h.logs[0].add(0, unstamped("acme", "1"))
		h.moveTenant("m1", "acme", 1)
		h.logs[0].add(0, unstamped("acme", "2"))
		w.assign(0)
		h.settle()
		if s := h.seen(); s != "acme:1 " || len(h.quarantine) != 1 {
			t.Fatalf("handled %q, %d in quarantine", s, len(h.quarantine))
		}
		if got := headers(h.quarantine[0])[HeaderStaleReason]; got != StaleUnstamped {
			t.Errorf("reason %q", got)
		}
	})
}

func TestR2AMovedLaneWaitsForTheGroupsCommits(t *testing.T) {
	inHouse(t, 2, 2, Config{}, func(t *testing.T, h *house) {
		a, b := h.workers[0], h.workers[1]
		h.place("acme", 0)
		a.assign(0)
		b.assign(1)
		h.send("acme", 1, 2)
		h.moveTenant("m1", "acme", 1)
		h.send("acme", 3)
		b.see()
		b.poll(100)
		b.look()
		if s := h.seen() + b.waits(); s != "earlier_home:1 " {
			t.Fatalf("handled, and waiting: %q", s)
		}
		a.poll(100)
		b.look()
		if s := h.seen() + b.waits(); s != "acme:1 acme:2 earlier_home:1 " {
			t.Fatalf("handled, and waiting: %q: what is done and not committed is no evidence", s)
		}
		a.see()
		if a.kicks == 0 {
			t.Error("no commit was asked for at the fence")
		}
		a.commit()
		h.settle()
		if s := h.seen(); s != "acme:1 acme:2 acme:3 " {
			t.Errorf("handled %q", s)
		}
	})
}

func TestR2OneWorkerIsNoEvidenceForItself(t *testing.T) {
	inHouse(t, 2, 1, Config{}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		w.assign(0, 1)
		h.send("acme", 1)
		h.moveTenant("m1", "acme", 1)
		h.send("acme", 2)
		w.see()
		w.poll(100)
		synctest.Wait()
		w.judgeSoon()
		w.look()
		if s := h.seen() + w.waits(); s != "acme:1 earlier_home:1 " {
			t.Fatalf("handled, and waiting: %q", s)
		}
		w.commit()
		w.look()
		time.Sleep(time.Second)
		if s := h.seen(); s != "acme:1 acme:2 " {
			t.Errorf("handled %q", s)
		}
	})
}

func TestR2LooksAtEveryEarlierHome(t *testing.T) {
	inHouse(t, 3, 1, Config{}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		h.send("acme", 1)
		h.moveTenant("m1", "acme", 1)
		h.moveTenant("m2", "acme", 2)
		h.send("acme", 2)
		w.assign(1, 2)
		h.settle()
		if s := h.seen() + w.waits(); s != "earlier_home:1 " {
			t.Fatalf("handled, and waiting: %q: partition 0 is not done", s)
		}
		w.assign(0)
		h.settle()
		if s := h.seen(); s != "acme:1 acme:2 " {
			t.Errorf("handled %q", s)
		}
	})
}

func TestR2TheFrontierIsEvidenceForLanesThatItDoesNotName(t *testing.T) {
	inHouse(t, 2, 1, Config{Retry: Retry{Attempts: 1}}, func(t *testing.T, h *house) {
		w := h.workers[0]
		h.place("acme", 0)
		h.place("slow", 0)
		h.do = func(_ context.Context, r *Record) error {
			if string(r.Tenant) == "slow" {
				return errTest
			}
			return nil
		}
		w.assign(0, 1)
		h.send("slow", 1)
		h.send("acme", 1)
		h.moveTenant("m1", "acme", 1)
		h.moveTenant("m2", "slow", 1)
		h.send("acme", 2)
		h.send("slow", 2)
		w.see()
		h.settle()
		if s := h.seen() + w.waits(); s != "acme:1 acme:2 earlier_home:1 " {
			t.Fatalf("handled, and waiting: %q: slow is parked in its earlier home", s)
		}
		if c := h.commits[topicPartition{"orders", 0}]; c.offset != 0 {
			t.Errorf("committed %d", c.offset)
		}
		h.mu.Lock()
		h.do = nil
		h.mu.Unlock()
		w.resumeTenant([]byte("slow"))
		h.settle()
		if s := h.seen(); s != "acme:1 acme:2 slow:1 slow:2 " {
			t.Errorf("handled %q", s)
		}
	})
}

func TestR2ATableThatLagsIsReadBeforeAMovedLaneRuns(t *testing.T) {
	for _, seen := range []string{"nothing", "the open move"} {
		t.Run(seen, func(t *testing.T) {
			inHouse(t, 2, 1, Config{}, func(t *testing.T, h *house) {
				w := h.workers[0]
				h.place("acme", 0)
				h.send("acme", 1)
				w.assign(1)
				h.prepare("m1", "acme", 1)
				if seen != "nothing" {
					w.see()
				}
				h.confirm("m1", h.fence("m1"))
				h.send("acme", 2)
				w.view.away = true
				w.poll(100)
				w.look()
				if s := h.seen() + w.waits(); s != "table:1 " {
					t.Fatalf("handled, and waiting: %q", s)
				}
				w.view.away = false
				w.look()
				if s := h.seen() + w.waits(); s != "earlier_home:1 " {
					t.Fatalf("handled, and waiting: %q", s)
				}
				w.assign(0)
				h.settle()
				if s := h.seen(); s != "acme:1 acme:2 " {
					t.Errorf("handled %q", s)
				}
			})
		})
	}
}

func TestR3AnEpochThatTheTableHasNotReachedParksItsLane(t *testing.T) {
	for _, policy := range []ForeignStamps{ForeignPark, ForeignHandle} {
		t.Run(strconv.Itoa(int(policy)), func(t *testing.T) {
			inHouse(t, 2, 1, Config{ForeignStamps: policy}, func(t *testing.T, h *house) {
				w := h.workers[0]
				w.assign(0)
				h.sendTo(0, "acme", "1", 99, routing.KindTenant)
				h.sendTo(0, "other", "1", 0, routing.KindSlot)
				h.settle()
				want := "other:1 "
				if policy == ForeignHandle {
					want += "acme:1 "
				}
				if s := h.seen(); s != want {
					t.Fatalf("handled %q", s)
				}
				if policy == ForeignHandle {
					return
				}
				st := w.statusOf([]byte("acme"))
				all := []TenantStatus{st}
				w.detail(all)
				if st.State != StateParked || len(all[0].Troubles) != 1 || all[0].Troubles[0].Error == "" {
					t.Errorf("status %+v", all[0])
				}
				// The table gets there: the record is judged again.
				for i := range 99 {
					h.place("other", int32(i%2))
				}
				w.see()
				w.resumeTenant([]byte("acme"))
				h.settle()
				if s := h.seen(); s != "other:1 acme:1 " {
					t.Errorf("handled %q after it was resumed", s)
				}
			})
		})
	}
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
	inHouse(t, 2, 1, Config{MaxDistance: 10, MaxRecords: 16, LaneRecords: 2}, func(t *testing.T, h *house) {
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
			t.Errorf("the partition is read up to %d of 101, paused %v", w.cursors[1], w.far())
		}
	})
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
