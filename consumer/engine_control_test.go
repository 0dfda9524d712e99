package consumer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// pause does under the lock what the runtime does there.
func (b *bench) pause(tenant string, note pauseNote) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pauseTenant([]byte(tenant), note)
}

func (b *bench) isPaused(tenant string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paused([]byte(tenant))
}

func TestAPausedTenantWaitsAndOthersDoNot(t *testing.T) {
	s := &script{}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		b.pause("a", pauseNote{Act: Act{Actor: "me", Reason: "import"}, at: time.Now()})
		p := b.admitted(0, "a:1 b:1 a:2 b:2")
		time.Sleep(time.Hour)
		if got := s.all(); got != "b:1 b:2" {
			t.Errorf("handled %q", got)
		}
		st := b.statusOf([]byte("a"))
		if st.State != StatePaused || st.Depth != 2 || st.Pause.Reason != "import" || st.ETA >= 0 {
			t.Errorf("%+v", st)
		}
		if c, _ := b.commitOf(p); len(c.State.Lanes) > 0 && !c.State.Lanes[0].Paused {
			t.Errorf("the commit says %+v", c.State)
		}
		if n := b.resumeTenant([]byte("a")); n != 1 {
			t.Errorf("%d lanes resumed, want 1", n)
		}
		synctest.Wait()
		if got := s.of("a"); got != "1 2" {
			t.Errorf("handled %q of a after resuming", got)
		}
	})
}

func TestOnlyTheRecordThatWasLookedAtIsSkipped(t *testing.T) {
	s := &script{do: func(ctx context.Context, r *Record) error {
		if string(r.Value) == "bad" {
			return errTest
		}
		return nil
	}}
	inBubble(t, Config{Retry: Retry{Attempts: 2}}, s.handle, func(b *bench) {
		p := b.admitted(0, "x:0 a:1 a:bad a:3 b:1")
		time.Sleep(time.Minute)
		for _, wrong := range []struct {
			tenant string
			at     Place
			want   error
		}{
			{"a", Place{"orders", 0, 1}, ErrNotFirst},  // done
			{"a", Place{"orders", 0, 3}, ErrNotFirst},  // behind it
			{"b", Place{"orders", 0, 2}, ErrNotFirst},  // another tenant's
			{"a", Place{"orders", 1, 2}, ErrNotOwned},  // another partition's
			{"a", Place{"refunds", 0, 2}, ErrNotOwned}, // another topic's
			{"a", Place{"orders", 0, 99}, ErrNotFirst}, // not there
		} {
			if _, _, err := b.skipRecord([]byte(wrong.tenant), wrong.at); !errors.Is(err, wrong.want) {
				t.Errorf("skipping %s of %s: %v, want %v", wrong.at, wrong.tenant, err, wrong.want)
			}
		}
		tenants := []TenantStatus{b.statusOf([]byte("a"))}
		b.detail(tenants)
		if st := tenants[0]; st.State != StateParked || len(st.Troubles) != 1 || st.Troubles[0].Offset != 2 ||
			st.Troubles[0].Error != errTest.Error() || st.Troubles[0].Attempts != 2 || !st.Troubles[0].Parked {
			t.Errorf("%+v", st)
		}
		if b.watermark(p) != 2 {
			t.Fatalf("watermark %d, want the parked record's", b.watermark(p))
		}
		held := b.held
		if _, _, err := b.skipRecord([]byte("a"), Place{"orders", 0, 2}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.of("a") != "1 bad bad 3" || b.watermark(p) != 5 {
			t.Errorf("handled %q, watermark %d", s.of("a"), b.watermark(p))
		}
		if b.engine.held != 0 || held == 0 {
			t.Errorf("%d bytes held of nothing, %d before", b.engine.held, held)
		}
	})
}

func TestARecordInHandOrInNoTroubleIsNotSkipped(t *testing.T) {
	var release chan struct{}
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Tenant) == "slow" {
			<-release
		}
		return nil
	}}
	inBubble(t, Config{Concurrency: 1}, s.handle, func(b *bench) {
		release = make(chan struct{})
		b.admitted(0, "slow:1")
		synctest.Wait()
		b.admitted(0, "a:1 a:2")
		if _, _, err := b.skipRecord([]byte("slow"), Place{"orders", 0, 0}); !errors.Is(err, ErrInHand) {
			t.Errorf("skipping what is being handled: %v", err)
		}
		if _, _, err := b.skipRecord([]byte("a"), Place{"orders", 0, 1}); !errors.Is(err, ErrNotInTrouble) {
			t.Errorf("skipping what only waits: %v", err)
		}
		b.pause("a", pauseNote{})
		if _, _, err := b.skipRecord([]byte("a"), Place{"orders", 0, 1}); err != nil {
			t.Errorf("skipping the first record of a paused tenant: %v", err)
		}
		b.resumeTenant([]byte("a"))
		close(release)
		synctest.Wait()
		if s.of("a") != "2" {
			t.Errorf("handled %q of a", s.of("a"))
		}
	})
}

// The letter of a record that an operator skipped while it could not be
// written is not written later.
func TestASkippedRecordsDeadLetterIsNotWrittenAgain(t *testing.T) {
	s := &script{do: failing}
	inBubble(t, Config{Retry: Retry{Attempts: 1, Exhausted: DeadLetter}}, s.handle, func(b *bench) {
		p := b.admitted(0, "bad:1 a:1")
		synctest.Wait()
		b.answer(errors.New("no such topic"))
		if _, _, err := b.skipRecord([]byte("bad"), Place{"orders", 0, 0}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if len(b.letters) != 1 || b.watermark(p) != 2 {
			t.Errorf("%d letters, watermark %d", len(b.letters), b.watermark(p))
		}
	})
}

// A pause goes with the partition, or it would come back as one that nobody
// remembers.
func TestAPauseSurvivesNoReassignment(t *testing.T) {
	s := &script{}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		for _, tenant := range []string{"one", "both", "none"} {
			b.pause(tenant, pauseNote{at: time.Now()})
		}
		p := b.admitted(0, "one:1 both:1")
		b.admitted(1, "both:2")
		b.close([]*partition{p})
		for tenant, want := range map[string]bool{"one": false, "both": true, "none": true} {
			if got := b.isPaused(tenant); got != want {
				t.Errorf("%s paused: %v after its partition went, want %v", tenant, got, want)
			}
		}
		delete(b.parts, 0)
		b.next[0] = 0
		b.admitted(0, "one:1")
		synctest.Wait()
		if got := s.all(); got != "one:1" {
			t.Errorf("handled %q", got)
		}
	})
}

func TestLimitsOfAnOperatorHoldAtOnceAndAreTakenBack(t *testing.T) {
	s := &script{}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		b.limitTenant([]byte("a"), Limits{Rate: 1, Burst: 1})
		b.admitted(0, words("a", 100))
		time.Sleep(9500 * time.Millisecond)
		if n := strings.Count(s.all(), "a:"); n != 10 {
			t.Errorf("%d handled in 9.5 s at one a second, want 10", n)
		}
		st := b.statusOf([]byte("a"))
		if st.State != StateLimited || st.Rate < 0.9 || st.Rate > 1.2 || st.ETA < 70*time.Second || st.ETA > 100*time.Second {
			t.Errorf("%+v", st)
		}
		b.limitTenant([]byte("a"), Limits{})
		synctest.Wait()
		if n := strings.Count(s.all(), "a:"); n != 100 {
			t.Errorf("%d handled after the limit was taken back", n)
		}
	})
}

// A tenant with a backlog gets its new tier's limit with the new table, not
// with its next idle moment, and the tier's own numbers change live too.
func TestTheTablesLimitsChangeLive(t *testing.T) {
	rate := func(tenantTier string, gold float64) *routing.Table {
		table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": {
			Partitions: 1,
			Tiers:      map[string]routing.Tier{"slow": {Weight: 1, Rate: 1, Burst: 1}, "gold": {Weight: 1, Rate: gold, Burst: 1}},
			Placements: map[string]routing.Placement{"whale": {Partitions: []int32{0}, Tier: tenantTier}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	source := &tableSource{table: rate("slow", 10)}
	s := &script{}
	inBubble(t, Config{Table: source, LaneRecords: 1000}, s.handle, func(b *bench) {
		b.admitted(0, words("whale", 1000))
		time.Sleep(10 * time.Second)
		for _, step := range []struct {
			table *routing.Table
			least int
			most  int
		}{
			{rate("gold", 10), 98, 102},  // another tier
			{rate("gold", 50), 495, 505}, // other numbers of it
		} {
			before := strings.Count(s.all(), "whale:")
			source.table = step.table
			b.applyTable()
			time.Sleep(10 * time.Second)
			if n := strings.Count(s.all(), "whale:") - before; n < step.least || n > step.most {
				t.Errorf("%d handled in 10 s, want %d to %d", n, step.least, step.most)
			}
		}
		b.limitTenant([]byte("whale"), Limits{Rate: -1})
		synctest.Wait()
	})
}

// tableSource is a table that the test changes, when nobody reads it.
type tableSource struct{ table *routing.Table }

func (s *tableSource) Table() *routing.Table    { return s.table }
func (s *tableSource) Changed() <-chan struct{} { return nil }

// words is n records of a tenant for admitted.
func words(tenant string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s:%d ", tenant, i+1)
	}
	return b.String()
}

func TestTroublesAreBounded(t *testing.T) {
	var tr troubles
	for i := range int64(10 * maxFailing) {
		tr.failedFor(i, trouble{text: "failed"})
	}
	tr.parkedFor(5, trouble{text: "parked"})
	if len(tr.failing) > maxFailing || tr.of(5).text != "parked" {
		t.Errorf("%d failing, %+v", len(tr.failing), tr.of(5))
	}
	tr.over(5)
	if tr.of(5) != (trouble{}) {
		t.Errorf("still %+v", tr.of(5))
	}
}

func TestUnhealthyOnlyWhenEveryWorkerIsStuck(t *testing.T) {
	var release chan struct{}
	s := &script{do: func(_ context.Context, r *Record) error {
		if strings.HasPrefix(string(r.Tenant), "stuck") {
			<-release
		}
		return nil
	}}
	inBubble(t, Config{Concurrency: 2, HandlerTimeout: time.Second}, s.handle, func(b *bench) {
		release = make(chan struct{})
		rt := &Runtime{engine: b.engine}
		for i := range 4 {
			if err := rt.Healthy(); err != nil {
				t.Errorf("with %d stuck handlers: %v", i, err)
			}
			b.admitted(0, fmt.Sprintf("stuck%d:1", i))
			time.Sleep(10 * time.Second)
		}
		if err := rt.Healthy(); !errors.Is(err, ErrStuckHandler) {
			t.Errorf("healthy with every slot stuck: %v", err)
		}
		close(release)
		synctest.Wait()
		if err := rt.Healthy(); err != nil {
			t.Errorf("after they returned: %v", err)
		}
	})
}

func TestTenantsThatWantALookComeFirst(t *testing.T) {
	s := &script{do: failing}
	inBubble(t, Config{Retry: Retry{Attempts: 1}}, s.handle, func(b *bench) {
		for _, tenant := range []string{"deep", "deeper"} {
			b.limitTenant([]byte(tenant), Limits{Rate: 0.001, Burst: 1})
		}
		b.admitted(0, "bad:1 "+words("deep", 5)+words("deeper", 9))
		for i := range 300 {
			b.limitTenant(fmt.Appendf(nil, "t%d", i), Limits{Rate: 0.001, Burst: 1})
			b.admitted(1, words(fmt.Sprint("t", i), 2))
		}
		synctest.Wait()
		rt := &Runtime{engine: b.engine}
		var got []string
		for _, st := range rt.Tenants(TenantFilter{Most: 3}) {
			got = append(got, fmt.Sprintf("%s %s %d", st.Tenant, st.State, st.Depth))
		}
		if want := "bad parked 1, deeper limited 8, deep limited 4"; strings.Join(got, ", ") != want {
			t.Errorf("%q, want %q", got, want)
		}
		if all := rt.Tenants(TenantFilter{Most: 1000}); len(all) != 303 {
			t.Errorf("%d tenants, want 303", len(all))
		}
		if parked := rt.Tenants(TenantFilter{State: StateParked}); len(parked) != 1 || string(parked[0].Tenant) != "bad" {
			t.Errorf("%+v", parked)
		}
		for i := range 300 {
			b.limitTenant(fmt.Appendf(nil, "t%d", i), Limits{})
		}
		for _, tenant := range []string{"deep", "deeper"} {
			b.limitTenant([]byte(tenant), Limits{})
		}
		synctest.Wait()
	})
}

func TestCostIsWhatARecordCountsForInRates(t *testing.T) {
	s := &script{}
	price := func(r *kgo.Record) float64 {
		if string(r.Key) == "free" {
			return math.NaN() // counts as one
		}
		return 5
	}
	inBubble(t, Config{Cost: price}, s.handle, func(b *bench) {
		for _, tenant := range []string{"dear", "free"} {
			b.limitTenant([]byte(tenant), Limits{Rate: 10, Burst: 10})
			b.admitted(0, words(tenant, 400))
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if dear, free := strings.Count(s.all(), "dear:"), strings.Count(s.all(), "free:"); dear != 22 || free != 110 {
			t.Errorf("%d records at 5 and %d at 1 in 10 s at 10 a second, want 22 and 110", dear, free)
		}
		for _, tenant := range []string{"dear", "free"} {
			b.limitTenant([]byte(tenant), Limits{Rate: -1})
		}
		synctest.Wait()
	})
}
