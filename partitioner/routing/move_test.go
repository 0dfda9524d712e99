package routing_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// deadline of the moves in these tests.
func deadline() time.Time { return time.Date(2026, 11, 30, 22, 0, 30, 0, time.UTC) }

func topicOf(t testing.TB, table *routing.Table) *routing.Topic {
	t.Helper()
	topic, ok := table.Topic("orders")
	if !ok {
		t.Fatal("no topic orders")
	}
	return topic
}

// home is where a tenant's records without a key go, and since when.
func home(t testing.TB, table *routing.Table, tenant string) (int32, uint64) {
	t.Helper()
	r := topicOf(t, table).Lookup([]byte(tenant), nil)
	return r.Partition, r.Epoch
}

// wrapped is a table of one topic that moves are possible in.
func wrapped(t testing.TB) *routing.Table {
	t.Helper()
	return newTable(t, routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {
		Partitions: 8, Slots: 64, Wrapped: true, TenantOf: routing.TenantRule{From: routing.FromHeader, Arg: "tenant"},
	}}})
}

func TestAMoveOfATenant(t *testing.T) {
	before := edit(t, wrapped(t), routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{1}}))
	open := edit(t, before, routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{5}, Deadline: deadline()}))
	topic := topicOf(t, open)
	if p, epoch := home(t, open, "acme"); p != 1 || epoch != 1 {
		t.Errorf("a prepared move routes to %d since %d, want as before", p, epoch)
	}
	if !topic.Moving() || !topic.Moved() || topic.Epoch() != 2 {
		t.Errorf("moving: %v, moved: %v, epoch %d", topic.Moving(), topic.Moved(), topic.Epoch())
	}
	m := topic.OpenMove([]byte("acme"), 63, routing.KindSlot)
	want := &routing.Move{ID: "m1", Tenant: "acme", From: []int32{1}, To: []int32{5}, Epoch: 2, Deadline: deadline()}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	if other := topic.OpenMove([]byte("other"), 63, routing.KindSlot); other != nil {
		t.Errorf("%s holds another tenant back", other)
	}
	done := edit(t, open, routing.SwitchMove("orders", "m1", []routing.Fence{{Partition: 1, Offset: 4711}}))
	if p, epoch := home(t, done, "acme"); p != 5 || epoch != 2 {
		t.Errorf("a switched move routes to %d since %d, want 5 since 2", p, epoch)
	}
	if topic = topicOf(t, done); topic.Moving() || !topic.Moved() || topic.Epoch() != 2 {
		t.Errorf("moving: %v, moved: %v, epoch %d", topic.Moving(), topic.Moved(), topic.Epoch())
	}
	m, _ = topic.Move("m1")
	if x, ok := m.FenceIn(1); !ok || x != 4711 || m.State != routing.MoveSwitched {
		t.Errorf("%s, %v: the fence in partition 1 is %d, %v", m, m.State, x, ok)
	}
	forgotten := edit(t, done, routing.ForgetMove("orders", "m1"))
	if topicOf(t, forgotten).Moved() {
		t.Error("the move is still there")
	}
	aborted := edit(t, open, routing.AbortMove("orders", "m1"))
	if p, epoch := home(t, aborted, "acme"); p != 1 || epoch != 1 || topicOf(t, aborted).Moved() {
		t.Errorf("an aborted move routes to %d since %d", p, epoch)
	}
	for _, next := range []*routing.Table{open, done, forgotten, aborted} {
		for _, from := range []*routing.Table{before, open, done} {
			if next.Revision() <= from.Revision() {
				continue
			}
			if err := next.MayReplace(from, func(string) bool { return true }); err != nil {
				t.Errorf("revision %d after %d: %v", next.Revision(), from.Revision(), err)
			}
		}
	}
}

func TestAMoveRemembersWhomItPassedOver(t *testing.T) {
	b, a := routing.SessionID{0xb}, routing.SessionID{0xa}
	before := edit(t, wrapped(t), routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{home0(t) ^ 1}, Deadline: deadline()}))
	from := topicOf(t, before).Moves()[0].From[0]
	done := edit(t, before, routing.SwitchMove("orders", "m1", []routing.Fence{{Partition: from}}, b, a, b))
	text, err := done.YAML()
	if err != nil {
		t.Fatal(err)
	}
	read, err := routing.Parse("f", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	replay := routing.NewReplay()
	records, err := replay.Transaction(done, routing.Version{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		replay.Apply(r)
	}
	replayed, err := replay.Fold()
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string]*routing.Table{"edited": done, "of YAML": read, "replayed": replayed} {
		if m, _ := topicOf(t, table).Move("m1"); !slices.Equal(m.Over, []routing.SessionID{a, b}) {
			t.Errorf("%s: passed over %v", name, m.Over)
		}
	}
}

// home0 is where acme is in the table of wrapped.
func home0(t testing.TB) int32 {
	t.Helper()
	p, _ := home(t, wrapped(t), "acme")
	return p
}

func TestAMoveOfSlots(t *testing.T) {
	before := wrapped(t)
	open := edit(t, before, routing.PrepareMove("orders", routing.Move{
		ID: "m1", Slots: []routing.SlotMove{{Slot: 1, From: 1, To: 7}, {Slot: 9, From: 1, To: 6}, {Slot: 10, From: 2, To: 6}}, Deadline: deadline(),
	}))
	topic := topicOf(t, open)
	m, ok := topic.Move("m1")
	if !ok || !slices.Equal(m.From, []int32{1, 2}) || !slices.Equal(m.To, []int32{6, 7}) {
		t.Fatalf("the move is %+v", m)
	}
	if topic.OpenMove([]byte("x"), 9, routing.KindSlot) != m || topic.OpenMove([]byte("x"), 9, routing.KindTenant) != nil || topic.OpenMove([]byte("x"), 8, routing.KindSlot) != nil {
		t.Error("the move covers others than slot-routed records of its slots")
	}
	if got := m.Unit(); !slices.Equal(got.Slots, []int32{1, 9, 10}) || got.Tenant != "" {
		t.Errorf("the unit is %+v", got)
	}
	done := edit(t, open, routing.SwitchMove("orders", "m1", []routing.Fence{{Partition: 1, Offset: 10}, {Partition: 2}}))
	for slot, want := range map[int32]int32{1: 7, 9: 6, 10: 6, 2: 2} {
		if got := topicOf(t, done).SlotPartition(slot); got != want {
			t.Errorf("slot %d is in %d, want %d", slot, got, want)
		}
	}
	if got := done.Spec().Topics["orders"].SlotOverrides[9]; got != (routing.SlotPlacement{Partition: 6, Epoch: 1}) {
		t.Errorf("slot 9 is %+v", got)
	}
	if err := done.MayReplace(open, func(string) bool { return true }); err != nil {
		t.Error(err)
	}
}

// tenantIn finds a tenant of a slot.
func tenantIn(t testing.TB, table *routing.Table, slot int32) string {
	t.Helper()
	for i := range 100_000 {
		tenant := string(rune('a'+i%26)) + string(rune('0'+i/26%10)) + string(rune('a'+i/260%26))
		if topicOf(t, table).Lookup([]byte(tenant), nil).Slot == slot {
			return tenant
		}
	}
	t.Fatalf("no tenant in slot %d", slot)
	return ""
}

func TestWhatMovesIsLeftAlone(t *testing.T) {
	table := wrapped(t)
	inSlot := tenantIn(t, table, 9)
	moving := edit(t, table,
		routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{1}}),
		routing.SetPlacement("orders", inSlot, routing.Placement{Partitions: []int32{1}}),
		routing.UnsetPlacement("orders", inSlot),
		routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{5}, Deadline: deadline()}),
		routing.PrepareMove("orders", routing.Move{ID: "m2", Slots: []routing.SlotMove{{Slot: 9, From: 1, To: 7}}, Deadline: deadline()}))
	acmes := topicOf(t, moving).Lookup([]byte("acme"), nil).Slot
	for name, change := range map[string]routing.Edit{
		"set":                  routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{2}}),
		"unset":                routing.UnsetPlacement("orders", "acme"),
		"set in a slot":        routing.SetPlacement("orders", inSlot, routing.Placement{Partitions: []int32{1}}),
		"forget in a slot":     routing.ForgetTenant("orders", inSlot),
		"slot":                 routing.SetSlots("orders", map[int32]int32{9: 3}),
		"slot of a tenant":     routing.SetSlots("orders", map[int32]int32{acmes: (acmes + 1) % 8}),
		"move of the tenant":   routing.PrepareMove("orders", routing.Move{ID: "m3", Tenant: "acme", To: []int32{6}, Deadline: deadline()}),
		"move in a slot":       routing.PrepareMove("orders", routing.Move{ID: "m3", Tenant: inSlot, To: []int32{6}, Deadline: deadline()}),
		"move of the slot":     routing.PrepareMove("orders", routing.Move{ID: "m3", Slots: []routing.SlotMove{{Slot: 9, From: 1, To: 6}}, Deadline: deadline()}),
		"move of the tenant's": routing.PrepareMove("orders", routing.Move{ID: "m3", Slots: []routing.SlotMove{{Slot: acmes, From: acmes % 8, To: (acmes + 1) % 8}}, Deadline: deadline()}),
		"forget the move":      routing.ForgetMove("orders", "m1"),
		"producers":            routing.SetProducers("orders", false),
		"topic":                routing.RemoveTopic("orders"),
	} {
		if _, err := moving.Edit(change); !errors.Is(err, routing.ErrMoving) {
			t.Errorf("%s: error is %v, want ErrMoving", name, err)
		}
	}
	edit(t, moving,
		routing.SetTier("orders", "gold", routing.Tier{Weight: 50}),
		routing.SetTenantTier("orders", "acme", "gold"),
		routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{1}, Tier: "gold"}),
		routing.SetPlacement("orders", tenantIn(t, table, acmes+1), routing.Placement{Partitions: []int32{2}}),
		routing.SetSlots("orders", map[int32]int32{8: 3}), routing.Grow("orders", 12),
		routing.SwitchMove("orders", "m2", []routing.Fence{{Partition: 1, Offset: 3}}),
		routing.AbortMove("orders", "m1"))
}
