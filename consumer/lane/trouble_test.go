package lane_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// quiet is ten tenants with endless work, whose handler time must not suffer
// from others in trouble.
func quiet(m *sim) {
	m.endless()
	for i := range 10 {
		m.push(fmt.Sprint("quiet-", i), 5)
	}
}

func (m *sim) quietTime() (d time.Duration) {
	for i := range 10 {
		d += m.served[fmt.Sprint("quiet-", i)]
	}
	return d
}

// failing lets every record of some tenants fail.
func failing(prefix string, delay time.Duration) func(string, lane.Item[string]) (lane.Outcome, time.Duration) {
	return func(tenant string, _ lane.Item[string]) (lane.Outcome, time.Duration) {
		if len(tenant) >= len(prefix) && tenant[:len(prefix)] == prefix {
			return lane.Retry, delay
		}
		return lane.Continue, 0
	}
}

func TestTenantWhoseRecordsAllFailCostsNoMoreThanItsShare(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond, time.Second} {
		m := newSim(t, lane.Config{}, 2)
		quiet(m)
		m.push("bad", 1000)
		m.result = failing("bad", delay)
		m.run(5 * time.Second)
		// Two workers for five seconds, eleven tenants; a failing record takes as long as any.
		if got, want := m.quietTime(), 10*time.Second*10/11; got < want*99/100 {
			t.Errorf("delay %v: the others got %v of 10s, their share is %v", delay, got, want)
		}
		if m.tries["bad"] == 0 {
			t.Errorf("delay %v: the failing record was never tried again", delay)
		}
	}
}

func TestThousandTenantsInRetryCostNothingWhileTheyWait(t *testing.T) {
	m := newSim(t, lane.Config{}, 2)
	quiet(m)
	for i := range 1000 {
		m.push(fmt.Sprint("bad-", i), 3)
	}
	m.result = failing("bad", time.Hour)
	m.run(time.Second) // each has failed once
	for i := range 1000 {
		if got := m.tries[fmt.Sprint("bad-", i)]; got != 1 {
			t.Fatalf("bad-%d was tried %d times", i, got)
		}
	}
	before := m.quietTime()
	m.run(m.now + time.Second)
	if got := m.quietTime() - before; got < 1990*time.Millisecond {
		t.Errorf("the others got %v of 2s while a thousand tenants waited", got)
	}
	if wake, ok := m.s.NextWake(); !ok || wake < time.Hour {
		t.Errorf("NextWake is %v, %v", wake, ok)
	}
}

// A handler that hangs keeps its lane's lock and nothing else: its worker's
// place is taken by another, as the runtime does.
func TestHangingHandlerHoldsOnlyItsTenant(t *testing.T) {
	m := newSim(t, lane.Config{}, 2)
	quiet(m)
	m.push("hangs", 10)
	var hang lane.Batch[string]
	for hang.Grants == nil || hang.Grants[0].Items[0].Rec != "hangs" {
		m.s.Take(0, 1, &hang)
		if g := &hang.Grants[0]; g.Items[0].Rec != "hangs" {
			m.s.Release(g, lane.Result{Done: 1, Busy: time.Millisecond}, 0)
			m.push(g.Items[0].Rec, 1)
		}
	}
	other := m.s.Assign("t", 1, 1)
	m.s.Push(other, lane.ID{Tenant: []byte("hangs"), Key: []byte("hangs")}, lane.Item[string]{Offset: 1, Rec: "hangs"})
	m.run(5 * time.Second)
	if got := m.quietTime(); got < 9990*time.Millisecond {
		t.Errorf("the others got %v of 10s", got)
	}
	if m.served["hangs"] != 0 {
		t.Error("the tenant's lane in another partition ran although its lock is held")
	}
	m.s.Release(&hang.Grants[0], lane.Result{Busy: 5 * time.Second}, m.now)
	before := m.quietTime()
	m.run(m.now + 400*time.Millisecond)
	if m.served["hangs"] > 0 {
		t.Errorf("after 5s of handler time the tenant was served %v more before the others had theirs", m.served["hangs"])
	}
	if got := m.quietTime() - before; got < 790*time.Millisecond {
		t.Errorf("the others got %v of 800ms", got)
	}
}

func TestRateHoldsAndGivesBackWhatWasNotTried(t *testing.T) {
	m := newSim(t, lane.Config{}, 4)
	m.cost = func(string) time.Duration { return 10 * time.Microsecond }
	limited := m.s.SetTier("limited", lane.Tier{Tenant: lane.Tenant{Rate: 100, Burst: 10}}, 0)
	m.tier["a"], m.tier["b"] = limited, limited
	m.push("a", 5000)
	m.push("b", 5000)
	m.run(10 * time.Second)
	for _, tenant := range []string{"a", "b"} {
		if got := m.tries[tenant]; got < 1005 || got > 1011 {
			t.Errorf("%s ran %d records in 10s at 100/s with a burst of 10", tenant, got)
		}
	}
	m.s.SetTenant([]byte("a"), lane.Tenant{Rate: 1000}, m.now)
	m.s.SetTier("limited", lane.Tier{Rate: 50, Burst: 1}, m.now)
	before := m.tries["a"] + m.tries["b"]
	m.run(m.now + 10*time.Second)
	if got := m.tries["a"] + m.tries["b"] - before; got < 499 || got > 502 {
		t.Errorf("a tier of 50/s ran %d records in 10s", got)
	}
}

func TestFreedTenantDoesNotGetItsBurstAgain(t *testing.T) {
	m := newSim(t, lane.Config{}, 1)
	m.s.SetTier("", lane.Tier{Tenant: lane.Tenant{Rate: 10, Burst: 5}}, 0)
	for range 20 { // each time it has nothing left after a moment, and no entry is needed
		m.push("a", 5)
		m.run(m.now + 100*time.Millisecond)
	}
	if got := m.tries["a"]; got > 5+20+1 {
		t.Errorf("%d records ran in 2s at 10/s with a burst of 5", got)
	}
}

func TestConcurrencyLimitsHold(t *testing.T) {
	s, err := lane.New[int](lane.Config{TenantConcurrency: -1})
	if err != nil {
		t.Fatal(err)
	}
	tier := s.SetTier("tier", lane.Tier{MaxConcurrency: 5, Tenant: lane.Tenant{Concurrency: 3}}, 0)
	p := s.Assign("t", 0, 1)
	for i := range 40 {
		s.Push(p, lane.ID{Tenant: fmt.Append(nil, i%2), Key: fmt.Append(nil, i), Tier: tier}, lane.Item[int]{Offset: int64(i), Rec: i % 2})
	}
	var hand []lane.Batch[int]
	take := func() (n [2]int) {
		for {
			var b lane.Batch[int]
			if s.Take(0, 1, &b) == 0 {
				break
			}
			hand = append(hand, b)
		}
		for _, b := range hand {
			n[b.Grants[0].Items[0].Rec]++
		}
		return n
	}
	if n := take(); n[0]+n[1] != 5 || max(n[0], n[1]) != 3 {
		t.Errorf("%v grants are in hand, want 3 and 2", n)
	}
	s.SetTier("tier", lane.Tier{Tenant: lane.Tenant{Concurrency: 4}}, 0)
	if n := take(); n != [2]int{4, 4} {
		t.Errorf("%v grants are in hand after the limits were raised, want 4 and 4", n)
	}
	s.SetTenant([]byte("1"), lane.Tenant{Concurrency: -1}, 0)
	if n := take(); n != [2]int{4, 20} {
		t.Errorf("%v grants are in hand, want 4 and 20", n)
	}
}

func TestTenantLockOutlivesTheAssignment(t *testing.T) {
	for _, concurrency := range []int{1, -1} {
		s, err := lane.New[int](lane.Config{TenantConcurrency: concurrency})
		if err != nil {
			t.Fatal(err)
		}
		id := lane.ID{Tenant: []byte("a"), Key: []byte("a")}
		var old, b lane.Batch[int]
		p := s.Assign("t", 3, 1)
		s.Push(p, id, lane.Item[int]{Offset: 7})
		if s.Take(0, 1, &old) != 1 {
			t.Fatal("nothing was granted")
		}
		s.Revoke(p)
		p = s.Assign("t", 3, 2)
		s.Push(p, id, lane.Item[int]{Offset: 7})
		if s.Take(0, 1, &b) != 0 {
			t.Errorf("limit %d: a lane was granted again while its handler runs", concurrency)
		}
		if s.Release(&old.Grants[0], lane.Result{Done: 1}, 0) {
			t.Error("a release after the revocation counted")
		}
		if first := s.Behind(p, 1, nil); len(first) != 1 || first[0].Offset != 7 {
			t.Errorf("behind %v, want offset 7", first)
		}
		if s.Take(0, 1, &b) != 1 {
			t.Errorf("limit %d: the lane is not granted after the handler returned", concurrency)
		}
	}
}
