package lane_test

import (
	"testing"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// over makes a lane with room for two records that holds 0 and 1 and skipped 2
// to 5.
func over(t *testing.T) (*lane.Scheduler[int64], *lane.Partition[int64]) {
	t.Helper()
	s, p := fill(t, lane.Config{LaneRecords: 2}, false, 6)
	st, _ := s.Lane(p, []byte("a"))
	if st.Records != 2 || !st.Overflowing || st.FirstSkip != 2 || st.LastSkip != 5 || p.Overflowing() != 1 {
		t.Fatalf("lane %+v", st)
	}
	return s, p
}

func runAll(s *lane.Scheduler[int64]) (offs []int64) {
	var b lane.Batch[int64]
	for s.Take(0, 1, &b) == 1 {
		for _, it := range b.Grants[0].Items {
			offs = append(offs, it.Offset)
		}
		s.Release(&b.Grants[0], lane.Result{Done: len(b.Grants[0].Items)}, 0)
	}
	return offs
}

func TestFullLaneRejoinsWhenARereadHasPassedIt(t *testing.T) {
	s, p := over(t)
	pass := s.BeginPass(p, 2)
	refill := func(off int64, want lane.Verdict) {
		t.Helper()
		if got := s.Refill(&pass, laneA(false), lane.Item[int64]{Offset: off}); got != want {
			t.Errorf("offset %d is %v, want %v", off, got, want)
		}
	}
	refill(2, lane.Full)
	runAll(s)
	refill(3, lane.Full) // there is room, but 2 was not taken
	s.Passed(&pass, 4)

	if got := first(t, s, p); got != 2 {
		t.Errorf("first unfinished is %d, want 2", got)
	}
	pass = s.BeginPass(p, 2)
	refill(2, lane.Queued)
	refill(3, lane.Queued)
	refill(2, lane.Unwanted)
	refill(4, lane.Full)
	runAll(s)
	if b := s.Behind(p, 1, nil); len(b) != 1 || b[0].Offset != 4 || b[0].AtLeast {
		t.Errorf("behind %+v, want exactly 4", b)
	}
	pass = s.BeginPass(p, 4)
	refill(6, lane.Unwanted) // not skipped: the main cursor has not come there
	refill(4, lane.Queued)
	if v := s.Push(p, laneA(false), lane.Item[int64]{Offset: 6}); v != lane.Skipped {
		t.Errorf("a push behind skipped records is %v", v)
	}
	if got := s.Passed(&pass, 7); got != 1 { // 5 and 6 are gone
		t.Errorf("%d lanes rejoined, want 1", got)
	}
	if v := s.Push(p, laneA(false), lane.Item[int64]{Offset: 7}); v != lane.Queued || p.Overflowing() != 0 {
		t.Errorf("a push after the lane rejoined is %v", v)
	}
	if got := runAll(s); len(got) != 2 || got[0] != 4 || got[1] != 7 || p.Lanes() != 0 {
		t.Errorf("handled %v, %d lanes are left", got, p.Lanes())
	}
}

func TestPassThatBeginsAboveALaneDoesNotServeIt(t *testing.T) {
	s, p := over(t)
	runAll(s)
	pass := s.BeginPass(p, 3)
	if v := s.Refill(&pass, laneA(false), lane.Item[int64]{Offset: 3}); v != lane.Unwanted {
		t.Errorf("offset 3 is %v although 2 comes first", v)
	}
	s.Passed(&pass, 9)
	if got := first(t, s, p); got != 2 {
		t.Errorf("first unfinished is %d, want 2", got)
	}
}

func TestSkippedRecordsThatRetentionTookAreCounted(t *testing.T) {
	s, p := over(t)
	runAll(s)
	if got := s.Lost(p, 4); got != 1 {
		t.Errorf("%d lanes lost records, want 1", got)
	}
	if b := s.Behind(p, 1, nil); len(b) != 1 || b[0].Offset != 4 || !b[0].AtLeast {
		t.Errorf("behind %+v, want 4 or above", b)
	}
	if got := s.Lost(p, 100); got != 1 || p.Lanes() != 0 {
		t.Errorf("%d lanes lost records, %d are left, want 1 and none", got, p.Lanes())
	}
}

func TestSkipDoesNotCountWhatIsInMemory(t *testing.T) {
	s, p := fill(t, lane.Config{}, false, 3)
	s.Skip(p, laneA(false), 0, 9)
	if o := s.Overflows(p, nil); len(o) != 1 || o[0].First != 3 || o[0].Last != 9 || o[0].Records != 3 || !o[0].Runnable {
		t.Errorf("overflows %+v, want 3 to 9", o)
	}
	if got := runAll(s); len(got) != 3 || first(t, s, p) != 3 {
		t.Errorf("handled %v, first unfinished is %d", got, first(t, s, p))
	}
}
