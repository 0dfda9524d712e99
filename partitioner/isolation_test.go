package partitioner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// TestNoWaitIsForgotten lets many callers wait for rooms of one or two records
// while some give up. Every promise must be called, and every room must be
// empty at the end.
func TestNoWaitIsForgotten(t *testing.T) {
	const tenants, callers, each = 6, 4, 60
	c := cluster(t, 3)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 3})), ProducerConfig{
		MaxRecords: 5, MaxTenantRecords: 2, MaxPartitionRecords: 3, MaxQueuedRecords: 1000,
	}, kgo.ProducerLinger(0))
	var o outcome
	var wg sync.WaitGroup
	for tenant := range tenants {
		for range callers {
			wg.Go(func() {
				for i := range each {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					if i%10 == 0 {
						cancel()
						ctx, cancel = context.WithTimeout(context.Background(), time.Duration(rand.IntN(2000))*time.Microsecond)
					}
					p.Produce(ctx, record(fmt.Sprint("tenant-", tenant), i), o.promise())
					cancel()
				}
			})
		}
	}
	wg.Go(func() {
		for i := range 50 {
			tenant := fmt.Append(nil, "tenant-", i%tenants)
			p.Pause("orders", tenant)
			p.Resume("orders", tenant)
		}
	})
	wg.Wait()
	written := 0
	for _, err := range o.wait(t) {
		switch {
		case err == nil:
			written++
		case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
			t.Error(err)
		}
	}
	if written < tenants*callers*each*8/10 {
		t.Errorf("%d of %d records were written", written, tenants*callers*each)
	}
	p.empty(t)
}

// empty wants nothing to be counted anywhere.
func (p *Producer) empty(t *testing.T) {
	t.Helper()
	if n, bytes := p.budget.records.Load(), p.budget.bytes.Load(); n != 0 || bytes != 0 {
		t.Errorf("the budget counts %d records and %d bytes", n, bytes)
	}
	if p.budget.waiting.Load() != 0 {
		t.Error("somebody is in the budget's line")
	}
	for _, d := range p.dests.Range {
		for _, part := range *d.(*dest).parts.Load() {
			if _, used, _ := part.numbers(); used != (limit{}) || part.room.waiting.Load() != 0 {
				t.Errorf("partition %d counts %+v and has %d in line", part.index, used, part.room.waiting.Load())
			}
		}
	}
	for _, topic := range p.topics.Range {
		for i := range topic.(*topicState).gates.shards {
			s := &topic.(*topicState).gates.shards[i]
			s.mu.Lock()
			for _, g := range s.gates {
				if !g.idle() {
					t.Errorf("gate %+v is not idle", g)
				}
			}
			s.mu.Unlock()
		}
	}
}

// TestHoweverManyAreStuckSomeRoomIsLeft floods every partition but one while
// none of them has a leader. Without shares the first three would fill the
// buffer.
func TestHoweverManyAreStuckSomeRoomIsLeft(t *testing.T) {
	const partitions, buffer = 10, 300
	c := cluster(t, partitions)
	tenants := map[string]int32{"fine": partitions - 1}
	var gone []int32
	for i := range int32(partitions - 1) {
		tenants[fmt.Sprint("stuck-", i)] = i
		gone = append(gone, i)
	}
	p := producing(t, c, store.Fixed(tableOf(t, pinned(partitions, tenants))), ProducerConfig{OnFull: RefuseOnFull}, kgo.MaxBufferedRecords(buffer))
	if err := p.ProduceSync(patient(t), record("fine", 0)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fault := withoutLeader(c, gone...)
	defer fault.Remove()
	var stuck outcome
	for i := range buffer {
		for _, partition := range gone {
			p.Produce(context.Background(), record(fmt.Sprint("stuck-", partition), i), stuck.promise())
		}
	}
	if left := buffer - p.budget.records.Load(); left < 10 {
		t.Errorf("%d records' room is left", left)
	}
	for i := range 20 {
		if err := p.ProduceSync(patient(t), record("fine", i)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	fault.Remove()
	stuck.wait(t)
	p.empty(t)
}

// TestAShareThatGrowsIsNoticed has a tenant wait for a share that is small only
// because of another tenant. Nothing of its own leaves.
func TestAShareThatGrowsIsNoticed(t *testing.T) {
	c := cluster(t, 3)
	src := store.Fixed(tableOf(t, pinned(3, map[string]int32{"other": 0, "stuck": 1})))
	p := producing(t, c, src, ProducerConfig{MaxRecords: 20, MaxTenantRecords: 10, MaxPartitionRecords: 10})
	fault, always := withoutLeader(c, 0), withoutLeader(c, 1)
	defer always.Remove()
	defer fault.Remove()
	var others, first, last outcome
	for i := range 6 {
		p.Produce(context.Background(), record("other", i), others.promise())
	}
	for i := range 5 { // half of the 9 that are free is less than these
		p.Produce(context.Background(), record("stuck", i), first.promise())
	}
	var waiting sync.WaitGroup
	waiting.Go(func() { p.Produce(context.Background(), record("stuck", 5), last.promise()) })
	eventually(t, "the sixth waits", func() bool {
		g := p.shard("orders", []byte("stuck"))
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.gates["stuck"].room.waiting.Load() == 1
	})
	fault.Remove()
	others.ok(t)
	waiting.Wait() // it was handed over while the five are still stuck
	if n := p.InFlight("orders", []byte("stuck")); n != 6 {
		t.Errorf("%d in flight", n)
	}
	always.Remove()
	first.ok(t)
	last.ok(t)
}

func TestARecordLargerThanAnyBoundIsTakenAlone(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{
		MaxBytes: 100, MaxTenantBytes: 10, MaxPartitionBytes: 10, OnFull: RefuseOnFull,
	})
	r := record("acme", 1)
	r.Value = make([]byte, 5000)
	if err := p.ProduceSync(patient(t), r).FirstErr(); err != nil {
		t.Error(err)
	}
	p.empty(t)
}

// TestASlowPromiseDoesNotFillTheClient holds a promise up while the buffer is
// full. kgo counts that record until its promise returns, and would block the
// next caller if the Producer let one in for it.
func TestASlowPromiseDoesNotFillTheClient(t *testing.T) {
	c := cluster(t, 2)
	src := store.Fixed(tableOf(t, pinned(2, map[string]int32{"quick": 0, "stuck": 1})))
	p := producing(t, c, src, ProducerConfig{MaxTenantRecords: 10, MaxPartitionRecords: 10}, kgo.MaxBufferedRecords(4))
	fault := withoutLeader(c, 1)
	defer fault.Remove()
	running, release := make(chan struct{}), make(chan struct{})
	var o outcome
	answered := o.promise()
	p.Produce(context.Background(), record("quick", 1), func(r *kgo.Record, err error) {
		close(running)
		<-release
		answered(r, err)
	})
	<-running
	for i := range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		p.Produce(ctx, record("stuck", i), o.promise()) // in flight or refused, but never within kgo's own wait
	}
	if n := p.client.BufferedProduceRecords(); n > 4 {
		t.Errorf("the client has %d records, more than it buffers: a caller waits inside", n)
	}
	close(release)
	fault.Remove()
	for _, err := range o.wait(t) {
		if err != nil && !errors.Is(err, ErrTenantBackpressure) {
			t.Error(err)
		}
	}
}
