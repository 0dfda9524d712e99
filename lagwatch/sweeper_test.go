package lagwatch_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// movedTable is a table of "orders" and of a topic that does not exist, in
// which acme has moved from partition 3 to partition 2, behind offset 5.
func movedTable(t *testing.T) store.Source {
	t.Helper()
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{
		"orders": {
			Partitions: 4, Slots: 64, Wrapped: true, Placements: map[string]routing.Placement{"acme": {Partitions: []int32{3}}},
		},
		"mails": {Partitions: 2, Slots: 64},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range []routing.Edit{
		routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{2}, Deadline: time.Now().Add(time.Minute)}),
		routing.SwitchMove("orders", "m1", []routing.Fence{{Partition: 3, Offset: 5}}),
	} {
		if table, err = table.Edit(edit); err != nil {
			t.Fatal(err)
		}
	}
	return store.Fixed(table)
}

// A sweep asks the cluster: a topic that the table sends to and that is not
// there, a quarantine with records, records behind a fence. Top tenants of what
// arrives are named, and the move is shown.
func TestSweepAsksTheCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	if _, err := c.admin.CreateTopic(t.Context(), 1, 1, nil, "orders.tl-quarantine"); err != nil {
		t.Fatal(err)
	}
	if err := c.client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders.tl-quarantine", Value: []byte("stale")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.produce(3, "acme", 10, 0)
	c.commit("billing", 0, 0, 0, 10)
	seen := make(chan *lagwatch.Evaluation, 10_000)
	stop := running(t, c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Table = fast(), movedTable(t)
		cfg.OnEvaluation = func(e *lagwatch.Evaluation) { seen <- e }
	}))
	defer stop()
	firing := func(e *lagwatch.Evaluation, topic, alert string) (lagwatch.Firing, bool) {
		for _, x := range e.Topics {
			if i := slices.IndexFunc(x.Firing, func(f lagwatch.Firing) bool { return f.Alert == alert }); x.Topic == topic && i >= 0 {
				return x.Firing[i], true
			}
		}
		return lagwatch.Firing{}, false
	}
	e := <-seen // the first round sweeps
	if e.Blind || len(e.Errors) > 0 {
		t.Fatalf("a topic without a quarantine, or that is not there, is blindness: %v", e.Errors)
	}
	if _, ok := firing(e, "mails", lag.AlertTableMismatch); !ok {
		t.Fatalf("the missing topic is not found: %s", asJSON(t, e.Topics))
	}
	if f, ok := firing(e, "orders", lag.AlertStaleRecords); !ok || f.Tenant != "" {
		t.Fatalf("the quarantine is not found: %s", asJSON(t, e.Topics))
	}
	if i := slices.IndexFunc(e.Topics, func(x lagwatch.TopicEvaluation) bool { return len(x.Moves) == 1 }); i < 0 || e.Topics[i].Moves[0].Tenant != "acme" {
		t.Fatalf("the move is not shown: %s", asJSON(t, e.Topics))
	}
	for named, top := false, false; !named || !top; {
		c.produce(1, "importer", 20, 0)
		e := <-seen
		f, _ := firing(e, "orders", lag.AlertStaleRecords)
		named = named || f.Tenant == "acme" && slices.Equal(f.Partitions, []int32{3})
		for _, x := range e.Topics {
			top = top || len(x.Top) > 0 && x.Top[0].Tenant == "importer" && x.Top[0].PerSecond > 0
		}
	}
}

// A partition's end is asked for before its times: a record that comes in between
// would else make a new partition look unused for a month.
func TestASweepAsksForEndsBeforeTimes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	var mu sync.Mutex
	var asked []int64
	c.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Observe: true, Count: -1, When: func(req kmsg.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp)
		return true
	}})
	seen := make(chan *lagwatch.Evaluation, 10_000)
	stop := running(t, c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Table = fast(), movedTable(t)
		cfg.OnEvaluation = func(e *lagwatch.Evaluation) { seen <- e }
	}))
	defer stop()
	<-seen // the first round sweeps
	mu.Lock()
	defer mu.Unlock()
	if i := slices.IndexFunc(asked, func(at int64) bool { return at > 0 }); i < 1 || asked[i-1] != -1 || len(asked[i:]) < 3 {
		t.Errorf("asked for %v, want ends (-1) and then the times", asked)
	}
}

// What a topic's records are about is hashed when tenants are.
func TestTopTenantsAreHashed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.commit("billing", 0, 0, 0, 0)
	seen := make(chan *lagwatch.Evaluation, 10_000)
	stop := running(t, c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.HashTenants = fast(), true
		cfg.OnEvaluation = func(e *lagwatch.Evaluation) { seen <- e }
	}))
	defer stop()
	for e := range seen {
		c.produce(1, "importer", 20, 0)
		if len(e.Topics) == 0 {
			continue
		}
		if top := e.Topics[0].Top; len(top) != 1 || top[0].Tenant == "importer" || top[0].Share < 0.99 {
			t.Fatalf("%+v", top)
		}
		return
	}
}
