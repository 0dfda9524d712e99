package consumer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

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
				before := h.seen()
				if before != "acme:1 other:1 " && before != "other:1 acme:1 " { // two lanes run at once
					t.Fatalf("handled %q", before)
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
				want, stale := before+"acme:2 ", 0
				if end == "confirmed" {
					want, stale = before, 1
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
