package routing_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// goldenRecords are one record of each kind, of each topic. The file must be
// read for ever: a new version of a value gets a new file.
func goldenRecords(t testing.TB) []routing.Record {
	t.Helper()
	at := time.UnixMilli(1_790_000_000_000).UTC()
	by := routing.Version{Revision: 17, Actor: "anna", Reason: "acme has outgrown its neighbors", At: at, ID: 1 << 63}
	records, err := routing.NewReplay().Transaction(example(t), by)
	if err != nil {
		t.Fatal(err)
	}
	session := routing.Session{ID: routing.SessionID{1, 2, 15: 255}, Client: "billing", Topics: []string{"orders"}, At: at}
	records = append(records, session.Record(), session.EndRecord())
	records = append(records, routing.Lease{ID: session.ID, Revision: 17, Renewal: 3}.Record())
	changes := []routing.EntryChange{
		{Key: []byte("placement/orders/\x00\xff"), After: []byte(`{"v":1,"partitions":[3]}`)},
		{Key: []byte("slot/orders/17"), Before: []byte(`{"v":1,"partition":4,"epoch":3}`), After: []byte(`{"v":1,"partition":5,"epoch":12}`)},
	}
	return append(records, routing.HistoryOf(by, changes)...)
}

const goldenFile = "testdata/records.v1.txt"

func TestRecordsAreWrittenAsTheyWere(t *testing.T) {
	var lines []string
	for _, r := range goldenRecords(t) {
		line := strconv.Quote(string(r.Key))
		if r.Value != nil {
			line += "\t" + string(r.Value)
		}
		lines = append(lines, line)
	}
	want, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), strings.Join(lines, "\n")+"\n"); diff != "" {
		t.Error(diff)
	}
}

// goldenMovesFile has moves, a session that registered anew, and a lease that
// acknowledges.
const goldenMovesFile = "testdata/moves.v1.txt"

func goldenMoves(t testing.TB) (lines []string) {
	t.Helper()
	records, err := routing.NewReplay().Transaction(moved(t), routing.Version{Revision: 8})
	if err != nil {
		t.Fatal(err)
	}
	session := routing.Session{ID: routing.SessionID{1, 2, 15: 255}, Registration: 2, At: deadline()}
	records = append(records, session.Record(), session.EndRecord())
	records = append(records, routing.Lease{ID: session.ID, Revision: 8, Renewal: 4, Drained: []string{"a1", "c3"}}.Record())
	for _, r := range records {
		lines = append(lines, strconv.Quote(string(r.Key))+"\t"+string(r.Value))
	}
	return lines
}

func TestRecordsOfMovesAreWrittenAsTheyWereAndRead(t *testing.T) {
	text, err := os.ReadFile(goldenMovesFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), strings.Join(goldenMoves(t), "\n")+"\n"); diff != "" {
		t.Error(diff)
	}
	r := routing.NewReplay()
	for line := range strings.Lines(string(text)) {
		quoted, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		key, notQuoted := strconv.Unquote(quoted)
		if notQuoted != nil {
			t.Fatal(notQuoted)
		}
		if strings.Contains(key, "/") {
			r.Apply(routing.Record{Key: []byte(key), Value: orNil(value)})
		} else if key == "version" {
			r.Apply(routing.Record{Key: []byte(key), Value: []byte(value)})
		}
	}
	table, err := r.Fold()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(moved(t).Spec().Topics["orders"].Moves, table.Spec().Topics["orders"].Moves); diff != "" {
		t.Error(diff)
	}
}

func orNil(value string) []byte {
	if value == "" {
		return nil
	}
	return []byte(value)
}

func TestRecordsOfThenAreRead(t *testing.T) {
	text, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var records []routing.Record
	for line := range strings.Lines(string(text)) {
		quoted, value, some := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		key, notQuoted := strconv.Unquote(quoted)
		if notQuoted != nil {
			t.Fatal(notQuoted)
		}
		r := routing.Record{Key: []byte(key)}
		if some {
			r.Value = []byte(value)
		}
		records = append(records, r)
	}
	n := len(records)
	table, err := replayed(records[:n-4]...).Fold()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(t).Spec(), table.Spec(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if s := replayed(records[n-4]).Sessions(); len(s) != 1 || s[0].Client != "billing" {
		t.Errorf("session is %+v", s)
	}
	if lease, ended, err := routing.ReadLease(records[n-2]); err != nil || ended || lease.Revision != 17 || lease.Renewal != 3 {
		t.Errorf("lease is %+v, %v, %v", lease, ended, err)
	}
	if h, err := routing.ReadHistory(records[n-1]); err != nil || len(h.Changes) != 2 || h.Actor != "anna" || h.ID != 1<<63 {
		t.Errorf("history is %+v, %v", h, err)
	}
}
