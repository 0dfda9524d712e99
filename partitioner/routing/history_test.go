package routing_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestHistoryLeadsBackToEveryTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newTable(t, routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": topicSpecs().Draw(t, "topic")}})
		tables := []*routing.Table{table}
		var newestFirst []routing.EntryChange
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			edit := routing.RemoveTopic("orders")
			if spec, ok := table.Spec().Topics["orders"]; !ok {
				edit = routing.SetTopic("orders", topicSpecs().Draw(t, "topic"))
			} else if rapid.IntRange(0, 5).Draw(t, "keep") > 0 {
				edit = drawEdit(t, spec)
			}
			next, err := table.Edit(edit)
			if err != nil {
				continue
			}
			newestFirst = append(throughRecords(t, table, next), newestFirst...)
			tables = append(tables, next)
			table = next
		}
		target := tables[0]
		back, err := routing.Revert(table, newestFirst, target.Revision())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(target.Spec(), back.Spec(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if _, err := routing.Rebase(table, back.Spec()); err != nil {
			t.Fatal(err)
		}
	})
}

// throughRecords writes a change as history and reads it back.
func throughRecords(t *rapid.T, a, b *routing.Table) []routing.EntryChange {
	by := routing.Version{Revision: b.Revision(), Actor: "me", Reason: "why", At: time.UnixMilli(3).UTC()}
	var changes []routing.EntryChange
	for i, r := range routing.HistoryOf(by, routing.Changes(a, b)) {
		h, err := routing.ReadHistory(r)
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Key) != fmt.Sprint(by.Revision) || h.Part != i+1 {
			t.Fatalf("part %d under key %s", h.Part, r.Key)
		}
		if diff := cmp.Diff(by, h.Version); diff != "" {
			t.Fatal(diff)
		}
		changes = append(changes, h.Changes...)
	}
	if diff := cmp.Diff(routing.Changes(a, b), changes, cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
	return changes
}

func TestHistoryOfManyEntriesTakesSeveralRecords(t *testing.T) {
	table := newTable(t, placementsSpec(20_000, routing.XXHash64))
	changes := routing.Changes(newTable(t, routing.Spec{}), table)
	records := routing.HistoryOf(routing.Version{Revision: 1}, changes)
	if len(records) < 2 {
		t.Fatalf("%d records", len(records))
	}
	n := 0
	for _, r := range records {
		if len(r.Value) > 1<<20 {
			t.Errorf("a record of %d bytes", len(r.Value))
		}
		h, err := routing.ReadHistory(r)
		if err != nil || h.Parts != len(records) {
			t.Fatalf("part %d of %d, %v", h.Part, h.Parts, err)
		}
		n += len(h.Changes)
	}
	if n != len(changes) {
		t.Errorf("%d of %d changes", n, len(changes))
	}
	if none := routing.HistoryOf(routing.Version{Revision: 1}, nil); len(none) != 1 {
		t.Errorf("a change of nothing has %d records", len(none))
	}
	if _, err := routing.ReadHistory(routing.Record{Key: []byte("1"), Value: []byte("{")}); !errors.Is(err, routing.ErrRecord) {
		t.Errorf("error is %v", err)
	}
}

func FuzzReadHistory(f *testing.F) {
	spec := placementsSpec(2, routing.XXHash64)
	table, err := routing.NewTable(spec)
	if err != nil {
		f.Fatal(err)
	}
	empty, err := routing.NewTable(routing.Spec{})
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range routing.HistoryOf(routing.Version{Revision: 1}, routing.Changes(empty, table)) {
		f.Add(r.Value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		h, err := routing.ReadHistory(routing.Record{Key: []byte("1"), Value: value})
		if err != nil {
			return
		}
		// Whatever it says, it leads to a valid table or to an error.
		if back, err := routing.Revert(table, slices.Clone(h.Changes), 7); err == nil {
			if _, err := routing.NewTable(back.Spec()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
