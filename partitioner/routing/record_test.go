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

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

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
	want := routing.Lease{ID: routing.SessionID{3}, Revision: 17, Renewal: 4, Drained: []string{"4f00", "a1"}}
	got, ended, err := routing.ReadLease(want.Record())
	if diff := cmp.Diff(want, got); diff != "" || err != nil || ended {
		t.Errorf("lease is read with %v, %v: %s", ended, err, diff)
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
	for _, rec := range transaction(f, moved(f)) {
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
		if _, err = routing.NewTable(table.Spec()); err != nil {
			t.Fatalf("a table came out of the log that is none: %v", err)
		}
		text, err := table.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = routing.Parse("log", text); err != nil {
			t.Fatalf("a table came out of the log that cannot be read back: %v in\n%s", err, text)
		}
	})
}
