package lagwatch

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// tables is a source whose table a test replaces.
type tables struct{ now *routing.Table }

func (s *tables) Table() *routing.Table  { return s.now }
func (*tables) Changed() <-chan struct{} { return nil }

func (s *tables) edit(t *testing.T, edits ...routing.Edit) {
	t.Helper()
	next, err := s.now.Edit(edits...)
	if err != nil {
		t.Fatal(err)
	}
	s.now = next
}

// ordersTable has topic "orders" with four partitions, of which the last is
// acme's own.
func ordersTable(t *testing.T) *tables {
	t.Helper()
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {
		Partitions: 4, Slots: 64, Shared: []int32{0, 1, 2}, Wrapped: true, TenantOf: routing.TenantRule{From: routing.FromKey},
		Placements: map[string]routing.Placement{"acme": {Partitions: []int32{3}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return &tables{table}
}

// yard drives an engine with a table by sweeps in virtual time.
type yard struct {
	t      *testing.T
	tables *tables
	engine *engine
	at     time.Time
	commit []int64 // of group billing; nil: there is no group
}

func newYard(t *testing.T, edit func(*Config)) *yard {
	t.Helper()
	y := &yard{t: t, tables: ordersTable(t), at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), commit: []int64{0, 0, 0, 0}}
	cfg := Config{Table: y.tables}
	if edit != nil {
		edit(&cfg)
	}
	cfg = cfg.withDefaults()
	y.engine = newEngine(&cfg)
	return y
}

// healthy is a sweep of a topic in which nothing is to be found.
func healthy() SweptTopic {
	return SweptTopic{
		Topic: "orders", Partitions: 4, Start: []int64{0, 0, 0, 0}, End: []int64{9000, 9000, 9000, 9000},
		Day: []int64{8000, 8000, 8000, 8000}, Week: []int64{4000, 4000, 4000, 4000}, Month: []int64{0, 0, 0, 0},
	}
}

func (y *yard) snapshot() *Snapshot {
	s := &Snapshot{At: y.at}
	if y.commit != nil {
		s.Groups = []GroupSnapshot{{Group: "billing", Known: true, CommitsKnown: true, Topics: []CommitsSnapshot{{Topic: "orders", Commits: y.commit}}}}
	}
	return s
}

// round sweeps after a while and returns what was found, by alert.
func (y *yard) round(after time.Duration, edit func(*SweptTopic)) map[string]Firing {
	y.t.Helper()
	y.at = y.at.Add(after)
	s := y.snapshot()
	swept := healthy()
	if edit != nil {
		edit(&swept)
	}
	s.Sweep = &SweepSnapshot{Topics: []SweptTopic{swept}}
	return y.evaluate(s)
}

func (y *yard) evaluate(s *Snapshot) map[string]Firing {
	y.engine.observe(s)
	out := map[string]Firing{}
	for _, t := range y.engine.evaluate(s).Topics {
		for _, f := range t.Firing {
			out[f.Alert] = f
		}
	}
	return out
}

const day = 24 * time.Hour

func TestSweepsFindWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alert      string
		wait       time.Duration // until it is so
		edit       func(*SweptTopic)
		nobody     bool // no group reads
		partitions []int32
		text       string
	}{
		"a placement that is not worth it": {lag.AlertPlacementStale, 7 * day, func(s *SweptTopic) { s.Week[3] = 8000 }, false, []int32{3}, "25 % of a mean partition"},
		"a placement without a record":     {lag.AlertPlacementStale, 30 * day, func(s *SweptTopic) { s.Week[3], s.Month[3] = None, None }, false, []int32{3}, "no record for 30 days"},
		"a partition without a record":     {lag.AlertPartitionUnused, 0, func(s *SweptTopic) { s.Week[1], s.Month[1] = None, None }, false, []int32{1}, "no record for 30 days"},
		"a partition that never had one":   {lag.AlertPartitionUnused, 30 * day, func(s *SweptTopic) { s.End[1], s.Week[1], s.Month[1] = 0, None, None }, false, []int32{1}, "no record"},
		"old records that nobody reads":    {lag.AlertUnread, 0, func(*SweptTopic) {}, true, []int32{0, 1, 2, 3}, "no group has committed"},
		"fewer partitions than the table":  {lag.AlertTableMismatch, 0, func(s *SweptTopic) { s.Partitions = 3 }, false, []int32{}, "has 3 partitions"},
		"no topic at all":                  {lag.AlertTableMismatch, 0, func(s *SweptTopic) { *s = SweptTopic{Topic: "orders"} }, false, []int32{}, "does not exist"},
		"records in quarantine":            {lag.AlertStaleRecords, 0, func(s *SweptTopic) { s.Quarantined = 7 }, false, []int32{}, "7 stale records"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t, nil)
			if c.nobody {
				y.commit = nil
			}
			edit := c.edit
			if name == "a placement that is not worth it" { // below 25 % of a mean partition
				edit = func(s *SweptTopic) { s.Week[3] = 8100 }
				c.text = "% of a mean partition"
			}
			found := y.round(0, edit)
			if _, early := found[c.alert]; early != (c.wait == 0) {
				t.Fatalf("at once: %+v", found)
			}
			found = y.round(c.wait, edit)
			f, ok := found[c.alert]
			if !ok || len(found) != 1 || f.Severity != "ticket" || !slices.Equal(f.Partitions, c.partitions) || !strings.Contains(f.Summary, c.text) {
				t.Fatalf("%+v", found)
			}
			// What a later sweep cannot see stays as it was found.
			if got := y.round(time.Hour, func(s *SweptTopic) { *s = SweptTopic{Topic: "orders", Partitions: -1, Quarantined: Unread} })[c.alert]; got.Since != f.Since {
				t.Fatalf("unseen: %+v", got)
			}
			if got := y.evaluate(y.snapshot())[c.alert]; got.Since != f.Since { // a round without a sweep
				t.Fatalf("between sweeps: %+v", got)
			}
			y.commit = []int64{0, 0, 0, 0}
			if found := y.round(time.Hour, nil); len(found) != 0 {
				t.Fatalf("after it was mended: %+v", found)
			}
		})
	}
}

// Sweeps of a topic that is as it should be find nothing, for months.
func TestSweepsOfAHealthyTopicFindNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	for range 60 {
		if found := y.round(day, nil); len(found) != 0 {
			t.Fatalf("%+v", found)
		}
	}
}

// A watcher of some groups cannot say that nobody reads, and one that did not
// see a group's commits cannot either.
func TestUnreadNeedsTheSightOfAllGroups(t *testing.T) {
	t.Parallel()
	y := newYard(t, func(cfg *Config) { cfg.Groups = []string{"billing"} })
	y.commit = nil
	if found := y.round(0, nil); len(found) != 0 {
		t.Errorf("%+v", found)
	}
	y = newYard(t, nil)
	y.commit = []int64{Unread, Unread, Unread, Unread}
	if found := y.round(0, nil); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

// Parked lanes are told once they have been for a while, and end when a commit
// no longer names them; a commit that was not read ends nothing.
func TestParkedLanesAreATicket(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	look := func(after time.Duration, commit int64, parked ...int32) map[string]Firing {
		y.at = y.at.Add(after)
		y.commit = []int64{commit, 0, 0, 0}
		s := y.snapshot()
		s.Groups[0].Topics[0].Parked = parked
		return y.evaluate(s)
	}
	if found := look(0, 5, 0, 2); len(found) != 0 {
		t.Fatalf("at once: %+v", found)
	}
	f, ok := look(parkedAfter, 5, 0, 2)[lag.AlertLaneParked]
	if !ok || !slices.Equal(f.Partitions, []int32{1}) || !strings.Contains(f.Summary, "2 lanes of group billing") {
		t.Fatalf("%+v", f)
	}
	if found := look(time.Minute, Unread); len(found) != 1 {
		t.Fatalf("unread: %+v", found)
	}
	if found := look(time.Minute, 9); len(found) != 0 {
		t.Fatalf("after it was resumed: %+v", found)
	}
}

// What sweeps found survives a restart as it was.
func TestFindingsSurviveARestart(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	before := y.round(0, func(s *SweptTopic) { s.Partitions = 3; s.Quarantined = 2 })
	y.round(time.Hour, func(s *SweptTopic) { s.Partitions = 3; s.Quarantined = 2 })
	data, err := json.Marshal(y.engine.savedSweep())
	if err != nil {
		t.Fatal(err)
	}
	var saved savedSweep
	if err := json.Unmarshal(data, &saved); err != nil {
		t.Fatal(err)
	}
	cfg := *y.engine.cfg
	y.engine = newEngine(&cfg)
	y.engine.restoreSweep(&saved)
	after := y.evaluate(y.snapshot())
	if len(after) != 2 || after[lag.AlertTableMismatch].Since != before[lag.AlertTableMismatch].Since {
		t.Fatalf("before %+v, after %+v", before, after)
	}
}

// With hashed tenants no pool, page or finding names one.
func TestHashedTenantsAreNowhere(t *testing.T) {
	t.Parallel()
	y := newYard(t, func(cfg *Config) { cfg.HashTenants = true })
	bare := func(s *SweptTopic) { s.Week[3], s.Month[3] = None, None }
	y.round(0, bare)
	y.round(31*day, bare)
	s := y.snapshot()
	s.Stale = []StaleLook{{Topic: "orders", Looked: 10, Found: []StaleRecord{{Partition: 0, Offset: 7, Tenant: []byte("acme")}}}}
	y.engine.observe(s)
	e := y.engine.evaluate(s)
	text, err := json.Marshal([]any{e, e.alerts})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.alerts) < 2 || strings.Contains(string(text), "acme") {
		t.Fatalf("%s", text)
	}
}

func TestStaleRecordsLieWhereTheTableDoesNotSendThem(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	since := y.at
	late := since.Add(time.Hour)
	topic := y.tables.now
	orders, _ := topic.Topic("orders")
	shared := orders.Lookup([]byte("ordinary"), nil).Partition
	record := func(tenant string, partition int32, at time.Time) *kgo.Record {
		return &kgo.Record{Key: []byte(tenant), Partition: partition, Offset: 100, Timestamp: at}
	}
	control := record("acme", 0, late)
	control.Headers = []kgo.RecordHeader{{Key: routing.HeaderControl, Value: []byte{1}}}
	for name, c := range map[string]struct {
		record *kgo.Record
		stale  bool
	}{
		"where it belongs":              {record("acme", 3, late), false},
		"of a slot, where it belongs":   {record("ordinary", shared, late), false},
		"elsewhere":                     {record("acme", 0, late), true},
		"of a slot, elsewhere":          {record("ordinary", (shared+1)%3, late), true},
		"older than the table":          {record("acme", 0, since.Add(-time.Hour)), false},
		"while producers get the table": {record("acme", 0, since.Add(time.Minute)), false},
		"without a tenant":              {record("", 0, late), false},
		"of control":                    {control, false},
	} {
		if _, stale := staleRecord(orders, c.record, since); stale != c.stale {
			t.Errorf("%s: stale is %v", name, stale)
		}
	}

	// Behind the fence of a move it is stale whatever its time says.
	y.tables.edit(t, routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{1}, Deadline: late}))
	y.tables.edit(t, routing.SwitchMove("orders", "m1", []routing.Fence{{Partition: 3, Offset: 50}}))
	orders, _ = y.tables.now.Topic("orders")
	if found, stale := staleRecord(orders, record("acme", 3, since.Add(-time.Hour)), late); !stale || !found.Fenced {
		t.Errorf("behind the fence: %+v, %v", found, stale)
	}

	s := y.snapshot()
	s.Stale = []StaleLook{{Topic: "orders", Looked: 10, Found: []StaleRecord{{Partition: 3, Offset: 100, Tenant: []byte("acme"), Fenced: true}}}}
	f, ok := y.evaluate(s)[lag.AlertStaleRecords]
	if !ok || f.Tenant != "acme" || !slices.Equal(f.Partitions, []int32{3}) {
		t.Fatalf("%+v", f)
	}
	s = y.snapshot()
	s.Stale = []StaleLook{{Topic: "orders", Looked: 10}}
	if found := y.evaluate(s); len(found) != 0 {
		t.Fatalf("after a clean look: %+v", found)
	}
}
