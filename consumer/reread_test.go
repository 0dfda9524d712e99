package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/consumer/refetch"
)

// fakeLog is a partition's log that can be read again.
type fakeLog struct {
	mu sync.Mutex
	// guards the fields below
	records []*kgo.Record
	start   int64
	reads   int
	bytes   int
	fail    int // so many reads fail
}

func (l *fakeLog) append(tenant, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, &kgo.Record{
		Topic: "orders", Offset: int64(len(l.records)), Key: []byte(tenant), Value: []byte(value), LeaderEpoch: 1,
	})
}

// fetch is what the main cursor gets from an offset on.
func (l *fakeLog) fetch(from int64, n int) *kgo.FetchPartition {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := min(from+int64(n), int64(len(l.records)))
	return &kgo.FetchPartition{HighWatermark: int64(len(l.records)), Records: l.records[from:to]}
}

const fakeRecordBytes = framing + 5 // the fields are about five bytes

func (l *fakeLog) Read(_ context.Context, _ string, _ int32, from int64, maxBytes int32) (refetch.Chunk, error) {
	time.Sleep(time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail > 0 {
		l.fail--
		return refetch.Chunk{}, errTest
	}
	if from < l.start {
		return refetch.Chunk{}, &refetch.ErrOutOfRange{Offset: from, Start: l.start}
	}
	l.reads++
	end := int64(len(l.records))
	to := min(from+int64(maxBytes/fakeRecordBytes), end)
	c := refetch.Chunk{From: from, Next: to, End: end, AtEnd: to <= from, Records: l.records[from:to]}
	c.Bytes = fakeRecordBytes * len(c.Records)
	l.bytes += c.Bytes
	return c, nil
}

// follow polls the log into partition 0 until all of it was read, and rereads
// it, until all is done or so much virtual time has passed.
func (b *bench) follow(l *fakeLog, at begin, most time.Duration) *partition {
	b.t.Helper()
	tp := topicPartition{"orders", 0}
	p := b.open(tp, at, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { b.reread(ctx, l) })
	}
	a := &admission{}
	cursor := at.cursor()
	deadline := time.Now().Add(most)
	for time.Now().Before(deadline) {
		if back := b.takeRewinds(); len(back) > 0 {
			cursor = back[tp]
		}
		if n := b.free(); n > 0 && !b.far()[tp] {
			fp := l.fetch(cursor, min(n, 500))
			b.admit(a, "orders", b.opened(topicPartition{"orders", fp.Partition}), fp)
			cursor += int64(len(fp.Records))
		}
		p = b.engine.parts[tp]
		if n := b.left(); n > b.cfg.MaxRecords+admitChunk {
			b.t.Errorf("%d records in the worker, bound %d", n, b.cfg.MaxRecords)
		}
		if cursor == int64(len(l.records)) && b.watermark(p) == cursor {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	group.Wait()
	return p
}

// fresh begins a partition at offset 0 whose commits can name lanes.
func fresh() begin {
	return begin{epoch: -1, committed: unknownOffset, identity: testIdentity()}
}

func testIdentity() offset.Identity {
	return offset.Identity{Cluster: "c", Topic: [16]byte{1}, Fingerprint: 7}
}

// ordered is a handler that holds each tenant to 1, 2, 3, ….
type ordered struct {
	t  *testing.T
	do Handler
	mu sync.Mutex
	// guards last
	last map[string]int
}

func newOrdered(t *testing.T, do Handler) *ordered {
	return &ordered{t: t, do: do, last: map[string]int{}}
}

func (o *ordered) handle(ctx context.Context, r *Record) error {
	if err := o.do(ctx, r); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	seq, err := strconv.Atoi(string(r.Value))
	if err != nil || seq != o.last[string(r.Tenant)]+1 {
		o.t.Errorf("tenant %s: %s handled after %d", r.Tenant, r.Value, o.last[string(r.Tenant)])
	}
	o.last[string(r.Tenant)] = seq
	return nil
}

func (o *ordered) done() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, seq := range o.last {
		n += seq
	}
	return n
}

// powerLaw appends n records of tenants whose volumes fall off.
func (l *fakeLog) powerLaw(seed uint64, n, tenants int) {
	r := rand.New(rand.NewPCG(seed, 1))
	z := rand.NewZipf(r, 1.2, 1, uint64(tenants-1))
	seqs := make([]int, tenants)
	for range n {
		i := z.Uint64()
		seqs[i]++
		l.append(fmt.Sprintf("t%d", i), strconv.Itoa(seqs[i]))
	}
}

func TestRereadsBringEverythingInOrderAndWithinTheirBudget(t *testing.T) {
	for seed := range uint64(2) {
		log := &fakeLog{}
		log.powerLaw(seed, 8_000, 300)
		var mu sync.Mutex
		r := rand.New(rand.NewPCG(seed, 2))
		o := newOrdered(t, func(context.Context, *Record) error {
			mu.Lock()
			defer mu.Unlock()
			if r.IntN(200) == 0 {
				return errTest
			}
			return nil
		})
		h := func(ctx context.Context, rec *Record) error {
			time.Sleep(time.Millisecond)
			return o.handle(ctx, rec)
		}
		cfg := Config{MaxRecords: 1000, LaneRecords: 16, Concurrency: 20, Retry: Retry{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}}
		inBubble(t, cfg, h, func(b *bench) {
			begin := time.Now()
			p := b.follow(log, fresh(), time.Hour)
			if o.done() != 8_000 || b.watermark(p) != 8_000 {
				t.Errorf("seed %d: %d handled, watermark %d", seed, o.done(), b.watermark(p))
			}
			main := 8_000 * fakeRecordBytes
			budget := float64(3*main) + 1<<20*time.Since(begin).Seconds() + 2*rereadBytes
			if float64(log.bytes) > budget {
				t.Errorf("seed %d: %d bytes read again, budget %.0f", seed, log.bytes, budget)
			}
			if b.held != 0 {
				t.Errorf("seed %d: %d bytes held at the end", seed, b.held)
			}
		})
	}
}

func TestTenantsInRetryDoNotStopTheWorker(t *testing.T) {
	log := &fakeLog{}
	seqs := map[string]int{}
	add := func(tenant string) {
		seqs[tenant]++
		log.append(tenant, strconv.Itoa(seqs[tenant]))
	}
	for i := range 4_000 {
		add(fmt.Sprintf("bad%d", i%400))
		add(fmt.Sprintf("good%d", i%10))
	}
	var healed atomic.Bool
	o := newOrdered(t, func(_ context.Context, r *Record) error {
		if !healed.Load() && r.Tenant[0] == 'b' {
			return errTest
		}
		return nil
	})
	cfg := Config{MaxRecords: 600, Concurrency: 4, Retry: Retry{Min: time.Minute, Max: time.Minute}}
	inBubble(t, cfg, o.handle, func(b *bench) {
		var group sync.WaitGroup
		group.Go(func() { b.follow(log, fresh(), time.Hour) })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := o.done(); n != 4_000 {
			t.Errorf("%d of 4,000 records of the good tenants handled while 400 others back off", n)
		}
		healed.Store(true)
		group.Wait()
		if n := o.done(); n != 8_000 {
			t.Errorf("%d of 8,000 handled at the end", n)
		}
	})
}

func TestFailedRereadsAreRepeated(t *testing.T) {
	log := &fakeLog{fail: 20}
	log.powerLaw(1, 2000, 3)
	o := newOrdered(t, func(context.Context, *Record) error { return nil })
	inBubble(t, Config{MaxRecords: 100, LaneRecords: 8}, o.handle, func(b *bench) {
		b.follow(log, fresh(), time.Hour)
		if n := o.done(); n != 2000 {
			t.Errorf("%d handled", n)
		}
	})
}

func TestRecordsALaneWaitedForAndRetentionDeletedAreCounted(t *testing.T) {
	log := &fakeLog{}
	for i := range 200 {
		log.append("whale", strconv.Itoa(i+1))
	}
	var handled []int64
	var release chan struct{}
	h := func(_ context.Context, r *Record) error {
		<-release
		handled = append(handled, r.Offset)
		return nil
	}
	inBubble(t, Config{MaxRecords: 40, LaneRecords: 8, Concurrency: 1}, h, func(b *bench) {
		release = make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() { b.follow(log, fresh(), time.Hour) })
		time.Sleep(time.Second)
		log.mu.Lock()
		log.start = 150
		log.mu.Unlock()
		close(release)
		group.Wait()
		if n := len(handled); n >= 200 || handled[n-1] != 199 {
			t.Errorf("%d handled, the last at %d", n, handled[n-1])
		}
	})
}

func TestRestartGoesOnAtTheFrontierAndRereadsOnlyNamedLanes(t *testing.T) {
	log := &fakeLog{}
	log.append("parked", "1")
	log.append("slow", "1")
	log.append("slow", "2")
	for i := range 1000 {
		log.append(fmt.Sprintf("t%d", i%10), strconv.Itoa(i/10+1))
	}
	names := func(lanes ...offset.Lane) *offset.Checkpoint {
		return &offset.Checkpoint{
			Identity: testIdentity(), LeaderEpoch: 1,
			State: offset.State{Watermark: 0, Frontier: 1003, Lanes: lanes},
		}
	}
	name := func(tenant string, at int64, parked bool) offset.Lane {
		return offset.Lane{Name: offset.Name([]byte(tenant)), Offset: at, Parked: parked}
	}
	s := &script{}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		at := fresh()
		at.committed = 0
		at.checkpoint = names(name("parked", 0, true), name("slow", 2, false))
		b.follow(log, at, time.Minute)
		if got := s.all(); got != "slow:2" {
			t.Errorf("handled %q, want what the commit did not show done", got)
		}
		p := b.engine.parts[topicPartition{"orders", 0}]
		if c, _ := b.commitOf(p); c.State.Frontier != 1003 || len(c.State.Lanes) != 1 || !c.State.Lanes[0].Parked {
			t.Errorf("the next commit says %+v", c.State)
		}
		if log.bytes > 2*rereadBytes+100*fakeRecordBytes {
			t.Errorf("%d bytes were read again for two lanes", log.bytes)
		}
	})
}

func TestRewindsWhenTheRecordAtANameIsAnotherLanes(t *testing.T) {
	log := &fakeLog{}
	for i := range 100 {
		log.append("a", strconv.Itoa(i+1))
	}
	o := newOrdered(t, func(context.Context, *Record) error { return nil })
	inBubble(t, Config{}, o.handle, func(b *bench) {
		at := fresh()
		at.committed = 0
		at.checkpoint = &offset.Checkpoint{
			Identity: testIdentity(), LeaderEpoch: 1,
			State: offset.State{Frontier: 100, Lanes: []offset.Lane{{Name: offset.Name([]byte("not-a")), Offset: 0}}},
		}
		b.follow(log, at, time.Hour)
		if o.done() != 100 {
			t.Errorf("%d handled after the rewind, want all 100", o.done())
		}
	})
}

func TestDistanceLimitHoldsTheCursorUntilTheLaneHasCaughtUp(t *testing.T) {
	log := &fakeLog{}
	log.powerLaw(3, 5000, 4)
	o := newOrdered(t, func(context.Context, *Record) error { time.Sleep(time.Millisecond); return nil })
	inBubble(t, Config{MaxRecords: 100, LaneRecords: 8, MaxDistance: 500, Concurrency: 2}, o.handle, func(b *bench) {
		furthest := int64(0)
		stop := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				b.mu.Lock()
				for p := range b.behind {
					if low := lowest(b.sched.Overflows(p.lanes, nil)); low != nil {
						furthest = max(furthest, p.progress.Next()-low.First)
					}
				}
				b.mu.Unlock()
			}
		})
		b.follow(log, fresh(), time.Hour)
		close(stop)
		group.Wait()
		if o.done() != 5000 {
			t.Errorf("%d handled", o.done())
		}
		if furthest > 500+2*500 { // two polls of the test's may come before it is seen
			t.Errorf("a lane was %d behind, limit 500", furthest)
		}
	})
}

func (b *bench) commitOf(p *partition) (offset.Commit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.commit(b.sched, 1)
}

func TestTwoHangingWhalesDoNotFillTheWorker(t *testing.T) {
	log := &fakeLog{}
	for i := range 2000 {
		log.append("hang1", strconv.Itoa(i+1))
		log.append("hang2", strconv.Itoa(i+1))
	}
	for i := range 100 {
		log.append(fmt.Sprintf("t%d", i%10), strconv.Itoa(i/10+1))
	}
	var release chan struct{}
	o := newOrdered(t, func(_ context.Context, r *Record) error {
		if r.Tenant[0] == 'h' && string(r.Value) == "20" {
			<-release
		}
		return nil
	})
	inBubble(t, Config{MaxRecords: 400, LaneRecords: 64, Concurrency: 4, HandlerTimeout: -1}, o.handle, func(b *bench) {
		release = make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() { b.follow(log, fresh(), time.Hour) })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := o.done(); n != 2*19+100 {
			t.Errorf("%d handled while two tenants hang, want all 100 of the others and 19 of each", n)
		}
		close(release)
		group.Wait()
		if n := o.done(); n != 4100 {
			t.Errorf("%d handled at the end", n)
		}
	})
}

func TestTheDistanceIsThatOfTheFurthestLaneThatCanRun(t *testing.T) {
	log := &fakeLog{}
	for i := range 300 {
		log.append("a", strconv.Itoa(i+1))
		log.append("b", strconv.Itoa(i+1))
	}
	h := func(ctx context.Context, _ *Record) error {
		<-ctx.Done()
		return ctx.Err()
	}
	inBubble(t, Config{MaxRecords: 80, LaneRecords: 8, BatchSize: 4, HandlerTimeout: -1}, h, func(b *bench) {
		p := b.follow(log, fresh(), time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		skip := func(tenant string) int64 {
			st, ok := b.sched.Lane(p.lanes, []byte(tenant))
			if !ok || !st.Overflowing {
				t.Fatalf("lane %q: %+v", tenant, st)
			}
			return st.FirstSkip
		}
		first, second := "a", "b"
		if skip(second) < skip(first) {
			first, second = second, first
		}
		next := p.progress.Next()
		if got := b.distance(p); next != 600 || got != next-skip(first) {
			t.Errorf("distance %d, lane %q begins at %d of %d", got, first, skip(first), next)
		}
		b.sched.PauseTenant([]byte(first))
		if got := b.distance(p); got != next-skip(second) {
			t.Errorf("distance %d with the furthest lane paused, lane %q begins at %d", got, second, skip(second))
		}
		b.sched.PauseTenant([]byte(second))
		if got := b.distance(p); got != 0 {
			t.Errorf("distance %d with both paused", got)
		}
	})
}

// TestALaneIsReadForAgainAfterItsLastDeadLetter lets the only lane run out of
// records while its last one waits to be written to the dead-letter topic.
func TestALaneIsReadForAgainAfterItsLastDeadLetter(t *testing.T) {
	const records = 20
	log := &fakeLog{}
	for i := range records {
		log.append("bad", strconv.Itoa(i))
	}
	h := func(context.Context, *Record) error { return Permanent(errTest) }
	cfg := Config{MaxRecords: 8, LaneRecords: 4, Retry: Retry{Exhausted: DeadLetter}}
	inBubble(t, cfg, h, func(b *bench) {
		var p *partition
		var group sync.WaitGroup
		group.Go(func() { p = b.follow(log, fresh(), time.Minute) })
		for range records {
			time.Sleep(time.Second) // nothing else stirs
			synctest.Wait()
			if b.answer == nil {
				t.Fatalf("%d of %d dead letters", len(b.letters), records)
			}
			b.answer(nil)
		}
		group.Wait()
		if b.watermark(p) != records {
			t.Errorf("watermark %d", b.watermark(p))
		}
	})
}
