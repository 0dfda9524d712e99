package partitioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance/move"
)

// TestAcknowledgedRecordsAreThereOnceAndInOrder moves tenants and slots while
// each tenant is produced by a goroutine of its own, leases end, answers of
// brokers are lost, and moves pass the Producer over while its lease
// is away. Then a naive twin of a worker replays the logs by rule R1 alone: it
// drops what is stale and reads homes in the order of their epochs. Every
// record that was acknowledged must be there once, and each tenant's in order.
func TestAcknowledgedRecordsAreThereOnceAndInOrder(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { replayTwin(t, seed) })
	}
}

func replayTwin(t *testing.T, seed uint64) {
	const tenants, partitions, rounds = 6, 4, 12
	c := cluster(t, partitions)
	spec := wrapped(partitions, nil)
	spec.Slots = 8
	src := registering(tableOf(t, spec))
	reg := prometheus.NewPedanticRegistry()
	p := producing(t, c, src, ProducerConfig{MaxTenantRecords: 10, Registerer: reg}, kgo.ProducerLinger(0))
	for i := range int32(partitions) { // so that each log has a last record
		if err := p.barrier(patient(t), p.destOf("orders").part(i), routing.Control{}); err != nil {
			t.Fatal(err)
		}
	}
	acked := &acks{of: map[string][]int{}}
	var producers sync.WaitGroup
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop); producers.Wait() })
	defer end()
	for n := range tenants {
		producers.Go(func() { acked.produce(t, p, fmt.Sprint("tenant-", n), stop) })
	}
	// Written and answered with an error, or not written: the client sends both again.
	lost := []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition}
	var landing *kfake.FaultHandle
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range rounds {
		lapsed := i%3 == 1
		flaky := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: lost[random.IntN(len(lost))], Count: 1 + random.IntN(3)})
		id := fmt.Sprint("m", i)
		tenant := fmt.Sprint("tenant-", random.IntN(tenants))
		topic, _ := src.Table().Topic("orders")
		home := topic.Lookup([]byte(tenant), nil)
		to := (home.Partition + 1 + int32(random.IntN(partitions-1))) % partitions
		if lapsed { // with records under way to the old home, which land behind the fence
			flaky.Remove()
			stuck := withoutLeader(c, home.Partition)
			defer stuck.Remove()
			eventually(t, "a record is under way", func() bool { return p.InFlight("orders", []byte(tenant)) > 0 })
			src.lapse()
			landing = stuck
		}
		if home.Kind == routing.KindSlot && random.IntN(2) == 0 {
			src.prepareSlots(t, id, to, home.Slot)
		} else {
			src.prepare(t, id, tenant, to)
		}
		if !lapsed {
			src.awaitDrained(t, id)
		}
		switch {
		case random.IntN(4) == 0:
			src.edit(t, routing.AbortMove("orders", id))
		case lapsed: // its old home takes nothing now: the fence is what was last
			src.finish(t, c, id, 1)
		default:
			fenceAndSwitch(t, c, src, id)
		}
		if lapsed {
			src.renew()
			landing.Remove()
		}
		flaky.Remove()
	}
	end()
	if gather(t, reg)["tenantlane_producer_resends_total orders"] == 0 {
		t.Error("no record had to go again: the test shows nothing")
	}
	if err := p.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	p.empty(t)
	topic, _ := src.Table().Topic("orders")
	total := 0
	for i := range int32(partitions) {
		total += int(c.PartitionInfo("orders", i).HighWatermark)
	}
	acked.check(t, twin(t, topic, read(t, c, "orders", total)))
}

// fenceAndSwitch writes the fences as a coordinator does: what is written to an
// old home later lies behind them.
func fenceAndSwitch(t *testing.T, c *kfake.Cluster, src *registry, id string) {
	t.Helper()
	topic, _ := src.Table().Topic("orders")
	m, _ := topic.Move(id)
	client := clientOf(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	defer client.Close()
	var fences []routing.Fence
	for _, partition := range slices.Sorted(slices.Values(m.From)) {
		control := routing.Control{Kind: routing.ControlFence, Move: id, Unit: m.Unit(), Epoch: m.Epoch}
		r, err := client.ProduceSync(patient(t), &kgo.Record{
			Topic: "orders", Partition: partition, Key: routing.ControlKey(id), Value: []byte("fence"),
			Headers: []kgo.RecordHeader{{Key: routing.HeaderControl, Value: control.Append(nil)}},
		}).First()
		if err != nil {
			t.Fatal(err)
		}
		fences = append(fences, routing.Fence{Partition: partition, Offset: r.Offset})
	}
	src.edit(t, routing.SwitchMove("orders", id, fences))
}

// acks are what was acknowledged, by tenant.
type acks struct {
	mu sync.Mutex
	// guards of
	of map[string][]int
}

// produce sends one tenant's records in order until stop. Those that are refused
// for want of a lease are lost, as the application is told.
func (a *acks) produce(t *testing.T, p *Producer, tenant string, stop <-chan struct{}) {
	const atOnce = 5
	for i := 0; ; i += atOnce {
		var o outcome
		for n := range atOnce {
			done := o.promise()
			p.Produce(context.Background(), record(tenant, i+n), func(r *kgo.Record, err error) {
				if err == nil {
					a.note(tenant, i+n)
				}
				done(r, err)
			})
		}
		for _, err := range o.wait(t) {
			if err != nil && !errors.Is(err, store.ErrStaleTable) {
				t.Errorf("%s after %d: %v", tenant, i, err)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond): // leave the machine to the others
		}
	}
}

func (a *acks) note(tenant string, value int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[tenant] = append(a.of[tenant], value)
}

// twin gives each tenant's records in the order in which a worker that knows all
// homes handles them.
func twin(t *testing.T, topic *routing.Topic, records []*kgo.Record) map[string][]int {
	t.Helper()
	type kept struct {
		epoch  uint64
		offset int64
		value  int
	}
	lists := map[string][]kept{}
	for _, r := range records {
		if len(header(r, routing.HeaderControl)) > 0 {
			continue
		}
		stamp := stampOf(t, header(r, routing.HeaderRoute))
		placed := move.Placed{
			Tenant: r.Key, Slot: topic.Lookup(r.Key, nil).Slot, Kind: stamp.Kind, Epoch: stamp.Epoch,
			Partition: r.Partition, Offset: r.Offset,
		}
		if move.Stale(topic, placed) {
			continue
		}
		value, err := strconv.Atoi(string(r.Value))
		if err != nil {
			t.Fatal(err)
		}
		lists[string(r.Key)] = append(lists[string(r.Key)], kept{stamp.Epoch, r.Offset, value})
	}
	handled := map[string][]int{}
	for tenant, list := range lists {
		slices.SortFunc(list, func(a, b kept) int {
			return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.offset, b.offset))
		})
		for _, k := range list {
			handled[tenant] = append(handled[tenant], k.value)
		}
	}
	return handled
}

func (a *acks) check(t *testing.T, handled map[string][]int) {
	t.Helper()
	for tenant, list := range handled {
		if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("%s is handled out of order or twice: %v", tenant, list)
		}
	}
	for tenant, list := range a.of {
		for _, value := range list {
			if !slices.Contains(handled[tenant], value) {
				t.Errorf("%s: record %d was acknowledged and is not there", tenant, value)
			}
		}
	}
}
