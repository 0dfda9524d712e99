package rebalance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// growth sends half of the slots of each partition elsewhere.
func growth() Campaign {
	c := Campaign{Topic: "orders", Slots: map[int32]int32{}, Batch: 3}
	for slot := range int32(16) {
		c.Slots[slot] = (slot + slot/8) % 4 // slots 0 to 7 are there already
	}
	return c
}

func (w *liveWorld) grown() {
	w.t.Helper()
	for slot, to := range growth().Slots {
		if got := w.topic().SlotPartition(slot); got != to {
			w.t.Errorf("slot %d is on partition %d, want %d", slot, got, to)
		}
	}
}

func TestACampaignGoesInBatchesOfOldPartitions(t *testing.T) {
	w := newLiveWorld(t)
	c := growth()
	var batches [][]routing.SlotMove
	c.Ended = func(r Report, err error) {
		if err != nil {
			t.Error(err)
		}
		batches = append(batches, r.Slots)
	}
	last := -1
	c.Progress = func(done int) { last = done }
	report, err := w.c.Run(t.Context(), c)
	if want := (CampaignReport{Units: 16, Already: 8, Moved: 8, Moves: 3}); err != nil || report != want || last != 16 {
		t.Errorf("%+v, want %+v, progress %d, %v", report, want, last, err)
	}
	w.grown()
	if len(batches) != 3 || len(batches[0]) != 3 || batches[0][0].From != 0 || batches[2][1].From != 3 {
		t.Errorf("%v", batches)
	}
	again, err := w.c.Run(t.Context(), c)
	if want := (CampaignReport{Units: 16, Already: 16}); err != nil || again != want {
		t.Errorf("run again: %+v, %v", again, err)
	}
}

func TestACampaignThatWasCutOffGoesOn(t *testing.T) {
	w := newLiveWorld(t)
	c := growth()
	ctx, cancel := context.WithCancel(t.Context())
	c.Ended = func(Report, error) { cancel() }
	first, err := w.c.Run(ctx, c)
	if !errors.Is(err, context.Canceled) || first.Moves != 1 || !strings.Contains(err.Error(), "11 of 16") {
		t.Errorf("%+v, %v", first, err)
	}
	c.Ended = nil
	second, err := w.c.Run(t.Context(), c)
	if want := (CampaignReport{Units: 16, Already: 11, Moved: 5, Moves: 2}); err != nil || second != want {
		t.Errorf("%+v, %v", second, err)
	}
	w.grown()
}

func TestAnInterruptionAbortsTheRoundInHand(t *testing.T) {
	w := newLiveWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.table.drained = func(ctx context.Context, _ string, _ func([]routing.Session)) ([]routing.Session, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	report, err := w.c.Run(ctx, growth())
	if !errors.Is(err, context.Canceled) || report.Aborted != 1 || report.Moved != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if moves := w.topic().Moves(); len(moves) > 0 {
		t.Errorf("the table holds %v", moves)
	}
}

func TestARoundThatIsAbortedIsRepeated(t *testing.T) {
	w := newLiveWorld(t)
	c := growth()
	c.Batch = 100
	failed := false
	w.table.drained = func(ctx context.Context, id string, _ func([]routing.Session)) ([]routing.Session, error) {
		if !failed {
			failed = true
			return nil, w.c.Abort(ctx, "orders", id, store.Author{})
		}
		return nil, nil
	}
	report, err := w.c.Run(t.Context(), c)
	if want := (CampaignReport{Units: 16, Already: 8, Moved: 8, Moves: 1, Aborted: 1}); err != nil || report != want {
		t.Errorf("%+v, %v", report, err)
	}
	w.grown()
}

func TestACampaignEndsAtWhatWillNotPass(t *testing.T) {
	w := newLiveWorld(t)
	c := Campaign{Topic: "loose", Slots: map[int32]int32{0: 1, 1: 2}, Parallel: 2, Batch: 1}
	report, err := w.c.Run(t.Context(), c)
	if !errors.Is(err, ErrRefused) || report.Moves != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	w.table.drained = func(context.Context, string, func([]routing.Session)) ([]routing.Session, error) {
		return nil, errors.New("broken")
	}
	c = growth()
	c.Retries = -1
	if report, err := w.c.Run(t.Context(), c); err == nil || report.Aborted != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	c.Slots[99] = 0
	if _, err := w.c.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no slot 99") {
		t.Errorf("%v", err)
	}
}

func TestACampaignOfTenantsInParallel(t *testing.T) {
	w := newLiveWorld(t)
	c := Campaign{Topic: "orders", Parallel: 3, Rate: 1000, Tenants: []TenantMove{
		{Tenant: "acme", To: []int32{2}},
		{Tenant: "initech", To: []int32{1, 2}, Spread: routing.SpreadKey},
		{Tenant: "globex", To: []int32{3}},
		{Tenant: "hooli", To: []int32{0, 3}, Spread: routing.SpreadKey},
	}}
	report, err := w.c.Run(t.Context(), c)
	if want := (CampaignReport{Units: 4, Already: 1, Moved: 3, Moves: 3}); err != nil || report != want {
		t.Errorf("%+v, want %+v, %v", report, want, err)
	}
	if got := w.topic().Lookup([]byte("hooli"), []byte("hooli:1")); got.Kind != routing.KindSpreadKey {
		t.Errorf("%+v", got)
	}
}

func TestCampaignNamesTheField(t *testing.T) {
	w := newLiveWorld(t)
	for want, c := range map[string]Campaign{
		"Topic":    {},
		"Batch":    {Topic: "orders", Batch: -1},
		"Parallel": {Topic: "orders", Parallel: -1},
		"Rate":     {Topic: "orders", Rate: -1},
		"nope":     {Topic: "nope"},
	} {
		if _, err := w.c.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
