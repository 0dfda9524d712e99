package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// spread makes n records of each of so many tenants, tenant i in partition
// i mod partitions, counting on from seq.
func spread(partitions int32, tenants, seq, n int) []*kgo.Record {
	var records []*kgo.Record
	for k := seq; k < seq+n; k++ {
		for i := range tenants {
			records = append(records, record(int32(i)%partitions, fmt.Sprintf("tenant-%d", i), strconv.Itoa(k)))
		}
	}
	return records
}

// commitLog notes every commit that reaches the broker, and fails the test when
// a partition's offset goes back. While refused is set, commits do not count.
func (c *cluster) commitLog() (refused *atomic.Bool) {
	refused = new(atomic.Bool)
	var mu sync.Mutex
	highest := make(map[int32]int64)
	c.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1,
		When: func(req kmsg.Request) bool {
			if refused.Load() {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
				for _, p := range t.Partitions {
					if p.Offset < highest[p.Partition] {
						c.t.Errorf("partition %d: commit went back from %d to %d", p.Partition, highest[p.Partition], p.Offset)
					}
					highest[p.Partition] = max(highest[p.Partition], p.Offset)
				}
			}
			return true
		},
	})
	return refused
}

func TestHandOverLosesRepeatsAndReordersNothing(t *testing.T) {
	t.Parallel()
	const partitions, tenants = 6, 12
	c := newCluster(t, partitions)
	c.commitLog()
	j := newJournal()
	g := newGate()
	syncs := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SyncGroup}, Observe: true, Count: -1})
	start := func() (*worker, *ledger) {
		l := newLedger()
		return c.start(l.watch(c.config()), g.then(j.handle)), l
	}
	// join starts a worker while every handler of the others is at work. They go
	// on once all know the new member, when partitions are taken away.
	join := func(members, handled int) (*worker, *ledger) {
		t.Helper()
		j.waitFor(t, handled*tenants)
		before := syncs.Hits()
		w, l := start()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := syncs.Wait(ctx, before+members); err != nil {
			t.Fatalf("waiting for %d members: %v", members, err)
		}
		g.open()
		return w, l
	}
	// leave stops a worker while every handler is at work.
	leave := func(w *worker, handled int) {
		t.Helper()
		j.waitFor(t, handled*tenants)
		w.cancel()
		g.open()
		if err := w.wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	produce := func(from int) {
		t.Helper()
		g.close(from + 5)
		c.produce(spread(partitions, tenants, from+1, 50)...)
	}
	produce(0)
	first, l1 := start()
	l1.waitAssigned(t, partitions)
	second, l2 := join(2, 5)
	l2.waitAssigned(t, 2)
	produce(50)
	third, l3 := join(3, 55)
	l3.waitAssigned(t, 1)
	produce(100)
	leave(first, 105)
	produce(150)
	leave(second, 155)
	j.waitFor(t, 200*tenants)
	if err := third.stop(); err != nil {
		t.Errorf("third worker: %v", err)
	}
	all := j.all()
	assertOrder(t, all)
	if len(all) != 200*tenants {
		t.Errorf("%d handlings of %d records: a graceful hand-over repeats none", len(all), 200*tenants)
	}
	for p := range int32(partitions) {
		if got, want := c.committed(p), int64(200*tenants/partitions); got != want {
			t.Errorf("partition %d: committed %d, want %d", p, got, want)
		}
	}
}

func TestCrashRepeatsOnlyWhatWasNotCommitted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	refusing := c.commitLog()
	c.produce(spread(2, 4, 1, 100)...)
	j := newJournal()
	l := newLedger()
	g := newGate()
	g.close(20)
	w := c.start(l.watch(c.mortal()), g.then(j.handle))
	l.waitCommitted(t, 0, 40)
	l.waitCommitted(t, 1, 40)
	refusing.Store(true)
	refused := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: -1})
	g.close(60)
	j.waitFor(t, 4*60) // all handlers are at work now
	w.kill()
	refused.Remove()
	refusing.Store(false)
	before := j.all()
	floor := []int64{c.committed(0), c.committed(1)}
	if floor[0] != 40 || floor[1] != 40 {
		t.Fatalf("committed %d, want 40 of each", floor)
	}
	again := c.start(c.config(), j.handle)
	j.waitFor(t, 400)
	if err := again.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	all := j.all()
	assertOrder(t, all)
	for _, h := range all[len(before):] {
		if h.offset < floor[h.partition] {
			t.Errorf("partition %d offset %d repeated below the commit at %d", h.partition, h.offset, floor[h.partition])
		}
	}
}

func TestFullWorkerStopsPollingAndStaysInTheGroup(t *testing.T) {
	t.Parallel()
	const tenants = 500
	c := newCluster(t, 1)
	c.produce(spread(1, tenants, 1, 4)...)
	release := make(chan struct{})
	j := newJournal()
	l := newLedger()
	cfg := l.watch(c.config())
	cfg.MaxRecords = 100
	discarded := &discards{}
	cfg.KafkaOpts = append(cfg.KafkaOpts, kgo.SessionTimeout(time.Second), kgo.WithHooks(discarded))
	w := c.start(cfg, func(ctx context.Context, r *consumer.Record) error {
		<-release
		return j.handle(ctx, r)
	})
	l.waitAssigned(t, 1)
	// Three session timeouts with a full worker: heartbeats go on.
	beats := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Observe: true, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := beats.Wait(ctx, 60); err != nil {
		t.Fatalf("waiting for heartbeats: %v", err)
	}
	n := 0
	for i := range tenants {
		n += w.Depth(fmt.Appendf(nil, "tenant-%d", i))
	}
	if n != 100 {
		t.Errorf("%d records in the worker, want the bound of 100", n)
	}
	if info := c.GroupInfo(group); len(info.Members) != 1 {
		t.Errorf("the group has %d members", len(info.Members))
	}
	close(release)
	j.waitFor(t, 4*tenants)
	if n := discarded.Load(); n != 0 {
		t.Errorf("%d fetched records were thrown away, to be fetched again", n)
	}
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	assertOrder(t, j.all())
	if len(j.all()) != 4*tenants {
		t.Errorf("%d handlings, want %d", len(j.all()), 4*tenants)
	}
}

// discards counts records that the client fetched and threw away.
type discards struct{ atomic.Int64 }

func (d *discards) OnFetchRecordUnbuffered(_ *kgo.Record, polled bool) {
	if !polled {
		d.Add(1)
	}
}

func TestPauseForADistantLaneDoesNotSurviveReassignment(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	for p := range int32(2) {
		c.produce(sequence(p, 600, fmt.Sprintf("whale-%d", p))...)
	}
	release := make(chan struct{})
	j := newJournal()
	h := func(ctx context.Context, r *consumer.Record) error {
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
		return j.handle(ctx, r)
	}
	l1, l2 := newLedger(), newLedger()
	cfg := c.config()
	cfg.MaxRecords, cfg.LaneRecords, cfg.BatchSize, cfg.MaxDistance, cfg.DrainTimeout = 40, 4, 4, 50, 100*time.Millisecond
	first := c.start(l1.watch(cfg), h)
	c.eventually(t, "both partitions to be paused", func() bool { return first.PausedPartitions() == 2 })
	second := c.start(l2.watch(cfg), h) // takes one of them away
	l2.waitAssigned(t, 1)
	if err := second.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	l1.waitAssigned(t, 3) // and gives it back
	close(release)
	j.waitFor(t, 1200)
	if err := first.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	assertOrder(t, j.all())
}

func TestWhaleThatFillsItsLaneDoesNotHoldItsNeighborsBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.produce(sequence(0, 3000, "whale")...)
	c.produce(sequence(0, 20, "a", "b", "c")...)
	release := make(chan struct{})
	j := newJournal()
	l := newLedger()
	cfg := l.watch(c.config())
	cfg.MaxRecords, cfg.LaneRecords = 200, 32
	w := c.start(cfg, func(ctx context.Context, r *consumer.Record) error {
		if string(r.Tenant) == "whale" {
			select {
			case <-release:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return j.handle(ctx, r)
	})
	j.waitFor(t, 60) // all neighbors, while the whale's first record hangs
	c.eventually(t, "the partition to be read to its end", func() bool {
		all := w.Progress()
		return len(all) == 1 && all[0].Next == 3060 && all[0].End == 3060 && all[0].Watermark == 0 && all[0].RunnableLag == 3060
	})
	close(release)
	j.waitFor(t, 3060)
	l.waitCommitted(t, 0, 3060)
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	assertOrder(t, j.all())
	if len(j.all()) != 3060 {
		t.Errorf("%d handlings, want 3060", len(j.all()))
	}
}

func TestParkedRecordBeforeManyCostsFewRepeatsAfterACrash(t *testing.T) {
	t.Parallel()
	const others, each = 20, 100
	c := newCluster(t, 1)
	c.produce(record(0, "bad", "1"), record(0, "bad", "2"))
	c.produce(spread(1, others, 1, each)...)
	j := newJournal()
	h := func(ctx context.Context, r *consumer.Record) error {
		if string(r.Tenant) == "bad" {
			return consumer.Permanent(errors.New("cannot be handled"))
		}
		return j.handle(ctx, r)
	}
	for crash := range 2 { // the second one during the recovery from the first
		l := newLedger()
		w := c.start(l.watch(c.mortal()), h)
		if crash == 0 {
			j.waitFor(t, others*each)
			c.waitFrontier(t, 0, 2+others*each, 1) // while the offset stays at 0
		} else {
			l.waitAssigned(t, 1)
		}
		w.kill()
	}
	before := len(j.all())
	c.produce(spread(1, others, each+1, 5)...)
	l := newLedger()
	w := c.start(l.watch(c.config()), h)
	j.waitFor(t, others*(each+5))
	repeats := len(j.all()) - before - others*5
	if repeats != 0 {
		t.Errorf("%d repeats, want none: all was committed before the crash", repeats)
	}
	assertOrder(t, j.all())
	c.eventually(t, "the lane that was parked before the crashes", func() bool { return w.Tenant([]byte("bad")).State == consumer.StateParked })
	effect, err := w.ResumeTenant(t.Context(), []byte("bad"), consumer.Act{Actor: "test"})
	if err != nil || effect.Lanes != 1 {
		t.Errorf("resumed %+v, %v; want the one parked lane", effect, err)
	}
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if got := c.committed(0); got != 0 {
		t.Errorf("committed %d past the parked record", got)
	}
}

// Four whales have a partition each; every worker gets two of those.
func TestWhalesPartitionsAreSpreadOverTheWorkersFirst(t *testing.T) {
	t.Parallel()
	const partitions = 12
	spec := routing.TopicSpec{Partitions: partitions, Placements: map[string]routing.Placement{}}
	for p := range int32(partitions) {
		if p < 4 {
			spec.Placements[fmt.Sprint("whale-", p)] = routing.Placement{Partitions: []int32{p}}
		} else {
			spec.Shared = append(spec.Shared, p)
		}
	}
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{topic: spec}})
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, partitions)
	j := newJournal()
	cfg := c.config()
	cfg.Table, cfg.SpreadWhales = steady{table}, true
	first := c.start(cfg, j.handle)
	c.eventually(t, "the first worker to have all", func() bool { return len(first.Progress()) == partitions })
	second := c.start(cfg, j.handle)
	c.eventually(t, "each to have half, and half of the whales", func() bool {
		for _, w := range []*worker{first, second} {
			whales := 0
			all := w.Progress()
			for _, p := range all {
				if p.Partition < 4 {
					whales++
				}
			}
			if len(all) != partitions/2 || whales != 2 {
				return false
			}
		}
		return true
	})
	if err := errors.Join(first.stop(), second.stop()); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// steady is a table that does not change.
type steady struct{ table *routing.Table }

func (s steady) Table() *routing.Table  { return s.table }
func (steady) Changed() <-chan struct{} { return nil }
