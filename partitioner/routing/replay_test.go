package routing_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
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

func replayed(records ...routing.Record) *routing.Replay {
	r := routing.NewReplay()
	for _, rec := range records {
		r.Apply(rec)
	}
	return r
}

// transaction is the log of one table.
func transaction(t testing.TB, table *routing.Table) []routing.Record {
	t.Helper()
	records, err := routing.NewReplay().Transaction(table, routing.Version{Actor: "me", Reason: "why", At: time.UnixMilli(5)})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestReplayOfTheExample(t *testing.T) {
	records := transaction(t, example(t))
	for _, want := range []string{
		`topic/orders = {"v":1,"partitions":32,"hash":"xxhash64","slots":4096,"shared":"2-31","tenant_of":"header:tenant","producers":"any","strategy":"modulo","epoch":12}`,
		`slot/orders/17 = {"v":1,"partition":5,"epoch":12}`,
		`placement/orders/initech = {"v":1,"partitions":[28,29,30],"spread":"key"}`,
		`placement/orders/wonka = {"v":1,"follow":"slot","epoch":11}`,
		`"placement/orders/\x00\xff" = {"v":1,"partitions":[3]}`,
		`tier/orders/enterprise = {"v":1,"weight":50,"max_concurrency":8,"rate":500,"burst":1000}`,
		`tenant/orders/hooli = {"v":1,"tier":"enterprise"}`,
	} {
		if !slices.ContainsFunc(records, func(r routing.Record) bool { return r.String() == want }) {
			t.Errorf("no record %s", want)
		}
	}
	r := replayed(records...)
	table, err := r.Fold()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(t).Spec(), table.Spec(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if v := r.Version(); v.Revision != 17 || v.Actor != "me" || v.Reason != "why" || !v.At.Equal(time.UnixMilli(5)) {
		t.Errorf("version is %+v", v)
	}
	if again, err := r.Fold(); err != nil || again != table {
		t.Errorf("folding again gives another table, %v", err)
	}
}

func TestATransactionHoldsOnlyWhatDiffers(t *testing.T) {
	r := replayed(transaction(t, example(t))...)
	table, err := r.Fold()
	if err != nil {
		t.Fatal(err)
	}
	next := edit(t, table,
		routing.SetPlacement("orders", "acme-corp", routing.Placement{Partitions: []int32{4}}),
		routing.ForgetTenant("orders", "globex"), routing.SetTenantTier("orders", "hooli", ""),
		routing.SetTier("orders", "new", routing.Tier{}))
	records, err := r.Transaction(next, routing.Version{})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, rec := range records {
		key := string(rec.Key)
		if rec.Value == nil {
			key = "-" + key
		}
		keys = append(keys, key)
	}
	want := []string{"topic/orders", "tier/orders/new", "placement/orders/acme-corp", "-placement/orders/globex", "-tenant/orders/hooli", "version"}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
	if _, err := replayed(records...).Transaction(next, routing.Version{}); err == nil {
		t.Error("a transaction was built on records that are not folded")
	}
}

func TestATransactionOverwritesWhatAForeignWriterLeft(t *testing.T) {
	r := replayed(transaction(t, example(t))...)
	table, err := r.Fold()
	if err != nil {
		t.Fatal(err)
	}
	log := transaction(t, example(t))
	for _, rec := range []routing.Record{
		{Key: []byte("placement/orders/acme-corp"), Value: []byte(`{"v":1,"partitions":[31]}`)},
		{Key: []byte("placement/orders/globex")},
		{Key: []byte("tier/orders/enterprise"), Value: []byte("what?")},
		{Key: []byte("tenant/orders/nobody"), Value: []byte(`{"v":1,"tier":"none"}`)},
		{Key: []byte("what/is/this"), Value: []byte("?")},
	} {
		r.Apply(rec)
		log = append(log, rec)
	}
	if r.Whole() || r.Settled() {
		t.Error("records that no version ends count as whole")
	}
	next := edit(t, table, routing.SetPlacement("orders", "globex", routing.Placement{Partitions: []int32{9}}))
	records, err := r.Transaction(next, routing.Version{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		r.Apply(rec)
	}
	for name, replay := range map[string]*routing.Replay{"the writer": r, "a new reader": replayed(append(log, records...)...)} {
		got, err := replay.Fold()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(next.Spec(), got.Spec(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWhatCannotBeFolded(t *testing.T) {
	good := transaction(t, example(t))
	entries, version := good[:len(good)-1], good[len(good)-1]
	with := func(key, value string) *routing.Replay {
		r := replayed(good...)
		rec := routing.Record{Key: []byte(key)}
		if value != "" {
			rec.Value = []byte(value)
		}
		// A version that counts the record, so that only the record is wrong.
		if _, err := r.Fold(); err != nil {
			t.Fatal(err)
		}
		records, err := r.Transaction(edit(t, example(t)), routing.Version{}, rec)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			r.Apply(rec)
		}
		return r
	}
	for _, c := range []struct {
		name   string
		replay *routing.Replay
		want   error
		text   string
	}{
		{"nothing", replayed(), routing.ErrNoTable, ""},
		{"no version yet", replayed(entries...), routing.ErrNoTable, ""},
		{"an entry is missing", replayed(append(slices.Clone(entries[1:]), version)...), routing.ErrTorn, "revision 17"},
		{"an entry too many", replayed(append(slices.Insert(slices.Clone(entries), 0, routing.Record{Key: []byte("tier/orders/x"), Value: []byte(`{"v":1,"weight":1}`)}), version)...), routing.ErrTorn, ""},
		{"a removed version", replayed(append(slices.Clone(good), routing.Record{Key: []byte("version")})...), routing.ErrRecord, "version"},
		{"a version of tomorrow", replayed(append(slices.Clone(good), routing.Record{Key: []byte("version"), Value: []byte(`{"v":2}`)})...), routing.ErrNewer, "version 2"},
		{"a value of tomorrow", with("tier/orders/x", `{"v":2,"weight":"heavy?"}`), routing.ErrRecord, "tier/orders/x"},
		{"a value of tomorrow that reads", with("tier/orders/x", `{"v":2}`), routing.ErrNewer, "tier/orders/x"},
		{"a value without a version", with("tier/orders/x", `{}`), routing.ErrRecord, "no version"},
		{"not JSON", with("tier/orders/x", `{`), routing.ErrRecord, "tier/orders/x"},
		{"a key without a name", with("tier/orders", `{"v":1}`), routing.ErrRecord, "needs a topic and a name"},
		{"a slot that is none", with("slot/orders/x", `{"v":1}`), routing.ErrRecord, "not a slot number"},
		{"a slot written otherwise", with("slot/orders/017", `{"v":1}`), routing.ErrRecord, "not a slot number"},
		{"an unknown hash", with("topic/pay", `{"v":1,"partitions":1,"hash":"md5","slots":1,"shared":"0","tenant_of":"key","producers":"any","strategy":"modulo"}`), routing.ErrRecord, "unknown hash"},
		{"an unknown spread", with("placement/orders/x", `{"v":1,"partitions":[1],"spread":"even"}`), routing.ErrRecord, "not key or random"},
		{"follows who knows", with("placement/orders/x", `{"v":1,"follow":"me"}`), routing.ErrRecord, "only its slot"},
		{"outside the topic", with("placement/orders/x", `{"v":1,"partitions":[99]}`), nil, "topics.orders.placements.x.partitions: partition 99 is outside"},
		{"of no topic", with("placement/pay/x", `{"v":1,"partitions":[99]}`), nil, "topics.pay.placements.x: an entry of a topic that the table does not have"},
		{"topic removed, entries left", with("topic/orders", ""), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.replay.Fold()
			if c.name == "topic removed, entries left" {
				if err != nil {
					t.Errorf("entries that the fold before took go with their topic, got %v", err)
				}
				return
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error is %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
}

func TestAnUnreadableRecordMattersUntilItIsReplaced(t *testing.T) {
	r := replayed(transaction(t, example(t))...)
	table, err := r.Fold()
	if err != nil {
		t.Fatal(err)
	}
	bad := routing.Record{Key: []byte("tier/orders/x"), Value: []byte(`{"v":9}`)}
	next := edit(t, table)
	records, err := r.Transaction(next, routing.Version{}, bad)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		r.Apply(rec)
	}
	if _, err = r.Fold(); !errors.Is(err, routing.ErrNewer) {
		t.Fatalf("error is %v, want ErrNewer", err)
	}
	// A newer program takes its entry back; this one goes on where it was.
	r.Apply(routing.Record{Key: bad.Key})
	after := edit(t, next)
	clean := replayed(transaction(t, example(t))...)
	if _, err = clean.Fold(); err != nil {
		t.Fatal(err)
	}
	same, err := clean.Transaction(after, routing.Version{})
	if err != nil {
		t.Fatal(err)
	}
	r.Apply(same[len(same)-1])
	got, err := r.Fold()
	if err != nil || got.Revision() != after.Revision() {
		t.Errorf("revision %v, %v after the unreadable record was removed", got, err)
	}
}

func TestSessionsAreNoPartOfTheTable(t *testing.T) {
	s := routing.Session{ID: routing.SessionID{1, 2}, Client: "billing@host", Topics: []string{"orders"}, At: time.UnixMilli(9).UTC()}
	r := replayed(append(transaction(t, example(t)), s.Record())...)
	if !r.Whole() {
		t.Error("a session opened a transaction")
	}
	if diff := cmp.Diff([]routing.Session{s}, r.Sessions()); diff != "" {
		t.Error(diff)
	}
	if _, err := r.Fold(); err != nil {
		t.Error(err)
	}
	r.Apply(routing.Record{Key: []byte("session/xyz"), Value: []byte("{}")})
	r.Apply(routing.Record{Key: s.Record().Key, Value: []byte(`{"v":7}`)})
	if got, ok := r.Session(s.ID); !ok || got.Client != s.Client {
		t.Error("an unreadable registration took the place of a readable one")
	}
	r.Apply(s.EndRecord())
	if len(r.Sessions()) != 0 {
		t.Error("the session is still there after its end")
	}
}

func TestLeases(t *testing.T) {
	want := routing.Lease{ID: routing.SessionID{3}, Revision: 17, Renewal: 4}
	got, ended, err := routing.ReadLease(want.Record())
	if err != nil || ended || got != want {
		t.Errorf("lease is %+v, %v, %v", got, ended, err)
	}
	if got, ended, err = routing.ReadLease(routing.Record{Key: want.Record().Key}); err != nil || !ended || got.ID != want.ID {
		t.Errorf("end is %+v, %v, %v", got, ended, err)
	}
	for _, bad := range []routing.Record{{Key: []byte("x")}, {Key: want.Record().Key, Value: []byte("{")}, {Key: want.Record().Key, Value: []byte(`{"v":2}`)}} {
		if _, _, err := routing.ReadLease(bad); !errors.Is(err, routing.ErrRecord) {
			t.Errorf("%s: error is %v", bad, err)
		}
	}
}

func FuzzReplay(f *testing.F) {
	var log []byte
	for _, rec := range transaction(f, example(f)) {
		log = fmt.Appendf(log, "%s\x01%s\x02", rec.Key, rec.Value)
	}
	f.Add(log)
	f.Add([]byte("session/00\x01{}\x02version\x01{\"v\":1,\"digest\":\"0\"}\x02"))
	f.Fuzz(func(t *testing.T, log []byte) {
		r := routing.NewReplay()
		for text := range bytes.SplitSeq(log, []byte{2}) {
			key, value, ok := bytes.Cut(text, []byte{1})
			if !ok {
				value = nil
			}
			r.Apply(routing.Record{Key: key, Value: value})
		}
		table, err := r.Fold()
		if err != nil {
			return
		}
		if _, err := routing.NewTable(table.Spec()); err != nil {
			t.Fatalf("a table came out of the log that is none: %v", err)
		}
	})
}
