package routing_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// logged is a record of the routing topic at its offset.
type logged struct {
	routing.Record

	offset int64
}

// history is a log and the tables that its writers published.
type history struct {
	log    []logged
	next   int64
	tables map[uint64]routing.Spec
	ends   []int64 // offset of each version record, in order
	starts []int64 // and of its transaction's first record
	writer *routing.Replay
	table  *routing.Table
}

func newHistory(t interface{ Fatal(...any) }, first *routing.Table) *history {
	h := &history{tables: map[uint64]routing.Spec{}, writer: routing.NewReplay()}
	h.commit(t, first)
	return h
}

func (h *history) append(records ...routing.Record) {
	for _, r := range records {
		h.log = append(h.log, logged{r, h.next})
		h.next++
		h.writer.Apply(r)
	}
}

// commit writes a table's transaction, as a writer that has read to the end.
func (h *history) commit(t interface{ Fatal(...any) }, table *routing.Table, more ...routing.Record) {
	records, err := h.writer.Transaction(table, routing.Version{Actor: "test", Reason: "because", At: time.UnixMilli(7)}, more...)
	if err != nil {
		t.Fatal(err)
	}
	h.starts = append(h.starts, h.next)
	h.append(records...)
	h.ends = append(h.ends, h.next-1)
	h.next++ // the transaction's marker takes an offset and holds no record
	h.tables[table.Revision()] = table.Spec()
	if h.table, err = h.writer.Fold(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table.Spec(), h.table.Spec(), cmpopts.EquateEmpty()); diff != "" {
		t.Fatal("a transaction does not say what its table says: ", diff)
	}
}

// abort is a writer that was killed: its records are there and never visible.
func (h *history) abort(records int) { h.next += int64(records) + 1 }

// compact removes records that a later one replaces, of those where both lie
// below clean and keep says so, as the cleaner does with any part of the log.
// A removal goes too once nothing is left that it removes.
func compact(log []logged, clean int64, keep func(logged) bool) []logged {
	latest, left := map[string]int64{}, map[string]int{}
	for _, r := range log {
		if r.offset < clean {
			latest[string(r.Key)] = r.offset
		}
	}
	var kept []logged
	for _, r := range log {
		superseded := r.offset < clean && latest[string(r.Key)] != r.offset
		if superseded && !keep(r) {
			continue
		}
		if r.offset < clean && r.Value == nil && left[string(r.Key)] == 0 && !keep(r) {
			continue
		}
		if r.offset < clean {
			left[string(r.Key)]++
		}
		kept = append(kept, r)
	}
	return kept
}

// views tells apart the logs that a loader may meet: by its end, and by which
// records are left of at most 64.
type views map[view]bool

type view struct {
	end  int64
	left uint64
}

// first is true for a view that was not met before.
func (v views) first(log []logged, end int64) bool {
	at := view{end: end}
	for _, r := range log {
		at.left |= 1 << r.offset
	}
	met := v[at]
	v[at] = true
	return !met
}

// stable is the last stable offset of the log that ends at end: where the
// transaction begins that is open there. No cleaner goes beyond it.
func (h *history) stable(end int64) int64 {
	for i, start := range h.starts {
		if start < end && end <= h.ends[i]+1 { // the marker follows the version
			return start
		}
	}
	return end
}

// histories draws a history of tables, sessions and killed writers.
func histories(t *rapid.T) *history {
	first := newTable(t, routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": topicSpecs().Draw(t, "topic")}})
	h := newHistory(t, first)
	session := 0
	for range rapid.IntRange(1, 8).Draw(t, "length") {
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0:
			session++
			h.append(routing.Session{ID: routing.SessionID{byte(session % 3)}, Client: fmt.Sprint(session)}.Record())
		case 1:
			h.append(routing.Session{ID: routing.SessionID{byte(session % 3)}}.EndRecord())
		case 2:
			h.abort(rapid.IntRange(1, 3).Draw(t, "aborted"))
		case 3:
			// An entry of a kind that only newer programs know.
			later := routing.Record{Key: []byte("later/thing"), Value: fmt.Appendf(nil, "%d", rapid.IntRange(0, 2).Draw(t, "thing"))}
			h.commit(t, revised(t, h.table), later)
		case 4:
			if next, err := h.table.Edit(routing.RemoveTopic("orders")); err == nil {
				h.commit(t, next)
			}
		case 5:
			if next, err := h.table.Edit(routing.SetTopic("orders", topicSpecs().Draw(t, "topic"))); err == nil {
				h.commit(t, next)
			}
		default:
			if spec, ok := h.table.Spec().Topics["orders"]; ok {
				if next, err := h.table.Edit(drawEdit(t, spec)); err == nil {
					h.commit(t, next)
				}
			}
		}
	}
	return h
}

// revised raises the revision and changes nothing.
func revised(t interface{ Fatal(...any) }, table *routing.Table) *routing.Table {
	next, err := table.Edit()
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// published is what folding must give: the whole table of that revision, as it
// was committed.
func (h *history) published(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, r *routing.Replay, table *routing.Table,
) {
	want, ok := h.tables[table.Revision()]
	if !ok || table.Revision() != r.Version().Revision {
		t.Fatalf("revision %d was never published, or is not the version's %d", table.Revision(), r.Version().Revision)
	}
	if diff := cmp.Diff(want, table.Spec(), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("revision %d is not what was published: %s", table.Revision(), diff)
	}
}

// load reads a log as a loader does that found its end at end: up to there, and
// on until it is whole. It gives false where the log does not go that far.
func load(log []logged, end int64) (*routing.Replay, bool) {
	r := routing.NewReplay()
	for _, rec := range log {
		if rec.offset >= end && r.Whole() {
			return r, true
		}
		r.Apply(rec.Record)
	}
	return r, r.Whole()
}

// checkLoad holds a loader to the newest table of what it has read.
func checkLoad(t *rapid.T, h *history, log []logged, end int64) {
	r, whole := load(log, end)
	if !whole {
		t.Fatalf("a loader at %d never gets whole", end)
	}
	table, err := r.Fold()
	if err != nil {
		t.Fatalf("a loader at %d: %v", end, err)
	}
	h.published(t, r, table)
	newest := 0
	for newest < len(h.ends) && h.ends[newest] < end {
		newest++
	}
	if table.Revision() < uint64(newest) { // revisions of a history count from 1
		t.Fatalf("a loader at %d has revision %d, of version %d", end, table.Revision(), newest)
	}
}

func TestEveryPrefixUnderEveryCompactionGivesAPublishedTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories(t)
		seed := rapid.Uint64().Draw(t, "cleaner")
		cleaners := []func(logged) bool{
			func(logged) bool { return false },
			func(r logged) bool { return (seed>>(uint(r.offset)%64))&1 == 1 },
		}
		for end := range h.next + 1 {
			stable := h.stable(end)
			for i, clean := range []int64{0, rapid.Int64Range(0, stable).Draw(t, "clean"), stable} {
				checkLoad(t, h, compact(h.log, clean, cleaners[i%2]), end)
			}
		}
	})
}

func TestAFollowerPublishesOnlyPublishedTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories(t)
		position := rapid.Int64Range(0, h.next).Draw(t, "position")
		clean := rapid.Int64Range(0, h.next).Draw(t, "clean")
		legal := clean <= h.stable(position) // the reader is not further behind than the cleaner's lag
		seed := rapid.Uint64().Draw(t, "cleaner")
		cleaned := compact(h.log, clean, func(r logged) bool { return (seed>>(uint(r.offset)%64))&1 == 1 })
		r := routing.NewReplay()
		follow := func(rec logged) {
			r.Apply(rec.Record)
			if !r.Whole() {
				return
			}
			switch table, err := r.Fold(); {
			case err == nil:
				h.published(t, r, table)
			case legal || !errors.Is(err, routing.ErrTorn):
				t.Fatalf("cleaned below %d, at %d: %v", clean, rec.offset, err)
			}
		}
		for _, rec := range h.log {
			if rec.offset < position {
				follow(rec)
			}
		}
		for _, rec := range cleaned {
			if rec.offset >= position {
				follow(rec)
			}
		}
	})
}

// TestEverySubsetOfRemovals is the exhaustive case: a short log with tenants
// and slots that change three times, under each of all possible cleanings.
func TestEverySubsetOfRemovals(t *testing.T) {
	h := newHistory(t, newTable(t, routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": {Partitions: 4, Slots: 4}}}))
	to := func(p int32) routing.Edit {
		return routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{p}})
	}
	h.commit(t, edit(t, h.table, to(1)))
	h.commit(t, edit(t, h.table, to(2), routing.SetSlots("orders", map[int32]int32{1: 3})))
	h.commit(t, edit(t, h.table, routing.UnsetPlacement("orders", "acme"), routing.ForgetTenant("orders", "acme")))
	removable := map[int64]int{}
	for _, r := range h.log {
		if kept := compact(h.log, h.next, func(l logged) bool { return l.offset != r.offset }); len(kept) < len(h.log) {
			removable[r.offset] = len(removable)
		}
	}
	if len(removable) != 8 {
		t.Fatalf("%d removable records, want 8: three topics, two placements, three versions", len(removable))
	}
	met := views{}
	for subset := range 1 << len(removable) {
		for end := range h.next + 1 {
			for clean := range h.stable(end) + 1 {
				log := compact(h.log, clean, func(r logged) bool { return subset>>removable[r.offset]&1 == 1 })
				if !met.first(log, end) {
					continue
				}
				r, whole := load(log, end)
				table, err := r.Fold()
				if !whole || err != nil {
					t.Fatalf("subset %b, end %d, clean %d: %v, %v", subset, end, clean, whole, err)
				}
				h.published(t, r, table)
			}
		}
	}
	t.Logf("%d views of %d subsets", len(met), 1<<len(removable))
}
