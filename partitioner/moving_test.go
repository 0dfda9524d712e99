package partitioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestRevisionIsAwaited(t *testing.T) {
	c := cluster(t, 2)
	src := swapping(tableOf(t, routing.TopicSpec{Partitions: 2}))
	p := producing(t, c, src, ProducerConfig{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.WaitRevision(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := p.WaitRevision(patient(t), 2); err != nil {
			t.Error(err)
		}
	})
	src.place(t, "acme", 1)
	wait.Wait()
	if p.Revision() != 2 {
		t.Errorf("revision %d", p.Revision())
	}
}

// TestOrderHoldsWhileTenantsMove moves tenants to and fro under load, as a
// coordinator does, and then reads every record: within a tenant, ordered by
// epoch and then by offset, no record may be missing or come before an earlier
// one, and each must lie where its epoch's table placed it.
func TestOrderHoldsWhileTenantsMove(t *testing.T) {
	const tenants, perTenant, partitions = 6, 400, 5
	c := cluster(t, partitions)
	src := swapping(tableOf(t, routing.TopicSpec{Partitions: partitions}))
	p := producing(t, c, src, ProducerConfig{MaxTenantRecords: 20, MaxQueuedRecords: perTenant})
	var o outcome
	var producers, mover sync.WaitGroup
	stop := make(chan struct{})
	homes := newHomes()
	mover.Go(func() { moveAround(t, p, src, homes, tenants, partitions, stop) })
	for n := range tenants {
		producers.Go(func() {
			for i := range perTenant {
				p.Produce(context.Background(), record(fmt.Sprint("tenant-", n), i), o.promise())
			}
		})
	}
	producers.Wait()
	close(stop)
	mover.Wait()
	o.ok(t)
	homes.check(t, read(t, c, "orders", tenants*perTenant), perTenant)
}

// homes notes where each tenant was placed, by epoch.
type homes struct {
	mu sync.Mutex
	// guards at
	at map[string]map[uint64]int32
}

func newHomes() *homes { return &homes{at: map[string]map[uint64]int32{}} }

func (h *homes) note(tenant string, epoch uint64, partition int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at[tenant] == nil {
		h.at[tenant] = map[uint64]int32{}
	}
	h.at[tenant][epoch] = partition
}

func moveAround(t *testing.T, p *Producer, src *swap, h *homes, tenants, partitions int, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		tenant, to := fmt.Sprint("tenant-", i%tenants), int32(i%partitions)
		p.Pause("orders", []byte(tenant))
		if err := p.Settle(patient(t), "orders", []byte(tenant)); err != nil {
			t.Error(err)
			return
		}
		src.place(t, tenant, to)
		topic, _ := src.Table().Topic("orders")
		h.note(tenant, topic.Lookup([]byte(tenant), nil).Epoch, to)
		p.Resume("orders", []byte(tenant))
	}
}

func (h *homes) check(t *testing.T, records []*kgo.Record, perTenant int) {
	t.Helper()
	type placed struct {
		epoch  uint64
		offset int64
		value  string
	}
	byTenant, seen := map[string][]placed{}, map[uint64]bool{}
	for _, r := range records {
		stamp, err := routing.ParseRouteHeader([]byte(header(r, routing.HeaderRoute)[0]))
		if err != nil {
			t.Fatal(err)
		}
		if seen[stamp.Seq] {
			t.Errorf("sequence %d of the session came twice", stamp.Seq)
		}
		seen[stamp.Seq] = true
		if want, noted := h.at[string(r.Key)][stamp.Epoch]; noted && want != r.Partition {
			t.Errorf("%s of epoch %d lies in partition %d, not %d", r.Key, stamp.Epoch, r.Partition, want)
		}
		byTenant[string(r.Key)] = append(byTenant[string(r.Key)], placed{stamp.Epoch, r.Offset, string(r.Value)})
	}
	for tenant, list := range byTenant {
		slices.SortFunc(list, func(a, b placed) int {
			return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.offset, b.offset))
		})
		if len(list) != perTenant {
			t.Errorf("%s has %d records", tenant, len(list))
		}
		for i, at := range list {
			if at.value != strconv.Itoa(i) {
				t.Fatalf("%s: place %d holds record %s", tenant, i, at.value)
			}
		}
	}
}

func TestAResumeAtWaitsForItsRevision(t *testing.T) {
	c := cluster(t, 2)
	src := swapping(tableOf(t, pinned(2, map[string]int32{"acme": 0})))
	p := producing(t, c, src, ProducerConfig{})
	acme := []byte("acme")
	var o outcome
	p.Pause("orders", acme)
	p.ResumeAt("orders", acme, 2)
	p.Produce(context.Background(), record("acme", 1), o.promise())
	if n := p.topicOf("orders").gates.queued(); n != 1 {
		t.Fatalf("%d records wait", n)
	}
	src.place(t, "acme", 1)
	o.ok(t)
	if got := o.records[0].Partition; got != 1 {
		t.Errorf("went to partition %d", got)
	}

	p.Pause("orders", acme)
	p.ResumeAt("orders", acme, 3)
	p.Pause("orders", acme) // another move: the first one's resume is void
	src.place(t, "acme", 0)
	if err := p.WaitRevision(patient(t), 3); err != nil {
		t.Fatal(err)
	}
	p.Produce(context.Background(), record("acme", 2), o.promise())
	if n := p.topicOf("orders").gates.queued(); n != 1 {
		t.Errorf("%d records wait", n)
	}
	p.ResumeAt("orders", acme, 3) // known already
	o.ok(t)
}

// flipping is a Source that shows the next table from the second look on.
type flipping struct {
	*swap
	looks atomic.Int64
	next  atomic.Pointer[routing.Table] // nil until armed
}

func (f *flipping) Table() *routing.Table {
	if next := f.next.Load(); next != nil && f.looks.Add(1) > 1 {
		return next
	}
	return f.swap.Table()
}

// TestARecordThatWasCountedGoesByTheTableOfThatMoment changes the table between
// the routing of a record and its being counted at its gate. A coordinator that
// pauses, settles, switches and resumes within that moment would else see the
// record go to the old home afterwards.
func TestARecordThatWasCountedGoesByTheTableOfThatMoment(t *testing.T) {
	c := cluster(t, 2)
	src := &flipping{swap: swapping(tableOf(t, pinned(2, map[string]int32{"acme": 0})))}
	p := producing(t, c, src, ProducerConfig{})
	if err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	next, err := src.Table().Edit(routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{1}}))
	if err != nil {
		t.Fatal(err)
	}
	f := newFlight(patient(t), record("acme", 2), nil)
	f.topic = p.topicOf("orders")
	p.pending.add()
	src.next.Store(next)
	if blocked, err := p.try(f, nil); blocked != nil || err != nil {
		t.Fatal(blocked, err)
	}
	if f.partition != 1 || f.epoch != 2 || src.looks.Load() < 3 {
		t.Errorf("went to partition %d by epoch %d", f.partition, f.epoch)
	}
	if err := p.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	p.empty(t)
}
