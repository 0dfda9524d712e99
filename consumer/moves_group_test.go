package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// openTable opens the routing table of a cluster, and makes it at first.
func (c *cluster) openTable(t *testing.T) *store.Topic {
	t.Helper()
	table, err := store.OpenTopic(t.Context(), store.TopicConfig{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Create: true, Empty: true, Heartbeat: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

// wrap puts the topic into the table, for wrapped producers, with tenants in
// partition 0.
func (c *cluster) wrap(t *testing.T, table *store.Topic, tenants ...string) {
	t.Helper()
	spec := routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{topic: {
		Partitions: 2, Slots: 16, Wrapped: true, Placements: map[string]routing.Placement{},
	}}}
	for _, tenant := range tenants {
		spec.Topics[topic].Placements[tenant] = routing.Placement{Partitions: []int32{0}}
	}
	first, err := routing.NewTable(spec)
	if err != nil {
		t.Fatal(err)
	}
	_, err = table.Update(t.Context(), store.Author{Actor: "test"}, func(*routing.Table) (*routing.Table, error) { return first, nil })
	if err != nil {
		t.Fatal(err)
	}
}

// mover is a producer of some tenants and what moves them, which takes turns with
// it: a move begins with nothing in flight, as partitioner.Producer sees to.
type mover struct {
	*cluster
	table *store.Topic
	sent  map[string]int
}

// send writes the next records of a tenant to where it is, stamped.
func (m *mover) send(tenant string, n int) {
	m.t.Helper()
	orders, _ := m.table.Table().Topic(topic)
	at := orders.Lookup([]byte(tenant), nil)
	var records []*kgo.Record
	for range n {
		m.sent[tenant]++
		r := record(at.Partition, tenant, strconv.Itoa(m.sent[tenant]))
		r.Headers = []kgo.RecordHeader{{Key: routing.HeaderRoute, Value: routing.RouteHeader{Kind: at.Kind, Epoch: at.Epoch}.Append(nil)}}
		records = append(records, r)
	}
	m.produce(records...)
}

// move moves a tenant to the other partition, and lets a record be late.
func (m *mover) move(tenant string) {
	m.t.Helper()
	orders, _ := m.table.Table().Topic(topic)
	from := orders.Lookup([]byte(tenant), nil)
	id := fmt.Sprintf("%s-%d", tenant, m.sent[tenant])
	m.update(routing.PrepareMove(topic, routing.Move{
		ID: id, Tenant: tenant, To: []int32{1 - from.Partition}, Deadline: time.Now().Add(time.Minute),
	}))
	orders, _ = m.table.Table().Topic(topic)
	open, _ := orders.Move(id)
	c := routing.Control{Kind: routing.ControlFence, Move: id, Unit: open.Unit(), Epoch: open.Epoch}
	fence := record(from.Partition, string(routing.ControlKey(id)), "fence")
	fence.Headers = []kgo.RecordHeader{{Key: routing.HeaderControl, Value: c.Append(nil)}}
	m.produce(fence)
	late := record(from.Partition, tenant, "late")
	late.Headers = []kgo.RecordHeader{{Key: routing.HeaderRoute, Value: routing.RouteHeader{Kind: from.Kind, Epoch: from.Epoch}.Append(nil)}}
	m.produce(late)
	m.update(routing.SwitchMove(topic, id, []routing.Fence{{Partition: from.Partition, Offset: fence.Offset}}))
}

func (m *mover) update(edits ...routing.Edit) {
	m.t.Helper()
	_, err := m.table.Update(m.t.Context(), store.Author{Actor: "test"}, func(now *routing.Table) (*routing.Table, error) { return now.Edit(edits...) })
	if err != nil {
		m.t.Fatal(err)
	}
}

// TestTenantsKeepTheirOrderAcrossMoves swaps tenants between two partitions of
// two workers, one of which is killed in between, and wants what came too late in
// quarantine.
func TestTenantsKeepTheirOrderAcrossMoves(t *testing.T) {
	c := newCluster(t, 2)
	m := &mover{c, c.openTable(t), map[string]int{}}
	c.wrap(t, m.table, "a", "b")
	j := newJournal()
	start := func() *worker {
		cfg := c.mortal()
		cfg.Table = c.openTable(t)
		cfg.MaxRecords = 200
		return c.start(cfg, j.handle)
	}
	first, second := start(), start()
	for _, w := range []*worker{first, second} {
		c.eventually(t, "a partition for each worker", func() bool { return w.Partitions() == 1 })
	}
	m.send("a", 100)
	m.move("a")
	const rounds = 6
	for i := range rounds {
		m.send("a", 50)
		m.send("b", 50)
		m.move("a")
		m.move("b")
		if i == rounds/2 {
			first.kill()
			start()
		}
	}
	m.send("a", 50)
	m.send("b", 50)
	j.wait(t, "all records", func(all []handling) bool {
		last := lastOf(all)
		return last["a"] == m.sent["a"] && last["b"] == m.sent["b"]
	})
	for _, h := range j.all() {
		if h.value == "late" {
			t.Errorf("a stale record was handled: %+v", h)
		}
	}
	wantOrderAcross(t, j.all(), m.sent)
	c.eventually(t, "the late records in quarantine", func() bool { return quarantined(t, c) >= 2*rounds+1 })
}

func lastOf(all []handling) map[string]int {
	last := make(map[string]int)
	for _, h := range all {
		if v, err := strconv.Atoi(h.value); err == nil {
			last[h.tenant] = max(last[h.tenant], v)
		}
	}
	return last
}

// quarantined is how many records lie in quarantine, without copies.
func quarantined(t *testing.T, c *cluster) int {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic+consumer.QuarantineSuffix), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	keys := make(map[string]bool)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for len(keys) < 13 && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { keys[string(r.Key)] = true })
	}
	return len(keys)
}

// wantOrderAcross wants each tenant's values in order over all partitions, but
// for repeats of one partition after a crash, and all of them.
func wantOrderAcross(t *testing.T, all []handling, sent map[string]int) {
	t.Helper()
	last := make(map[string]int)
	for _, h := range all {
		v, _ := strconv.Atoi(h.value)
		if v > last[h.tenant]+1 {
			t.Fatalf("tenant %s: %s of partition %d handled after %d", h.tenant, h.value, h.partition, last[h.tenant])
		}
		last[h.tenant] = max(last[h.tenant], v)
	}
	for tenant, n := range sent {
		if last[tenant] != n {
			t.Errorf("tenant %s: %d handled, want %d", tenant, last[tenant], n)
		}
	}
}
