package rebalance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

var acmeMoves = LiveMove{Topic: "orders", Tenant: "acme", To: []int32{3}}

func TestATenantMoves(t *testing.T) {
	w := newLiveWorld(t)
	m := w.done(w.c.Move(t.Context(), acmeMoves))
	if m.Tenant != "acme" || !slices.Equal(m.From, []int32{0}) || !slices.Equal(m.To, []int32{3}) {
		t.Errorf("%+v", m)
	}
	if got := w.topic().Lookup([]byte("acme"), nil); got.Partition != 3 || got.Epoch != m.Epoch {
		t.Errorf("%+v", got)
	}
}

func TestASpreadTenantMovesWithAFenceInEachPartition(t *testing.T) {
	w := newLiveWorld(t)
	m := w.done(w.c.Move(t.Context(), LiveMove{Topic: "orders", Tenant: "initech", To: []int32{3}}))
	if len(m.Fences) != 2 || !m.Rekeyed() {
		t.Errorf("%+v", m)
	}
	m = w.done(w.c.Move(t.Context(), LiveMove{Topic: "orders", Tenant: "initech", To: []int32{0, 1}, Spread: routing.SpreadKey}))
	if len(m.Fences) != 1 || !m.Rekeyed() {
		t.Errorf("%+v", m)
	}
}

func TestSlotsMoveInOneBatch(t *testing.T) {
	w := newLiveWorld(t)
	to := map[int32]int32{0: 3, 1: 3, 5: 0, 6: 2} // 6 is on 2 already: base is slot mod 4
	report, err := w.c.Move(t.Context(), LiveMove{Topic: "orders", Slots: to})
	m := w.done(report, err)
	want := []routing.SlotMove{{Slot: 0, From: 0, To: 3}, {Slot: 1, From: 1, To: 3}, {Slot: 5, From: 1, To: 0}}
	if !slices.Equal(m.Slots, want) || len(m.Fences) != 2 {
		t.Errorf("%+v", m)
	}
	for slot, partition := range to {
		if got := w.topic().SlotPartition(slot); got != partition {
			t.Errorf("slot %d is on partition %d", slot, got)
		}
	}
}

func TestAMoveIsRefusedWithAReasonAndARemedy(t *testing.T) {
	for name, c := range map[string]struct {
		move    LiveMove
		prepare routing.Edit
		want    []string
		passing bool
		is      error
	}{
		"topic outside the table":    {LiveMove{Topic: "nope", Tenant: "acme", To: []int32{3}}, nil, []string{"no topic nope", "orders"}, false, nil},
		"producers not wrapped":      {LiveMove{Topic: "loose", Tenant: "acme", To: []int32{3}}, nil, []string{"producers: wrapped", "--mode stopped", "--accept-unordered"}, false, nil},
		"compacted topic":            {LiveMove{Topic: "packed", Tenant: "acme", To: []int32{3}}, nil, []string{"compacted", "--mode stopped"}, false, nil},
		"compacted, order given up":  {LiveMove{Topic: "packed", Tenant: "acme", To: []int32{3}, AcceptUnordered: true}, nil, []string{"compacted"}, false, nil},
		"nothing to move":            {LiveMove{Topic: "orders"}, nil, []string{"neither"}, false, nil},
		"tenant and slots":           {LiveMove{Topic: "orders", Tenant: "acme", To: []int32{1}, Slots: map[int32]int32{1: 2}}, nil, []string{"both"}, false, nil},
		"same place":                 {LiveMove{Topic: "orders", Tenant: "acme", To: []int32{0}}, nil, []string{"already"}, false, ErrSamePlace},
		"same place, spread":         {LiveMove{Topic: "orders", Tenant: "initech", To: []int32{1, 2}, Spread: routing.SpreadKey}, nil, []string{"already"}, false, ErrSamePlace},
		"same slots":                 {LiveMove{Topic: "orders", Slots: map[int32]int32{1: 1}}, nil, []string{"already"}, false, ErrSamePlace},
		"placed in another topic":    {LiveMove{Topic: "orders", Tenant: "umbrella", To: []int32{0}}, nil, []string{"topic other"}, false, nil},
		"no such partition in table": {LiveMove{Topic: "orders", Tenant: "acme", To: []int32{4}}, nil, []string{"partition 4"}, false, nil},
		"no such slot":               {LiveMove{Topic: "orders", Slots: map[int32]int32{16: 1}}, nil, []string{"no slot 16", "0 to 15"}, false, nil},
		"slot to no partition":       {LiveMove{Topic: "orders", Slots: map[int32]int32{1: 4}}, nil, []string{"partition 4", "topic grow"}, false, nil},
		"several without spread":     {LiveMove{Topic: "orders", Tenant: "acme", To: []int32{2, 3}}, nil, []string{"spread"}, false, nil},
		"no such partition in topic": {LiveMove{Topic: "orders", Tenant: "acme", To: []int32{5}}, routing.Grow("orders", 6), []string{"has 4 partitions and none of number 5", "topic grow"}, false, nil},
		"its move is open":           {acmeMoves, routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{2}, Deadline: far}), []string{"m1", "move status"}, true, routing.ErrMoving},
		"its slot's move is open": {acmeMoves, routing.PrepareMove("orders", routing.Move{
			ID: "m2", Slots: []routing.SlotMove{{Slot: acmeSlot, From: acmeSlot % 4, To: (acmeSlot + 1) % 4}}, Deadline: far,
		}), []string{"m2"}, true, routing.ErrMoving},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLiveWorld(t)
			if c.prepare != nil {
				if _, err := w.table.Update(t.Context(), store.Author{}, func(p *routing.Table) (*routing.Table, error) { return p.Edit(c.prepare) }); err != nil {
					t.Fatal(err)
				}
			}
			revision := w.table.Table().Revision()
			report, err := w.c.Move(t.Context(), c.move)
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Passing != c.passing || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("%v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not hold %q", err, part)
				}
			}
			if report.State != StateAborted || report.ID != "" || w.table.Table().Revision() != revision {
				t.Errorf("%+v, revision %d", report, w.table.Table().Revision())
			}
		})
	}
}

// What a coordinator left behind that was killed is in nobody's way after its
// deadline.
func TestAMoveThatWasLeftBehindIsAbortedAfterItsDeadline(t *testing.T) {
	w := newLiveWorld(t)
	left := routing.Move{ID: "left", Tenant: "acme", To: []int32{2}, Deadline: time.Now().Add(-time.Second)}
	if _, err := w.table.Update(t.Context(), store.Author{}, func(p *routing.Table) (*routing.Table, error) {
		return p.Edit(routing.PrepareMove("orders", left))
	}); err != nil {
		t.Fatal(err)
	}
	w.done(w.c.Move(t.Context(), acmeMoves))
	if _, ok := w.topic().Move("left"); ok {
		t.Error("the move that was left behind is in the table")
	}
}

func TestOrderCanBeGivenUp(t *testing.T) {
	w := newLiveWorld(t)
	report, err := w.c.Move(t.Context(), LiveMove{Topic: "loose", Tenant: "acme", To: []int32{3}, AcceptUnordered: true})
	if err != nil || report.State != StateDone || report.Sessions != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// A move that meets an error at any step leaves everything as it was, whatever
// the error says of the write that it belongs to.
func TestAFailureAtAnyStepAbortsAMove(t *testing.T) {
	broken := errors.New("broken")
	failAt := func(update int) func(int) error {
		return func(n int) error {
			if n == update {
				return broken
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		fail func(*liveWorld)
		want error
	}{
		"prepare, before the write": {func(w *liveWorld) { w.table.before = failAt(1) }, broken},
		"prepare, unconfirmed, and then looked up in vain": {func(w *liveWorld) {
			w.table.after = failAt(1)
			w.table.drained = func(context.Context, string, func([]routing.Session)) ([]routing.Session, error) { return nil, broken }
		}, broken},
		"drain": {func(w *liveWorld) {
			w.table.drained = func(context.Context, string, func([]routing.Session)) ([]routing.Session, error) { return nil, broken }
		}, broken},
		"fence": {func(w *liveWorld) {
			w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: kerr.TopicAuthorizationFailed, Count: -1})
		}, kerr.TopicAuthorizationFailed},
		"switch, before the write, each time": {func(w *liveWorld) {
			w.table.before = func(n int) error {
				if n == 2 || n == 4 || n == 6 { // looks are between
					return broken
				}
				return nil
			}
		}, broken},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLiveWorld(t)
			c.fail(w)
			report, err := w.c.Move(t.Context(), acmeMoves)
			w.asBefore(report, err, c.want)
		})
	}
}

// What the table says counts, not the error of the write.
func TestAWriteThatTookEffectCountsWhateverItsError(t *testing.T) {
	for _, update := range []int{1, 2} {
		w := newLiveWorld(t)
		w.table.after = func(n int) error {
			if n == update {
				return store.ErrUnconfirmed
			}
			return nil
		}
		w.done(w.c.Move(t.Context(), acmeMoves))
	}
}

func TestASwitchIsTriedAgain(t *testing.T) {
	w := newLiveWorld(t)
	w.table.before = func(n int) error {
		if n == 2 {
			return errors.New("broken")
		}
		return nil
	}
	w.done(w.c.Move(t.Context(), acmeMoves))
}

func TestWhatCannotBeFoundOutIsSaidToBeUnknown(t *testing.T) {
	w := newLiveWorld(t)
	w.c.settle = time.Millisecond
	w.table.before = func(update int) error {
		if update > 1 {
			return store.ErrUnconfirmed
		}
		return nil
	}
	w.table.drained = func(context.Context, string, func([]routing.Session)) ([]routing.Session, error) {
		return nil, errors.New("no answer")
	}
	report, err := w.c.Move(t.Context(), acmeMoves)
	if report.State != StateUnknown || !errors.Is(err, store.ErrUnconfirmed) || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestAMoveGivesWayToWhoeverAbortsIt(t *testing.T) {
	w := newLiveWorld(t)
	w.table.drained = func(ctx context.Context, id string, _ func([]routing.Session)) ([]routing.Session, error) {
		return nil, w.c.Abort(ctx, "orders", id, store.Author{})
	}
	report, err := w.c.Move(t.Context(), acmeMoves)
	w.asBefore(report, err, errGone)
	if err := w.c.Abort(t.Context(), "orders", report.ID, store.Author{}); !errors.Is(err, routing.ErrMoveNotOpen) {
		t.Errorf("%v", err)
	}
}

func TestTheEndOfItsContextAbortsAMove(t *testing.T) {
	w := newLiveWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.table.drained = func(ctx context.Context, _ string, _ func([]routing.Session)) ([]routing.Session, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	report, err := w.c.Move(ctx, acmeMoves)
	w.asBefore(report, err, context.Canceled)
}

func TestADeadlineAbortsAMoveAndNamesWhomItWaitedFor(t *testing.T) {
	w := newLiveWorld(t)
	quick, slow := routing.Session{ID: routing.SessionID{1}, Client: "quick"}, routing.Session{ID: routing.SessionID{2}, Client: "slow"}
	w.table.sessions = []routing.Session{{Topics: []string{"orders"}}, {Topics: []string{"other"}}}
	w.table.drained = func(ctx context.Context, _ string, progress func([]routing.Session)) ([]routing.Session, error) {
		progress([]routing.Session{quick, slow})
		progress([]routing.Session{slow})
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m := acmeMoves
	m.Deadline = switchMargin / 2
	var told [][]routing.Session
	m.Waiting = func(waiting []routing.Session) { told = append(told, waiting) }
	report, err := w.c.Move(t.Context(), m)
	w.asBefore(report, err, context.DeadlineExceeded)
	if len(report.Waits) != 2 || report.Waits[0].Session.Client != "quick" || report.Waits[0].Left || !report.Waits[1].Left ||
		report.Waits[1].For < switchMargin/4 || report.Sessions != 1 {
		t.Errorf("%+v", report)
	}
	if len(told) != 2 || len(told[1]) != 1 {
		t.Errorf("%v", told)
	}
}

func TestAProducerWithoutALeaseIsNamed(t *testing.T) {
	w := newLiveWorld(t)
	dead := routing.Session{ID: routing.SessionID{7}, Client: "nightly"}
	w.table.drained = func(_ context.Context, _ string, progress func([]routing.Session)) ([]routing.Session, error) {
		progress([]routing.Session{dead})
		return []routing.Session{dead}, nil
	}
	report, err := w.c.Move(t.Context(), acmeMoves)
	w.done(report, err)
	if len(report.Waits) != 1 || !report.Waits[0].Over || report.Waits[0].Left || !strings.HasPrefix(report.Waits[0].String(), "nightly 07") {
		t.Errorf("%+v", report.Waits)
	}
}

// Two tenants change places, by two coordinators at once.
func TestASwapOfTwoTenantsFinishes(t *testing.T) {
	w := newLiveWorld(t)
	w.done(w.c.Move(t.Context(), LiveMove{Topic: "orders", Tenant: "globex", To: []int32{3}}))
	reports := make(chan error, 2)
	go func() { _, err := w.c.Move(patient(t), acmeMoves); reports <- err }()
	go func() {
		_, err := w.c.Move(patient(t), LiveMove{Topic: "orders", Tenant: "globex", To: []int32{0}})
		reports <- err
	}()
	if err := errors.Join(<-reports, <-reports); err != nil {
		t.Fatal(err)
	}
	if a, g := w.topic().Lookup([]byte("acme"), nil).Partition, w.topic().Lookup([]byte("globex"), nil).Partition; a != 3 || g != 0 {
		t.Errorf("acme is on %d, globex on %d", a, g)
	}
}

func TestPruneForgetsMovesOfWhichNothingIsLeft(t *testing.T) {
	w := newLiveWorld(t)
	first, err := w.c.Move(t.Context(), acmeMoves)
	w.done(first, err)
	back, err := w.c.Move(t.Context(), LiveMove{Topic: "orders", Tenant: "acme", To: []int32{0}})
	w.done(back, err)
	if n, err := w.c.Prune(t.Context(), "orders"); n != 0 || err != nil {
		t.Errorf("%d pruned, %v", n, err)
	}
	gone := kadmOffsets("orders", 0, first.Fences[0].Offset+1)
	if _, err := w.c.admin.DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if n, err := w.c.Prune(t.Context(), "orders"); n != 1 || err != nil {
		t.Errorf("%d pruned, %v", n, err)
	}
	if moves := w.topic().Moves(); len(moves) != 1 || moves[0].ID != back.ID {
		t.Errorf("the table holds %v", moves)
	}
}

func TestPruneForgetsMovesOfATopicThatWasMadeAgain(t *testing.T) {
	w := newLiveWorld(t)
	first, err := w.c.Move(t.Context(), acmeMoves)
	w.done(first, err)
	if _, err := w.c.admin.DeleteTopics(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.c.admin.CreateTopic(t.Context(), w.topic().Partitions(), 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	if n, err := w.c.Prune(t.Context(), "orders"); n != 1 || err != nil {
		t.Errorf("%d pruned, %v", n, err)
	}
	if p := w.topic().Lookup([]byte("acme"), nil).Partition; p != acmeMoves.To[0] || w.topic().Moved() {
		t.Errorf("acme is on %d, moves %v", p, w.topic().Moves())
	}
}

func TestMovesAreCounted(t *testing.T) {
	w := newLiveWorld(t)
	registry := prometheus.NewRegistry()
	c, err := NewLiveCoordinator(LiveConfig{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(w.cluster.ListenAddrs()...)}, Table: w.table, Patience: -1, Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	open := -1
	w.table.drained = func(context.Context, string, func([]routing.Session)) ([]routing.Session, error) {
		open = openMoves(w.table)
		return nil, nil
	}
	w.done(c.Move(t.Context(), acmeMoves))
	if _, err := c.Move(t.Context(), acmeMoves); !errors.Is(err, ErrRefused) {
		t.Fatal(err)
	}
	want := `
# HELP tenantlane_moves_open Moves in the table that are neither switched nor aborted.
# TYPE tenantlane_moves_open gauge
tenantlane_moves_open 0
# HELP tenantlane_moves_total Moves by how they ended.
# TYPE tenantlane_moves_total counter
tenantlane_moves_total{outcome="aborted"} 0
tenantlane_moves_total{outcome="refused"} 1
tenantlane_moves_total{outcome="switched"} 1
tenantlane_moves_total{outcome="unknown"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "tenantlane_moves_open", "tenantlane_moves_total"); err != nil || open != 1 {
		t.Errorf("%d open in the middle, %v", open, err)
	}
}

func TestLiveConfigNamesTheField(t *testing.T) {
	for want, cfg := range map[string]LiveConfig{
		"KafkaOpts": {Table: &memTable{}},
		"Table":     {KafkaOpts: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}},
	} {
		if _, err := NewLiveCoordinator(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if diff := cmp.Diff(DefaultPatience, LiveConfig{}.withDefaults().Patience); diff != "" {
		t.Error(diff)
	}
}
