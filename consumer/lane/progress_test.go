package lane_test

import (
	"testing"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

func TestReportShowsWhatIsDoneBeforeTheGrantIsReleased(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		s, err := lane.New[int](lane.Config{Guess: 1, TenantConcurrency: -1})
		if err != nil {
			t.Fatal(err)
		}
		p := s.Assign("t", 0, 1)
		id := lane.ID{Tenant: []byte("a"), Key: []byte("a"), Unordered: unordered}
		for off := range int64(6) {
			s.Push(p, id, lane.Item[int]{Offset: off, Bytes: 10})
		}
		var b lane.Batch[int]
		if s.Take(0, 1, &b) != 1 || len(b.Grants[0].Items) != 6 {
			t.Fatalf("grant of %d records, want 6", len(b.Grants[0].Items))
		}
		g := &b.Grants[0]
		if n := s.Report(g, 2); n != 2 {
			t.Errorf("unordered %v: %d newly done, want 2", unordered, n)
		}
		if n := s.Report(g, 4); n != 2 {
			t.Errorf("unordered %v: %d newly done, want 2", unordered, n)
		}
		if got := s.Behind(p, 1, nil)[0].Offset; got != 4 {
			t.Errorf("unordered %v: first unfinished %d, want 4", unordered, got)
		}
		if s.Report(g, 6) != 1 {
			t.Errorf("unordered %v: the last record must stay in hand", unordered)
		}
		if p.Records() != 1 || p.Bytes() != 10 {
			t.Errorf("unordered %v: %d records, %d bytes in memory, want 1 and 10", unordered, p.Records(), p.Bytes())
		}
		s.Push(p, id, lane.Item[int]{Offset: 6, Bytes: 10})
		if !s.Release(g, lane.Result{Done: 5, Outcome: lane.Retry, Busy: 1}, 0) {
			t.Errorf("unordered %v: the release does not count", unordered)
		}
		if got := s.Behind(p, 1, nil)[0].Offset; got != 5 {
			t.Errorf("unordered %v: first unfinished %d after the release, want 5", unordered, got)
		}
		total := 0
		for s.Take(0, 1, &b) == 1 {
			total += len(b.Grants[0].Items)
			s.Release(&b.Grants[0], lane.Result{Done: len(b.Grants[0].Items), Busy: 1}, 0)
		}
		if total != 2 || p.Lanes() != 0 {
			t.Errorf("unordered %v: %d records left, want 2; %d lanes", unordered, total, p.Lanes())
		}
	}
}
