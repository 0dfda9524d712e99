package offset_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

func lanes(offsets ...int64) []offset.Lane {
	var ls []offset.Lane
	for i, off := range offsets {
		ls = append(ls, offset.Lane{Name: uint32(100 + i), Offset: off})
	}
	return ls
}

func TestSnapshot(t *testing.T) {
	for _, c := range []struct {
		name   string
		next   int64
		n      int
		behind []offset.Lane
		w, f   int64
		named  int
	}{
		{"nothing behind", 50, 3, nil, 50, 50, 0},
		{"all named", 50, 3, lanes(10, 20, 30), 10, 50, 3},
		{"one too many", 50, 2, lanes(10, 20, 30), 10, 30, 2},
		{"none named", 50, 0, lanes(10, 20), 10, 10, 0},
		{"a batch half admitted", 15, 3, lanes(10, 20), 10, 15, 1},
		{"only the half batch", 15, 3, lanes(15, 20), 15, 15, 0},
		{"more in the half batch than can be named", 15, 1, lanes(20, 30), 15, 15, 0},
	} {
		tr := offset.NewTracker(0)
		if !tr.Admitted(c.next, 1) {
			t.Fatal("Admitted refused to go on")
		}
		st := tr.Snapshot(c.n, c.behind)
		if st.Watermark != c.w || st.Frontier != c.f || len(st.Lanes) != c.named {
			t.Errorf("%s: W %d, F %d, %d names, want %d, %d, %d",
				c.name, st.Watermark, st.Frontier, len(st.Lanes), c.w, c.f, c.named)
		}
	}
}

// TestSnapshotNeedsOnlyTheLowest: with the n+1 lowest lanes the answer is the
// same as with all of them.
func TestSnapshotNeedsOnlyTheLowest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		offs := rapid.SliceOfDistinct(rapid.Int64Range(0, 200), rapid.ID).Draw(rt, "offsets")
		slices.Sort(offs)
		n := rapid.IntRange(0, 10).Draw(rt, "n")
		tr := offset.NewTracker(0)
		tr.Admitted(rapid.Int64Range(0, 220).Draw(rt, "next"), 0)
		all := tr.Snapshot(n, lanes(offs...))
		few := tr.Snapshot(n, lanes(offs[:min(len(offs), n+1)]...))
		if !sameState(all, few) {
			rt.Fatalf("all lanes give %+v, the lowest %+v", all, few)
		}
	})
}

func checkpoint(w, f int64, ls ...offset.Lane) offset.Checkpoint {
	return offset.Checkpoint{State: offset.State{Watermark: w, Frontier: f, Lanes: ls}, LeaderEpoch: 4}
}

func TestResumeKeepsTheFrontierThroughASecondCrash(t *testing.T) {
	was := checkpoint(10, 100, lanes(10, 40, 60)...)
	tr, lost := offset.Resume(was, 0)
	if lost != 0 || tr.Next() != 100 || !tr.Recovering() {
		t.Fatalf("next %d, lost %d, recovering %v", tr.Next(), lost, tr.Recovering())
	}
	tr.Admitted(120, 4)
	if st := tr.Snapshot(10, nil); st.Watermark != 10 || st.Frontier != 120 || len(st.Lanes) != 3 {
		t.Errorf("with every name open: %+v", st)
	}
	if st := tr.Snapshot(2, lanes(110)); st.Frontier != 60 || len(st.Lanes) != 2 {
		t.Errorf("with two names: %+v", st)
	}
	if l, m := tr.Judge(10, 10, 100); m != offset.Exact || l.Offset != 10 {
		t.Errorf("the named record is %v", m)
	}
	if st := tr.Snapshot(10, nil); st.Watermark != 40 {
		t.Errorf("after the first lane is known: %+v", st)
	}
}

func TestJudge(t *testing.T) {
	names := []offset.Lane{{Name: 1, Offset: 10, Parked: true}, {Name: 2, Offset: 20}, {Name: 2, Offset: 30}, {Name: 3, Offset: 40, AtLeast: true}}
	for _, c := range []struct {
		name string
		at   int64
		off  int64
		key  uint32
		want offset.Match
	}{
		{"the record itself", 10, 10, 1, offset.Exact},
		{"another lane's at its place", 10, 10, 9, offset.Wrong},
		{"a lane that nobody named", 10, 15, 9, offset.NoMatch},
		{"its own is gone", 10, 15, 1, offset.Possible},
		{"the re-read began above it", 11, 15, 1, offset.NoMatch},
		{"the second of two equal names, the first not reached", 25, 30, 2, offset.NoMatch},
		{"the second of two equal names", 20, 30, 2, offset.Exact},
		{"at the least offset", 40, 40, 3, offset.Possible},
		{"above the least offset", 40, 77, 3, offset.Possible},
		{"another lane's at the least offset", 40, 40, 9, offset.NoMatch},
		{"at the frontier", 40, 100, 3, offset.NoMatch},
	} {
		tr, _ := offset.Resume(checkpoint(10, 100, names...), 0)
		l, m := tr.Judge(c.at, c.off, c.key)
		if m != c.want || l.Parked != (m == offset.Exact && c.key == 1) {
			t.Errorf("%s: %v %+v, want %v", c.name, m, l, c.want)
		}
	}
}

func TestNamesWhoseRecordsAreGoneMoveOn(t *testing.T) {
	tr, _ := offset.Resume(checkpoint(10, 100, lanes(10, 20)...), 0)
	if gone := tr.Passed(5, 15); gone != 1 {
		t.Errorf("%d records were gone, want 1", gone)
	}
	if from, ok := tr.Claim(100); !ok || from != 15 {
		t.Errorf("the main cursor's record waits from %d, %v, want 15", from, ok)
	}
	tr.Passed(15, 100)
	if tr.Recovering() {
		t.Error("names are left although a re-read has passed the frontier")
	}
	if st := tr.Snapshot(5, nil); st.Watermark != 100 || st.Frontier != 100 {
		t.Errorf("%+v, want W = F = 100", st)
	}
}

// A re-read that began above the first of two equal names may have passed over
// records of the second one's lane, because it could be the first one's.
func TestEqualNamesMoveOnTogether(t *testing.T) {
	names := []offset.Lane{{Name: 7, Offset: 10}, {Name: 7, Offset: 40, AtLeast: true}}
	tr, _ := offset.Resume(checkpoint(10, 100, names...), 0)
	if _, m := tr.Judge(30, 45, 7); m != offset.NoMatch {
		t.Errorf("a record above the second name is %v", m)
	}
	tr.Passed(30, 60)
	if st := tr.Snapshot(5, nil); len(st.Lanes) != 2 || st.Lanes[1].Offset != 40 {
		t.Errorf("%+v, want the second name still at 40", st.Lanes)
	}
	tr.Passed(10, 50)
	if st := tr.Snapshot(5, nil); len(st.Lanes) != 2 || st.Lanes[0].Offset != 50 || st.Lanes[1].Offset != 50 {
		t.Errorf("%+v, want both names at 50", st.Lanes)
	}
}

func TestRetentionIsCountedAndMovesNobodyElse(t *testing.T) {
	was := checkpoint(10, 100, offset.Lane{Name: 1, Offset: 10, Parked: true}, offset.Lane{Name: 2, Offset: 60})
	tr, lost := offset.Resume(was, 50)
	if lost != 1 {
		t.Errorf("%d lanes lost records, want 1", lost)
	}
	if st := tr.Snapshot(5, nil); st.Watermark != 50 || st.Frontier != 100 || len(st.Lanes) != 2 {
		t.Errorf("%+v, want W 50, F 100, both lanes", st)
	}
	tr, lost = offset.Resume(was, 200)
	if lost != 2 || tr.Next() != 200 {
		t.Errorf("lost %d, next %d, want 2 and 200", lost, tr.Next())
	}
}

func TestOffsetsThatGoBackwardsAreRefused(t *testing.T) {
	tr := offset.NewTracker(10)
	if !tr.Admitted(20, 1) || tr.Admitted(19, 1) || tr.Next() != 20 {
		t.Errorf("next is %d, want 20", tr.Next())
	}
}

func TestLeaderEpochs(t *testing.T) {
	tr := offset.NewTracker(10)
	if got := tr.LeaderEpoch(9); got != -1 {
		t.Errorf("epoch of what was not read is %d", got)
	}
	tr.Admitted(20, 3)
	tr.Admitted(30, 3)
	tr.Admitted(40, 5)
	for off, want := range map[int64]int32{10: 3, 29: 3, 30: 5, 39: 5} {
		if got := tr.LeaderEpoch(off); got != want {
			t.Errorf("epoch at %d is %d, want %d", off, got, want)
		}
	}
	c := tr.Commit(identity(), lanes(35), offset.Limit{})
	if got, why := offset.Open(c.Metadata, identity(), c.Offset); why != offset.Valid || got.LeaderEpoch != 5 {
		t.Errorf("committed %v with epoch %d, want 5", why, got.LeaderEpoch)
	}
	tr.Commit(identity(), nil, offset.Limit{})
	if got := tr.LeaderEpoch(39); got != 5 {
		t.Errorf("epoch at 39 is %d after a commit of 40", got)
	}
}

func TestLimitIsHalvedUntilItFits(t *testing.T) {
	tr := offset.NewTracker(0)
	tr.Admitted(1<<30, 1)
	var many []offset.Lane
	for i := range 2000 {
		many = append(many, offset.Lane{Name: uint32(i), Offset: int64(i) << 12})
	}
	limit := offset.Limit{Chars: 4096}
	last := 4097
	for range 20 {
		c := tr.Commit(identity(), many[:limit.Want()], limit)
		if len(c.Metadata) >= last && last > 0 {
			t.Fatalf("%d characters after %d were too many", len(c.Metadata), last)
		}
		if c.Offset != 0 || len(c.Metadata) > limit.Chars {
			t.Fatalf("offset %d, %d characters of %d", c.Offset, len(c.Metadata), limit.Chars)
		}
		last = len(c.Metadata)
		limit = limit.Halved(c.Metadata)
	}
	if last != 0 {
		t.Errorf("%d characters are left", last)
	}
}

func TestDone(t *testing.T) {
	st := offset.State{Watermark: 10, Frontier: 50, Lanes: []offset.Lane{{Name: 1, Offset: 10}, {Name: 2, Offset: 30}}}
	for _, c := range []struct {
		name uint32
		x    int64
		want bool
	}{
		{1, 9, true},
		{1, 10, false},
		{2, 29, true},
		{2, 30, false},
		{3, 49, true},
		{3, 50, false},
	} {
		if got := st.Done(c.name, c.x); got != c.want {
			t.Errorf("lane %d done at or below %d: %v", c.name, c.x, got)
		}
	}
}

func TestRunnable(t *testing.T) {
	st := offset.State{Watermark: 10, Frontier: 50, Lanes: []offset.Lane{{Offset: 10, Parked: true}, {Offset: 20, Paused: true}, {Offset: 30}}}
	if got := st.Runnable(); got != 30 {
		t.Errorf("%d, want 30", got)
	}
	st.Lanes = st.Lanes[:2]
	if got := st.Runnable(); got != 50 {
		t.Errorf("%d with nothing runnable named, want the frontier", got)
	}
}
