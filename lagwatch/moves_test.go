package lagwatch

import (
	"slices"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// held drives rounds of ten seconds in which records wait in partition 1 of
// "orders" and in no other.
type held struct {
	*yard
	waiting int64
	from    int64 // the group's commit in the old home, partition 3
}

func (h *held) round() *Evaluation {
	h.t.Helper()
	h.at = h.at.Add(10 * time.Second)
	h.waiting += 1000
	s := &Snapshot{At: h.at, Topics: []TopicSnapshot{{
		Topic: "orders", Known: true, Start: []int64{0, 0, 0, 0}, End: []int64{100, 100 + h.waiting, 100, 100}, Stable: []int64{100, 100 + h.waiting, 100, 100},
	}}}
	s.Groups = []GroupSnapshot{{Group: "billing", Known: true, CommitsKnown: true, Members: 2, Topics: []CommitsSnapshot{{
		Topic: "orders", Commits: []int64{100, 100, 100, h.from}, Visible: []int64{100, 100, 100, h.from},
	}}}}
	h.engine.observe(s)
	return h.engine.evaluate(s)
}

func (h *held) pages(rounds int) (hot bool) {
	h.t.Helper()
	for range rounds {
		for _, a := range h.round().alerts {
			hot = hot || a.Name == lag.AlertHot
		}
	}
	return hot
}

// Records that wait in the new home of a move are held back until the group has
// done the old home: that is no hot partition, for as long as a move takes.
func TestMoveIsNoHotPartition(t *testing.T) {
	t.Parallel()
	prepare := func(y *yard) {
		y.tables.edit(t, routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{1}, Deadline: y.at.Add(time.Hour)}))
	}
	swtch := func(y *yard) {
		y.tables.edit(t, routing.SwitchMove("orders", "m1", []routing.Fence{{Partition: 3, Offset: 50}}))
	}
	const forRule = 6 * 7 // rounds in which a partition that is hot pages
	h := &held{yard: newYard(t, nil), from: 40}
	if !h.pages(forRule) {
		t.Fatal("without a move it does not page")
	}
	h = &held{yard: newYard(t, nil), from: 40}
	h.round()
	prepare(h.yard)
	if h.pages(forRule) {
		t.Fatal("paged while the move was open")
	}
	swtch(h.yard)
	if h.pages(forRule) {
		t.Fatal("paged while the new home waits for the old")
	}
	e := h.round()
	i := slices.IndexFunc(e.Topics, func(t TopicEvaluation) bool { return len(t.Moves) > 0 })
	if i < 0 {
		t.Fatalf("no move is shown: %+v", e.Topics)
	}
	m := e.Topics[i].Moves[0]
	if m.State != "switched" || m.Tenant != "acme" || !slices.Equal(m.WaitingFor, []string{"billing"}) {
		t.Fatalf("%+v", m)
	}
	x, ok := h.engine.explain("billing", "orders", 1)
	if !ok || x.Hold != "moving" {
		t.Fatalf("%+v", x)
	}
	h.from = 60 // the group has passed the fence: now it is not the move
	if !h.pages(forRule) {
		t.Fatal("does not page although the old home is done")
	}

	h = &held{yard: newYard(t, nil), from: 40}
	prepare(h.yard)
	swtch(h.yard)
	if h.pages(int(moveGrace/(10*time.Second)) - 2) {
		t.Fatal("paged within the grace")
	}
	if !h.pages(forRule) {
		t.Fatal("a move that takes too long is an excuse for ever")
	}
}
