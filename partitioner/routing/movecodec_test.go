package routing_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// moved is a table with an open and a switched move of each kind.
func moved(t testing.TB) *routing.Table {
	t.Helper()
	return edit(t, wrapped(t),
		routing.SetPlacement("orders", "spread", routing.Placement{Partitions: []int32{3, 2}, Spread: routing.SpreadKey}),
		routing.PrepareMove("orders", routing.Move{ID: "a1", Tenant: "\x00\xff", To: []int32{5, 4}, ToSpread: routing.SpreadKey, Deadline: deadline()}),
		routing.PrepareMove("orders", routing.Move{ID: "b2", Tenant: "spread", To: []int32{7}, Deadline: deadline()}),
		routing.SwitchMove("orders", "b2", []routing.Fence{{Partition: 2, Offset: 1 << 40}, {Partition: 3}}),
		routing.PrepareMove("orders", routing.Move{ID: "c3", Slots: []routing.SlotMove{{Slot: 1, From: 1, To: 7}, {Slot: 9, From: 1, To: 7}, {Slot: 10, From: 2, To: 6}}, Deadline: deadline()}),
		routing.PrepareMove("orders", routing.Move{ID: "d4", Slots: []routing.SlotMove{{Slot: 20, From: 4, To: 5}}, Deadline: deadline()}),
		routing.SwitchMove("orders", "d4", []routing.Fence{{Partition: 4, Offset: 9}}))
}

func TestMovesAreWrittenAndReadBack(t *testing.T) {
	table := moved(t)
	text, err := table.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`a1: {tenant: !!binary "AP8=", from: [`,
		`b2: {tenant: spread, from: [3, 2], from_spread: key, to: [7], epoch: 3, state: switched, fences: {2: 1099511627776, 3: 0}}`,
		`c3: {slots: {"1>7": "1,9", "2>6": "10"}, epoch: 4, state: prepare, deadline: "2026-11-30T22:00:30.000Z"}`,
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("%s is not in\n%s", line, text)
		}
	}
	back, err := routing.Parse("t", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table.Spec(), back.Spec(), cmpopts.EquateEmpty()); diff != "" {
		t.Error("from YAML: ", diff)
	}
	if again, failed := back.YAML(); failed != nil || !bytes.Equal(text, again) {
		t.Errorf("the canonical text is not stable (%v):\n%s", failed, again)
	}
	if back, err = replayed(transaction(t, table)...).Fold(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table.Spec(), back.Spec(), cmpopts.EquateEmpty()); diff != "" {
		t.Error("from records: ", diff)
	}
}

func TestASpecIsNotSharedWithItsMoves(t *testing.T) {
	table := moved(t)
	want, spec := table.Spec(), table.Spec()
	for id := range spec.Topics["orders"].Moves {
		m := spec.Topics["orders"].Moves[id]
		for _, list := range [][]int32{m.From, m.To} {
			list[0] = 0
		}
		if len(m.Slots) > 0 {
			m.Slots[0].To = 0
		}
		if len(m.Fences) > 0 {
			m.Fences[0].Offset = 0
		}
	}
	if diff := cmp.Diff(want, table.Spec()); diff != "" {
		t.Error(diff)
	}
}

func TestErrorsOfMoves(t *testing.T) {
	const at = `"2026-11-30T22:00:30.000Z"`
	for _, c := range []struct{ name, move, field, msg string }{
		{"no state", `{tenant: a, from: [1], to: [2], epoch: 1}`, "m", "needs a state"},
		{"unknown state", `{tenant: a, from: [1], to: [2], epoch: 1, state: aborted}`, "state", "not prepare or switched"},
		{"no deadline", `{tenant: acme, from: [1], to: [2], epoch: 1, state: prepare}`, "deadline", "needs a deadline"},
		{"bad deadline", `{tenant: acme, from: [1], to: [2], epoch: 1, state: prepare, deadline: soon}`, "deadline", "not a time"},
		{"no fences", `{tenant: acme, from: [1], to: [2], epoch: 1, state: switched}`, "fences", "one for each of 1"},
		{"fence elsewhere", `{tenant: acme, from: [1], to: [2], epoch: 1, state: switched, fences: {3: 1}}`, "fences", "one for each of 1"},
		{"fence below 0", `{tenant: acme, from: [1], to: [2], epoch: 1, state: switched, fences: {1: -1}}`, "fences", "below 0"},
		{"not at home", `{tenant: acme, from: [2], to: [3], epoch: 1, state: prepare, deadline: ` + at + `}`, "from", "not there"},
		{"goes nowhere", `{tenant: acme, from: [1], to: [1], epoch: 1, state: prepare, deadline: ` + at + `}`, "to", "where the tenant is"},
		{"outside", `{tenant: acme, from: [1], to: [8], epoch: 1, state: prepare, deadline: ` + at + `}`, "to", "outside the topic"},
		{"epoch above the counter", `{tenant: acme, from: [1], to: [2], epoch: 3, state: prepare, deadline: ` + at + `}`, "epoch", "above the topic's counter"},
		{"epoch 0", `{tenant: acme, from: [1], to: [2], state: prepare, deadline: ` + at + `}`, "epoch", "above 0"},
		{"both", `{tenant: acme, slots: {"1>2": "1"}, epoch: 1, state: prepare, deadline: ` + at + `}`, "m", "either a tenant or slots"},
		{"neither", `{epoch: 1, state: prepare, deadline: ` + at + `}`, "m", "either a tenant or slots"},
		{"not a way", `{slots: {"1-2": "1"}, epoch: 1, state: prepare, deadline: ` + at + `}`, "1-2", "like 3>7"},
		{"slot twice", `{slots: {"1>2": "1", "1>3": "1"}, epoch: 1, state: prepare, deadline: ` + at + `}`, "slots", "each once"},
		{"slot not there", `{slots: {"2>3": "1"}, epoch: 1, state: prepare, deadline: ` + at + `}`, "slots", "although its move is open"},
		{"slots with homes", `{slots: {"1>2": "1"}, from: [1], epoch: 1, state: prepare, deadline: ` + at + `}`, "m", "no from and to"},
		{"unknown field", `{tenant: acme, since: 3}`, "since", "unknown field"},
	} {
		_, err := routing.Parse("t", []byte(inTopic("slots: 64", "epoch: 2", "placements: {acme: {partitions: [1]}}", "moves: {m: "+c.move+"}")))
		bad, ok := errors.AsType[*routing.Error](err)
		if !ok || !strings.HasSuffix(bad.Field, c.field) || !strings.Contains(bad.Msg, c.msg) || bad.Line != 8 {
			t.Errorf("%s: error is %v", c.name, err)
		}
	}
}

// manySlots moves every slot of a topic as large as can be.
func manySlots(t testing.TB, partitions int32) (*routing.Table, routing.Move) {
	t.Helper()
	table := newTable(t, routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {Partitions: partitions, Slots: routing.MaxSlots, Wrapped: true}}})
	m := routing.Move{ID: strings.Repeat("f", 64), Deadline: deadline()}
	for slot := range int32(routing.MaxSlots) {
		from := slot % partitions
		m.Slots = append(m.Slots, routing.SlotMove{Slot: slot, From: from, To: (from + 1 + slot*7919%(partitions-1)) % partitions})
	}
	return table, m
}

func TestAllSlotsMoveInOneRecord(t *testing.T) {
	table, m := manySlots(t, 1024)
	open := edit(t, table, routing.PrepareMove("orders", m))
	got, _ := topicOf(t, open).Move(m.ID)
	var fences []routing.Fence
	for _, p := range got.From {
		fences = append(fences, routing.Fence{Partition: p, Offset: 1<<63 - 1})
	}
	done := edit(t, open, routing.SwitchMove("orders", m.ID, fences))
	const limit = 1_000_000
	for _, r := range routing.HistoryOf(routing.Version{}, routing.Changes(open, done)) {
		if len(r.Value) > limit {
			t.Errorf("a history record takes %d bytes", len(r.Value))
		}
	}
	records := transaction(t, done)
	for _, r := range records {
		if len(r.Value) > limit {
			t.Errorf("%.40s takes %d bytes", r.Key, len(r.Value))
		}
	}
	back, err := replayed(records...).Fold()
	if err != nil {
		t.Fatal(err)
	}
	if read, _ := topicOf(t, back).Move(m.ID); !slices.Equal(read.Slots, m.Slots) || !slices.Equal(read.Fences, fences) {
		t.Error("the move is read as another")
	}
	table, m = manySlots(t, routing.MaxPartitions)
	if _, err := table.Edit(routing.PrepareMove("orders", m)); err == nil || !strings.Contains(err.Error(), "make several") {
		t.Errorf("error is %v, want too many slots to be refused", err)
	}
}

func TestRebaseKeepsMovesAndWhatTheyHold(t *testing.T) {
	table := moved(t)
	before := edit(t, wrapped(t), routing.SetPlacement("orders", "else", routing.Placement{Partitions: []int32{3}})).Spec()
	orders := before.Topics["orders"]
	orders.Placements["spread"] = routing.Placement{Partitions: []int32{7}}
	orders.SlotOverrides = map[int32]routing.SlotPlacement{20: {Partition: 5}}
	before.Topics["orders"] = orders
	next, err := routing.Rebase(table, before)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table.Spec().Topics["orders"].Moves, next.Spec().Topics["orders"].Moves); diff != "" {
		t.Error(diff)
	}
	if err := next.MayReplace(table, func(string) bool { return true }); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*routing.TopicSpec){
		"tenant": func(s *routing.TopicSpec) { s.Placements["\x00\xff"] = routing.Placement{Partitions: []int32{2}} },
		"tenant at home": func(s *routing.TopicSpec) {
			s.Placements["\x00\xff"] = routing.Placement{Partitions: topicOf(t, table).Moves()[0].From}
		},
		"slot": func(s *routing.TopicSpec) { s.SlotOverrides[9] = routing.SlotPlacement{Partition: 4} },
		"tenant in a slot": func(s *routing.TopicSpec) {
			s.Placements[tenantIn(t, table, 9)] = routing.Placement{Partitions: []int32{1}}
		},
		"producers": func(s *routing.TopicSpec) { s.Wrapped = false },
	} {
		spec := table.Spec()
		orders := spec.Topics["orders"]
		orders.Moves = nil // what was pushed does not know them
		change(&orders)
		spec.Topics["orders"] = orders
		if _, err := routing.Rebase(table, spec); !errors.Is(err, routing.ErrMoving) {
			t.Errorf("%s: error is %v, want ErrMoving", name, err)
		}
	}
}

func TestARevertTakesMovesBack(t *testing.T) {
	open := edit(t, wrapped(t), routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{topicOf(t, wrapped(t)).Partition([]byte("acme"), nil) ^ 1}, Deadline: deadline()}))
	m, _ := topicOf(t, open).Move("m1")
	done := edit(t, open, routing.SwitchMove("orders", "m1", []routing.Fence{{Partition: m.From[0], Offset: 3}}))
	then, err := routing.Revert(done, routing.Changes(open, done), open.Revision())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(open.Spec(), then.Spec(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestMovesOfATenantAndItsSlot(t *testing.T) {
	table := wrapped(t)
	tenant := tenantIn(t, table, 9)
	table = edit(t, table,
		routing.PrepareMove("orders", routing.Move{ID: "z", Tenant: tenant, To: []int32{2}, Deadline: deadline()}),
		routing.SwitchMove("orders", "z", []routing.Fence{{Partition: 1}}),
		routing.PrepareMove("orders", routing.Move{ID: "y", Slots: []routing.SlotMove{{Slot: 9, From: 1, To: 3}}, Deadline: deadline()}),
		routing.SwitchMove("orders", "y", []routing.Fence{{Partition: 1}}),
		routing.PrepareMove("orders", routing.Move{ID: "x", Tenant: tenant, To: []int32{4}, Deadline: deadline()}),
		routing.SwitchMove("orders", "x", []routing.Fence{{Partition: 2}}),
		routing.UnsetPlacement("orders", tenant), routing.ForgetTenant("orders", tenant))
	var ids []string
	for _, m := range topicOf(t, table).AppendMoves(nil, []byte(tenant), 9) {
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, []string{"z", "y", "x"}) {
		t.Errorf("moves are %q, want all three in the order of their epochs", ids)
	}
}

func TestAnyMoveSurvivesItsRecordAndYAML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newTable(t, routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {Partitions: 20, Slots: 64, TenantOf: routing.TenantRule{From: routing.FromHeader, Arg: "t"}}}})
		for i := range rapid.IntRange(1, 6).Draw(t, "moves") {
			m := routing.Move{ID: "m" + string(rune('0'+i)), Deadline: time.UnixMilli(rapid.Int64Range(1000, 1<<45).Draw(t, "deadline"))}
			if rapid.Bool().Draw(t, "tenant") {
				m.Tenant, m.To, m.ToSpread = tenants().Draw(t, "tenant"), partitionLists(20, 3).Draw(t, "to"), routing.SpreadKey
			} else {
				for _, slot := range slices.Sorted(slices.Values(partitionLists(64, 9).Draw(t, "slots"))) {
					from := topicAt(table).SlotPartition(slot)
					m.Slots = append(m.Slots, routing.SlotMove{Slot: slot, From: from, To: (from + rapid.Int32Range(1, 19).Draw(t, "by")) % 20})
				}
			}
			next, err := table.Edit(routing.PrepareMove("orders", m))
			if err != nil {
				continue // it meets another, or goes nowhere
			}
			table = next
			if open, _ := topicAt(table).Move(m.ID); rapid.Bool().Draw(t, "switch") {
				var fences []routing.Fence
				for _, p := range slices.Sorted(slices.Values(open.From)) {
					fences = append(fences, routing.Fence{Partition: p, Offset: rapid.Int64Range(0, 1<<62).Draw(t, "x")})
				}
				if table, err = table.Edit(routing.SwitchMove("orders", m.ID, fences)); err != nil {
					t.Fatal(err)
				}
			}
		}
		text, err := table.YAML()
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := routing.Parse("t", text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		records, err := routing.NewReplay().Transaction(table, routing.Version{})
		if err != nil {
			t.Fatal(err)
		}
		folded, err := replayed(records...).Fold()
		if err != nil {
			t.Fatal(err)
		}
		for _, back := range []*routing.Table{parsed, folded} {
			if diff := cmp.Diff(table.Spec(), back.Spec(), cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func topicAt(table *routing.Table) *routing.Topic {
	topic, _ := table.Topic("orders")
	return topic
}

func TestLookingForAMoveAllocatesNothing(t *testing.T) {
	topic := topicOf(t, moved(t))
	tenant, room := []byte("spread"), make([]*routing.Move, 0, 4)
	allocated := testing.AllocsPerRun(100, func() {
		_ = topic.OpenMove(tenant, 9, routing.KindSlot)
		room = topic.AppendMoves(room[:0], tenant, 9)
	})
	if allocated != 0 || len(room) != 2 {
		t.Errorf("%v allocations, %d moves", allocated, len(room))
	}
}

func BenchmarkOpenMove(b *testing.B) {
	tenant := []byte("acme")
	for name, table := range map[string]*routing.Table{"none": wrapped(b), "open": moved(b)} {
		topic := topicOf(b, table)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = topic.OpenMove(tenant, 33, routing.KindSlot)
			}
		})
	}
}
