package live_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/internal/testkit"
	"github.com/tenantlane/tenantlane/partitioner/live"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a broker with the topic "orders" of four partitions, and a table
// that has acme on partition 1 and the slots of 0 to 3.
type world struct {
	t      *testing.T
	addrs  []string
	client *kgo.Client
	table  *routing.Table
}

func newWorld(t *testing.T) *world {
	t.Helper()
	b := testkit.Broker(t, kfake.SeedTopics(4, "orders", "other"))
	client := testkit.Client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("orders"))
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {
		Partitions: 4, Slots: 16, TenantOf: routing.TenantRule{From: routing.FromPrefix, Arg: ":"},
		Placements: map[string]routing.Placement{"acme": {Partitions: []int32{1}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, b.Addrs(), client, table}
}

// produce sends records of a tenant to where the table has it.
func (w *world) produce(tenant string, n int) (partition int32) {
	w.t.Helper()
	partition = w.topic().Lookup([]byte(tenant), nil).Partition
	for range n {
		r := &kgo.Record{Partition: partition, Key: []byte(tenant + ":1"), Value: []byte("x")}
		if err := w.client.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
	return partition
}

func (w *world) commit(group, topic string, partition int32, at int64) {
	w.t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: at})
	if err := kadm.NewClient(w.client).CommitAllOffsets(w.t.Context(), group, offsets); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) topic() *routing.Topic {
	topic, _ := w.table.Topic("orders")
	return topic
}

func (w *world) edited(edits ...routing.Edit) *routing.Topic {
	w.t.Helper()
	next, err := w.table.Edit(edits...)
	if err != nil {
		w.t.Fatal(err)
	}
	topic, _ := next.Topic("orders")
	return topic
}

func (w *world) rerouted(after *routing.Topic) live.Result {
	w.t.Helper()
	got, err := live.Rerouted(w.t.Context(), w.client, w.topic(), after)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func toPartition(tenant string, partitions ...int32) routing.Edit {
	return routing.SetPlacement("orders", tenant, routing.Placement{Partitions: partitions})
}

func TestATenantIsLiveUntilEveryGroupHasCommitted(t *testing.T) {
	w := newWorld(t)
	moveAcme := w.edited(toPartition("acme", 2))
	w.produce("acme", 3)
	if got := w.rerouted(moveAcme); got.Record == nil || got.Record.Offset != 0 || got.Record.Group != "" || got.Ends[1] != 3 {
		t.Errorf("without a group: %+v, want all live, for the first group to come", got)
	}
	w.commit("fast", "orders", 1, 3)
	w.commit("elsewhere", "other", 1, 0)
	if got := w.rerouted(moveAcme); got.Record != nil {
		t.Errorf("all committed: %+v, want nothing live", got.Record)
	}
	w.commit("slow", "orders", 1, 1)
	want := &live.Record{Tenant: []byte("acme"), Partition: 1, Offset: 1, Group: "slow", Committed: 1}
	if diff := cmp.Diff(want, w.rerouted(moveAcme).Record); diff != "" {
		t.Errorf("one group is behind (-want +got):\n%s", diff)
	}
	w.commit("slow", "orders", 1, 3)
	if got := w.rerouted(moveAcme); got.Record != nil {
		t.Errorf("committed at last: %+v, want nothing live", got.Record)
	}
	w.commit("half", "orders", 0, 0)
	if got := w.rerouted(moveAcme); got.Record == nil || got.Record.Group != "half" || got.Record.Offset != 0 {
		t.Errorf("a group of the topic has no commit in the partition: %+v, want all live", got.Record)
	}
}

func TestOnlyWhatIsReroutedIsLive(t *testing.T) {
	w := newWorld(t)
	w.commit("g", "orders", 0, 0)
	acme, hooli := w.produce("acme", 2), w.produce("hooli", 2)
	for name, c := range map[string]struct {
		after *routing.Topic
		live  string
	}{
		"another tenant moves":           {w.edited(toPartition("globex", 3)), ""},
		"only its tier changes":          {w.edited(routing.SetTier("orders", "gold", routing.Tier{}), routing.SetTenantTier("orders", "acme", "gold")), ""},
		"pinned where its slot has it":   {w.edited(toPartition("hooli", hooli)), ""},
		"pinned elsewhere":               {w.edited(toPartition("hooli", (hooli+1)%4)), "hooli"},
		"its slot moves":                 {w.edited(routing.SetSlots("orders", map[int32]int32{w.topic().Lookup([]byte("hooli"), nil).Slot: (hooli + 1) % 4})), "hooli"},
		"spread":                         {w.edited(routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{acme, 3}, Spread: routing.SpreadKey})), "acme"},
		"spread over the same partition": {w.edited(routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{acme}, Spread: routing.SpreadKey})), "acme"},
		"another topic":                  {w.edited(routing.SetPlacement("orders", "acme", routing.Placement{Topic: "other"})), "acme"},
		"all move, the first is named":   {w.edited(toPartition("acme", 3), toPartition("hooli", (hooli+1)%4)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if r := w.rerouted(c.after).Record; r != nil {
				got = string(r.Tenant)
			}
			if strings.HasPrefix(name, "all move") {
				if c.live = "acme"; hooli < acme {
					c.live = "hooli"
				}
			}
			if got != c.live {
				t.Errorf("live: %q, want %q", got, c.live)
			}
		})
	}
}

func TestControlRecordsAreNobodysTenant(t *testing.T) {
	w := newWorld(t)
	w.commit("g", "orders", 1, 0)
	control := &kgo.Record{Partition: 1, Key: []byte("acme:control"), Value: []byte("x"), Headers: []kgo.RecordHeader{
		{Key: routing.HeaderControl, Value: routing.Control{Kind: routing.ControlFence}.Append(nil)},
	}}
	if err := w.client.ProduceSync(t.Context(), control).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := w.rerouted(w.edited(toPartition("acme", 2))); got.Record != nil {
		t.Errorf("live: %+v, want nothing", got.Record)
	}
}

func TestAMemberWithoutACommitCounts(t *testing.T) {
	for protocol, opts := range map[string][]kgo.Opt{"classic": nil, "KIP-848": {kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer())}} {
		t.Run(protocol, func(t *testing.T) {
			w := newWorld(t)
			w.produce("acme", 2)
			member, err := kgo.NewClient(append([]kgo.Opt{
				kgo.SeedBrokers(w.addrs...), kgo.ConsumerGroup("new"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
			}, opts...)...)
			if err != nil {
				t.Fatal(err)
			}
			defer member.Close()
			if err := member.PollFetches(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if got := w.rerouted(w.edited(toPartition("acme", 2))); got.Record == nil || got.Record.Group != "new" || got.Record.Committed != 0 {
				t.Errorf("live: %+v, want the member's group named", got.Record)
			}
		})
	}
}

func TestAfterFindsWhatCameMeanwhile(t *testing.T) {
	w := newWorld(t)
	after := w.edited(toPartition("acme", 2))
	w.produce("acme", 2)
	ends := w.rerouted(after).Ends
	look := func() *live.Record {
		found, err := live.After(t.Context(), w.client, w.topic(), after, ends)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := look(); found != nil {
		t.Errorf("found %+v, want nothing", found)
	}
	w.produce("acme", 1)
	if found := look(); found == nil || found.Offset != 2 || string(found.Tenant) != "acme" {
		t.Errorf("found %+v, want acme at offset 2", found)
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := live.Rerouted(ctx, w.client, w.topic(), w.edited(toPartition("acme", 2))); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was canceled", err)
	}
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{"nowhere": {Partitions: 2, Placements: map[string]routing.Placement{"acme": {Partitions: []int32{0}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	next, err := table.Edit(routing.SetPlacement("nowhere", "acme", routing.Placement{Partitions: []int32{1}}))
	if err != nil {
		t.Fatal(err)
	}
	before, _ := table.Topic("nowhere")
	after, _ := next.Topic("nowhere")
	if _, err := live.Rerouted(t.Context(), w.client, before, after); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("error %v, want that the topic is unknown", err)
	}
}

func TestGroupsOfManyAreListedByName(t *testing.T) {
	w := newWorld(t)
	var writers sync.WaitGroup
	for _, name := range []string{"c", "a", "b"} {
		writers.Go(func() { w.commit(name, "orders", 0, 0) })
	}
	writers.Wait()
	groups, err := live.Groups(t.Context(), w.client, "orders")
	if err != nil || len(groups) != 3 || groups[0].Name != "a" || groups[2].Name != "c" {
		t.Errorf("groups %+v, %v", groups, err)
	}
}

func TestIdleTenantsHadNoRecordSince(t *testing.T) {
	w := newWorld(t)
	table, err := w.table.Edit(
		toPartition("globex", 2), toPartition("hooli", 2), toPartition("initech", 3),
		routing.SetPlacement("orders", "umbrella", routing.Placement{Topic: "other"}),
		routing.SetPlacement("orders", "spread", routing.Placement{Partitions: []int32{0, 3}, Spread: routing.SpreadKey}))
	if err != nil {
		t.Fatal(err)
	}
	w.table = table
	old := &kgo.Record{Partition: 2, Key: []byte("globex:1"), Timestamp: time.Now().Add(-time.Hour)}
	if err = w.client.ProduceSync(t.Context(), old).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.produce("acme", 2)
	w.produce("hooli", 1)
	if err = w.client.ProduceSync(t.Context(), &kgo.Record{Partition: 3, Key: []byte("spread:1")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	idle, err := live.Idle(t.Context(), w.client, w.topic(), time.Now().Add(-time.Minute))
	if diff := cmp.Diff([]string{"globex", "initech"}, idle); err != nil || diff != "" {
		t.Errorf("error %v, idle (-want +got):\n%s", err, diff)
	}
}
