package lane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// fill makes a scheduler with n records of one lane in one partition.
func fill(t *testing.T, cfg lane.Config, unordered bool, n int64) (*lane.Scheduler[int64], *lane.Partition[int64]) {
	t.Helper()
	s, err := lane.New[int64](cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := s.Assign("t", 0, 1)
	for off := range n {
		s.Push(p, laneA(unordered), lane.Item[int64]{Offset: off, Rec: off, Bytes: 10})
	}
	return s, p
}

func laneA(unordered bool) lane.ID {
	return lane.ID{Tenant: []byte("a"), Key: []byte("a"), Unordered: unordered}
}

// take grants one lane, which must be there.
func take(t *testing.T, s *lane.Scheduler[int64], now time.Duration) *lane.Grant[int64] {
	t.Helper()
	var b lane.Batch[int64]
	if s.Take(now, 1, &b) != 1 {
		t.Fatal("nothing was granted")
	}
	return &b.Grants[0]
}

func first(t *testing.T, s *lane.Scheduler[int64], p *lane.Partition[int64]) int64 {
	t.Helper()
	b := s.Behind(p, 1, nil)
	if len(b) == 0 {
		return -1
	}
	return b[0].Offset
}

func TestUnholdFinishesOnlyTheRecordThatWasHeld(t *testing.T) {
	s, p := fill(t, lane.Config{Quantum: 1}, false, 3)
	hold := func() lane.Ref[int64] {
		g := take(t, s, 0)
		ref := g.Ref(0)
		s.Release(g, lane.Result{Outcome: lane.Hold}, 0)
		return ref
	}
	old := hold()
	if it, ok := s.SkipFirst(p, []byte("a")); !ok || it.Offset != 0 {
		t.Fatalf("skipped offset %d, %v", it.Offset, ok)
	}
	ref := hold() // the lane went on, and holds the next record
	if s.Unhold(old, 1) {
		t.Error("the hold of a skipped record ended another one's")
	}
	if got := first(t, s, p); got != 1 {
		t.Errorf("first unfinished is %d, want 1", got)
	}
	if !s.Unhold(ref, 1) || first(t, s, p) != 2 {
		t.Error("the held record was not finished")
	}
	if s.Unhold(ref, 1) {
		t.Error("a hold ended twice")
	}
}

func TestRefOfAFreedLaneDoesNothing(t *testing.T) {
	s, p := fill(t, lane.Config{Quantum: 1}, false, 1)
	g := take(t, s, 0)
	ref := g.Ref(0)
	s.Release(g, lane.Result{Outcome: lane.Hold}, 0)
	s.SkipFirst(p, []byte("a"))
	// Another lane takes over the memory, and is held at the same offset.
	q := s.Assign("t", 1, 1)
	s.Push(q, lane.ID{Tenant: []byte("b"), Key: []byte("b")}, lane.Item[int64]{})
	s.Release(take(t, s, 0), lane.Result{Outcome: lane.Hold}, 0)
	if s.Unhold(ref, 1) || first(t, s, q) != 0 {
		t.Error("a freed lane's hold ended another lane's")
	}
}

func TestSkipFirstTakesTheRecordOutOfWhateverItWaitsIn(t *testing.T) {
	for _, outcome := range []lane.Outcome{lane.Continue, lane.Retry, lane.Park, lane.Hold} {
		for _, unordered := range []bool{false, true} {
			s, p := fill(t, lane.Config{Quantum: 1}, unordered, 3)
			s.Release(take(t, s, 0), lane.Result{Outcome: outcome, Delay: time.Second}, 0)
			if it, ok := s.SkipFirst(p, []byte("a")); !ok || it.Offset != 0 {
				t.Fatalf("%v, unordered %v: skipped %d, %v", outcome, unordered, it.Offset, ok)
			}
			for want := int64(1); want < 3; want++ {
				g := take(t, s, 2*time.Second)
				if g.Items[0].Offset != want || g.Attempt != 0 {
					t.Errorf("%v, unordered %v: offset %d, attempt %d is next, want %d, 0",
						outcome, unordered, g.Items[0].Offset, g.Attempt, want)
				}
				s.Release(g, lane.Result{Done: 1}, 2*time.Second)
			}
			if p.Lanes() != 0 || s.Records() != 0 {
				t.Errorf("%v, unordered %v: %d lanes are left", outcome, unordered, p.Lanes())
			}
		}
	}
}

func TestParkedLaneIsParkedAfterRestartToo(t *testing.T) {
	s, p := fill(t, lane.Config{}, false, 2)
	s.ParkLane(p, []byte("a"))
	var b lane.Batch[int64]
	if s.Take(0, 1, &b) != 0 {
		t.Error("a parked lane was granted")
	}
	if got := s.Behind(p, 1, nil); !got[0].Parked {
		t.Errorf("behind %+v, want parked", got)
	}
	if st, _ := s.Tenant([]byte("a")); st.Parked != 1 || st.Records != 2 || st.Lanes != 1 {
		t.Errorf("state %+v", st)
	}
	if s.ResumeLane(p, []byte("nobody")) || !s.ResumeLane(p, []byte("a")) || s.ResumeLane(p, []byte("a")) {
		t.Error("ResumeLane says wrongly whether the lane was parked")
	}
	take(t, s, 0)
}

func TestPauseIsKeptWithoutWork(t *testing.T) {
	s, p := fill(t, lane.Config{}, false, 0)
	s.PauseTenant([]byte("a"))
	s.Push(p, laneA(false), lane.Item[int64]{})
	var b lane.Batch[int64]
	if s.Take(0, 1, &b) != 0 {
		t.Error("a paused tenant was granted")
	}
	if got := s.Behind(p, 1, nil); !got[0].Paused {
		t.Errorf("behind %+v, want paused", got)
	}
	s.ResumeTenant([]byte("a"))
	s.Release(take(t, s, 0), lane.Result{Done: 1}, 0)
	if s.Tenants() != 0 {
		t.Errorf("%d tenants are remembered for nothing", s.Tenants())
	}
}

func TestTokensOfRecordsThatWereNotTriedComeBack(t *testing.T) {
	s, _ := fill(t, lane.Config{Guess: time.Microsecond}, false, 20)
	s.SetTenant([]byte("a"), lane.Tenant{Rate: 1, Burst: 10}, 0)
	g := take(t, s, 0)
	if len(g.Items) != 10 {
		t.Fatalf("%d records were granted with 10 tokens", len(g.Items))
	}
	s.Release(g, lane.Result{Done: 2, Outcome: lane.Retry, Busy: 3 * time.Microsecond}, 0) // three were tried
	if g = take(t, s, 0); len(g.Items) != 7 || g.Items[0].Offset != 2 || g.Attempt != 1 {
		t.Errorf("%d records from %d on, attempt %d, want 7 from 2, 1", len(g.Items), g.Items[0].Offset, g.Attempt)
	}
}

func TestTenantThatComesBackDoesNotWaitForAFullBucket(t *testing.T) {
	s, p := fill(t, lane.Config{Quantum: 1}, false, 1)
	s.SetTier("", lane.Tier{Tenant: lane.Tenant{Rate: 1, Burst: 5}}, 0)
	s.Release(take(t, s, 0), lane.Result{Done: 1}, 0) // one token is missing for a second
	s.Push(p, laneA(false), lane.Item[int64]{Offset: 1})
	if g := take(t, s, time.Millisecond); g.Items[0].Offset != 1 {
		t.Errorf("offset %d", g.Items[0].Offset)
	}
}

func TestCostsFeedLimits(t *testing.T) {
	s, p := fill(t, lane.Config{}, false, 0)
	s.SetTenant([]byte("a"), lane.Tenant{Rate: 10, Burst: 20}, 0)
	for off, cost := range []float32{15, 15, 0.5, 100} {
		s.Push(p, laneA(false), lane.Item[int64]{Offset: int64(off), Cost: cost})
	}
	now := time.Duration(0)
	for _, want := range []time.Duration{0, time.Second, 1050 * time.Millisecond, 3050 * time.Millisecond} {
		var b lane.Batch[int64]
		for s.Take(now, 1, &b) == 0 {
			wake, ok := s.NextWake()
			if !ok || wake <= now {
				t.Fatalf("at %v nothing runs, and the next time is %v, %v", now, wake, ok)
			}
			now = wake
		}
		if d := now - want; d < -time.Millisecond || d > time.Millisecond {
			t.Errorf("offset %d ran at %v, want %v", b.Grants[0].Items[0].Offset, now, want)
		}
		s.Release(&b.Grants[0], lane.Result{Done: 1}, now)
	}
}

func TestDrainLeavesAsManyLanesAsCanBeNamed(t *testing.T) {
	s, p := fill(t, lane.Config{Quantum: 1}, false, 0)
	off := int64(0)
	push := func(key string, n int) {
		for range n {
			s.Push(p, lane.ID{Tenant: []byte(key), Key: []byte(key)}, lane.Item[int64]{Offset: off})
			off++
		}
	}
	push("a", 2) // 0, 1
	push("b", 3) // 2 to 4
	push("c", 1) // 5
	push("d", 4) // 6 to 9
	push("a", 1) // 10
	s.ParkLane(p, []byte("b"))
	run := func() {
		var b lane.Batch[int64]
		for s.Take(0, 1, &b) == 1 {
			s.Release(&b.Grants[0], lane.Result{Done: 1, Busy: time.Millisecond}, 0)
		}
	}
	s.Drain(p, 2) // b cannot be finished, a reaches furthest
	run()
	if got := s.Behind(p, 9, nil); len(got) != 2 || got[0].Offset != 2 || got[1].Offset != 10 {
		t.Errorf("left %+v, want b at 2 and a at 10", got)
	}
	s.Stop(p)
	run()
	if p.Records() != 4 {
		t.Errorf("%d records are left of a stopped partition, want 4", p.Records())
	}
	s.Drain(p, 0)
	run()
	if got := s.Behind(p, 9, nil); len(got) != 1 {
		t.Errorf("left %+v, want b alone", got)
	}
}

func TestRevokeDropsEverythingAtOnce(t *testing.T) {
	s, p := fill(t, lane.Config{}, false, 100)
	g := take(t, s, 0)
	s.Revoke(p)
	s.Revoke(p)
	if s.Records() != 0 || s.Bytes() != 0 || p.Lanes() != 0 || p.InHand() != 1 {
		t.Errorf("%d records, %d bytes, %d lanes, %d in hand", s.Records(), s.Bytes(), p.Lanes(), p.InHand())
	}
	if v := s.Push(p, laneA(false), lane.Item[int64]{}); v != lane.Gone {
		t.Errorf("a push is %v", v)
	}
	if v := s.Skip(p, laneA(false), 0, 0); v != lane.Gone {
		t.Errorf("a skip is %v", v)
	}
	pass := s.BeginPass(p, 0)
	if v := s.Refill(&pass, laneA(false), lane.Item[int64]{}); v != lane.Gone {
		t.Errorf("a refill is %v", v)
	}
	if s.Release(g, lane.Result{Done: 1}, 0) || s.InHand() != 0 || s.Tenants() != 0 {
		t.Errorf("%d in hand, %d tenants after the release", s.InHand(), s.Tenants())
	}
}

func TestConfigNamesTheField(t *testing.T) {
	for want, cfg := range map[string]lane.Config{
		"LaneRecords": {LaneRecords: -1}, "LaneBytes": {LaneBytes: -1}, "Quantum": {Quantum: -1},
		"LaneTime": {LaneTime: -1}, "TakeTime": {TakeTime: -1}, "Guess": {Guess: -1}, "Averages": {Averages: -1},
	} {
		if _, err := lane.New[int](cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
