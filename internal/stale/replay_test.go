package stale_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/stale"
	"github.com/tenantlane/tenantlane/internal/testkit"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const quarantine = "orders" + consumer.QuarantineSuffix

// world is a broker with the topic orders and its quarantine, and a table of
// which acme moved from partition 0 to 3, then to 2.
type world struct {
	t      *testing.T
	client *kgo.Client
	table  *routing.Table
	first  *routing.Move
	sent   []string // session/sequence of what was sent again, or the value
	fail   error
}

var session = [16]byte{9}

func newWorld(t *testing.T) *world {
	t.Helper()
	b := testkit.Broker(t, kfake.SeedTopics(4, "orders", quarantine))
	w := &world{t: t, client: testkit.Client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))}
	for i := range 3 { // below the fence
		w.produce(&kgo.Record{Topic: "orders", Key: []byte("acme"), Value: fmt.Append(nil, i)})
	}
	fence := w.produce(&kgo.Record{Topic: "orders", Key: []byte("tl-control/m1"), Value: []byte("fence")})
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {
		Partitions: 4, Slots: 16, Wrapped: true, Epoch: 1, Placements: map[string]routing.Placement{"acme": {Partitions: []int32{0}, Epoch: 1}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	far := time.Now().Add(time.Hour)
	w.table, err = table.Edit(
		routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{3}, Deadline: far}),
		routing.SwitchMove("orders", "m1", []routing.Fence{{Partition: 0, Offset: fence.Offset}}),
		routing.PrepareMove("orders", routing.Move{ID: "m2", Tenant: "acme", To: []int32{2}, Deadline: far}),
		routing.SwitchMove("orders", "m2", []routing.Fence{{Partition: 3, Offset: 100}}))
	if err != nil {
		t.Fatal(err)
	}
	topic, _ := w.table.Topic("orders")
	w.first, _ = topic.Move("m1")
	return w
}

func (w *world) produce(r *kgo.Record) *kgo.Record {
	w.t.Helper()
	if err := w.client.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func stamp(seq, epoch uint64) []kgo.RecordHeader {
	h := routing.RouteHeader{Kind: routing.KindTenant, Epoch: epoch, Session: session, Seq: seq}
	return []kgo.RecordHeader{{Key: routing.HeaderRoute, Value: h.Append(nil)}}
}

// late is a record of acme behind its first fence, found by each of some groups;
// without a sequence it is not stamped.
func (w *world) late(tenant string, seq uint64, groups ...string) {
	w.t.Helper()
	why := consumer.Staleness{Reason: consumer.StaleUnstamped, Move: "m1", Fence: w.first.Fences[0].Offset, Epoch: w.first.Epoch}
	r := &kgo.Record{Topic: "orders", Key: []byte(tenant), Value: fmt.Append(nil, "late ", seq)}
	if seq > 0 {
		r.Headers, why.Reason = stamp(seq, 1), consumer.StaleEpoch
	}
	r = w.produce(r)
	for _, group := range groups {
		w.produce(consumer.Quarantined(r, quarantine, group, why))
	}
}

func (w *world) ProduceSync(_ context.Context, rs ...*kgo.Record) kgo.ProduceResults {
	w.sent = append(w.sent, string(rs[0].Value))
	return kgo.ProduceResults{{Record: rs[0], Err: w.send(rs[0])}}
}

func (w *world) Resend(_ context.Context, r *kgo.Record, of [16]byte, seq uint64) error {
	w.sent = append(w.sent, fmt.Sprint(of[0], "/", seq))
	r.Headers = append(stamp(seq, 3), r.Headers...)
	return w.send(r)
}

// send writes to acme's present home.
func (w *world) send(r *kgo.Record) error {
	if w.fail != nil {
		return w.fail
	}
	if !slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == stale.HeaderOrigin }) {
		w.t.Errorf("%v does not say where it lay", r.Headers)
	}
	r.Partition = 2
	w.produce(r)
	return nil
}

func (w *world) config() stale.Config {
	return stale.Config{Topic: quarantine, Table: w.table, Sender: w}
}

func (w *world) replay(cfg stale.Config) stale.Report {
	w.t.Helper()
	report, err := stale.Replay(w.t.Context(), w.client, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	report.Scanned = 0
	return report
}

func TestAReplaySkipsWhatIsInAHomeSinceTheFence(t *testing.T) {
	w := newWorld(t)
	w.produce(&kgo.Record{Topic: "orders", Partition: 3, Key: []byte("acme"), Headers: stamp(11, 2)}) // sent again to the home in between
	w.produce(&kgo.Record{Topic: "orders", Partition: 2, Key: []byte("acme"), Headers: stamp(12, 3)}) // and to the present one
	w.produce(&kgo.Record{Topic: "orders", Partition: 1, Key: []byte("acme"), Headers: stamp(13, 3)}) // which is none of its homes
	for seq := uint64(11); seq <= 14; seq++ {
		w.late("acme", seq, "billing", "search")
	}
	w.late("acme", 0, "billing")
	dry := w.config()
	dry.DryRun, dry.Sender = true, nil
	want := stale.Report{Letters: 5, Replayed: 3, Present: 2, Copies: 4, Tenants: 1}
	if diff := cmp.Diff(want, w.replay(dry)); diff != "" {
		t.Errorf("dry run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, w.replay(w.config())); diff != "" {
		t.Errorf("replay (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"9/13", "9/14", "late 0"}, w.sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	want = stale.Report{Letters: 5, Before: 5, Copies: 4}
	if diff := cmp.Diff(want, w.replay(w.config())); diff != "" {
		t.Errorf("again (-want +got):\n%s", diff)
	}
}

// One that is killed before its mark finds what it sent, stamped or not.
func TestAReplayThatWasCutOffFindsWhatItSent(t *testing.T) {
	w := newWorld(t)
	w.late("acme", 5, "billing")
	w.late("acme", 0, "billing")
	for _, l := range []*kgo.Record{{Key: []byte("acme"), Headers: stamp(5, 3)}, {Key: []byte("acme"), Headers: []kgo.RecordHeader{{Key: stale.HeaderOrigin, Value: []byte("orders/0/5")}}}} {
		l.Topic, l.Partition = "orders", 2
		w.produce(l)
	}
	want := stale.Report{Letters: 2, Present: 2}
	if diff := cmp.Diff(want, w.replay(w.config())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAReplayTakesTenantsAndALimit(t *testing.T) {
	w := newWorld(t)
	w.late("acme", 1, "billing")
	w.late("globex", 2, "billing")
	w.late("acme", 3, "billing")
	cfg := w.config()
	cfg.Tenants, cfg.Limit = [][]byte{[]byte("acme")}, 1
	if diff := cmp.Diff(stale.Report{Letters: 2, Replayed: 1, Tenants: 1}, w.replay(cfg)); diff != "" {
		t.Errorf("limited (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stale.Report{Letters: 2, Replayed: 1, Before: 1, Tenants: 1}, w.replay(cfg)); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"9/1", "9/3"}, w.sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestAFailureStopsAReplayBehindWhatIsMarked(t *testing.T) {
	w := newWorld(t)
	w.late("acme", 1, "billing")
	w.fail = errors.New("no leader")
	report, err := stale.Replay(t.Context(), w.client, w.config())
	if !errors.Is(err, w.fail) || report.Replayed != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	w.fail = nil
	if got := w.replay(w.config()); got.Replayed != 1 {
		t.Errorf("%+v", got)
	}
}

func TestADropMarksAndSendsNothing(t *testing.T) {
	w := newWorld(t)
	w.late("acme", 1, "billing", "search")
	cfg := stale.Config{Topic: quarantine, DryRun: true}
	want := stale.Report{Letters: 1, Dropped: 1, Copies: 1, Tenants: 1}
	for range 2 {
		got, err := stale.Drop(t.Context(), w.client, cfg)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("(-want +got):\n%s%v", diff, err)
		}
		cfg.DryRun = false
	}
	if got := w.replay(w.config()); got.Before != 1 || got.Replayed != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAListNamesTenantSessionAndRange(t *testing.T) {
	w := newWorld(t)
	for seq := uint64(7); seq <= 9; seq++ {
		w.late("acme", seq, "billing", "search")
	}
	w.late("acme", 0, "billing")
	w.late("globex", 4, "billing")
	w.produce(&kgo.Record{Topic: quarantine, Key: []byte("x"), Value: []byte("not ours")})
	if _, err := stale.Drop(t.Context(), w.client, stale.Config{Topic: quarantine, Selection: stale.Selection{Tenants: [][]byte{[]byte("globex")}}}); err != nil {
		t.Fatal(err)
	}
	list, foreign, err := stale.List(t.Context(), w.client, quarantine, stale.Selection{})
	if err != nil || foreign != 1 || len(list) != 3 {
		t.Fatalf("%+v, %d, %v", list, foreign, err)
	}
	a, b, g := list[0], list[1], list[2]
	if string(a.Tenant) != "acme" || a.Session != "" || a.Reason != consumer.StaleUnstamped || a.Count != 1 || a.Done != 0 {
		t.Errorf("%+v", a)
	}
	if b.Session[:2] != "09" || b.Seqs != [2]uint64{7, 9} || b.Offsets != [2]int64{4, 6} || b.Count != 3 || b.Move != "m1" || b.Fence != 3 ||
		b.Times[0].IsZero() || b.Times[1].Before(b.Times[0]) {
		t.Errorf("%+v", b)
	}
	if string(g.Tenant) != "globex" || g.Count != 1 || g.Done != 1 {
		t.Errorf("%+v", g)
	}
}

func TestAMarkThatCannotBeReadIsAnError(t *testing.T) {
	w := newWorld(t)
	w.produce(&kgo.Record{Topic: quarantine, Headers: []kgo.RecordHeader{{Key: stale.HeaderDone, Value: []byte("x")}}})
	if _, _, err := stale.List(t.Context(), w.client, quarantine, stale.Selection{}); err == nil {
		t.Error("it was read")
	}
}

// Where retention has taken the fence, the homes are scanned from their starts.
func TestAFenceThatIsGoneMakesTheScanLonger(t *testing.T) {
	w := newWorld(t)
	old := &kgo.Record{Topic: "orders", Partition: 2, Key: []byte("acme"), Headers: stamp(5, 3), Timestamp: time.Now().Add(-48 * time.Hour)}
	w.produce(old)
	w.late("acme", 5, "billing")
	dry := w.config()
	dry.DryRun = true
	if got := w.replay(dry); got.Present != 0 || got.Replayed != 1 {
		t.Errorf("with the fence, a record of two days before it counts: %+v", got)
	}
	gone := kadm.Offsets{}
	gone.AddOffset("orders", 0, w.first.Fences[0].Offset+1, -1)
	if _, err := kadm.NewClient(w.client).DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if got := w.replay(dry); got.Present != 1 || got.Replayed != 0 {
		t.Errorf("without the fence: %+v", got)
	}
}
