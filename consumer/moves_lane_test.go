package consumer

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

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
