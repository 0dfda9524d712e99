package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// bench is an engine in a bubble of virtual time, with no broker.
type bench struct {
	*engine
	t       *testing.T
	cancel  context.CancelFunc
	letters []*kgo.Record // read when the bubble is at rest
	answer  func(error)   // to all letters since the last answer
	parts   map[int32]*partition
	next    map[int32]int64
	group   sync.WaitGroup
}

// inBubble runs f with an engine whose workers and clock run.
func inBubble(t *testing.T, cfg Config, h Handler, f func(b *bench)) {
	t.Helper()
	inBubbleBatch(t, cfg, h, nil, f)
}

func inBubbleBatch(t *testing.T, cfg Config, h Handler, batch BatchHandler, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Group, cfg.Topics = "g", []string{"orders"}
		cfg = cfg.withDefaults()
		cfg.batched = batch != nil
		if err := cfg.validate(); err != nil {
			t.Fatal(err)
		}
		b := &bench{t: t, parts: map[int32]*partition{}, next: map[int32]int64{}}
		var post sync.Mutex
		var err error
		b.engine, err = newEngine(&cfg, h, newMetrics(), func(r *kgo.Record, done func(error)) {
			post.Lock()
			defer post.Unlock()
			before := b.answer
			b.letters, b.answer = append(b.letters, r), func(err error) {
				b.answer = nil
				if before != nil {
					before(err)
				}
				done(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		b.engine.batch = batch
		ctx, cancel := context.WithCancel(context.Background())
		b.cancel = cancel
		b.engine.start(ctx)
		clock, stopClock := context.WithCancel(context.Background())
		b.group.Go(func() { b.clock(clock) })
		f(b)
		if err := b.engine.stop(cancel, time.Minute); err != nil {
			t.Errorf("stopping: %v", err)
		}
		stopClock()
		b.group.Wait()
	})
}

// admitted appends records to a partition and admits them. Keys are the words
// of text, as "tenant:value".
func (b *bench) admitted(id int32, text string) *partition {
	b.t.Helper()
	tp := topicPartition{"orders", id}
	if b.parts[id] == nil {
		b.parts[id] = b.open(tp, begin{offset: 0, epoch: -1, committed: unknownOffset}, 1)
	}
	var records []*kgo.Record
	for word := range strings.FieldsSeq(text) {
		tenant, value, _ := strings.Cut(word, ":")
		records = append(records, &kgo.Record{
			Topic: "orders", Partition: id, Offset: b.next[id], Key: []byte(tenant), Value: []byte(value),
		})
		b.next[id]++
	}
	b.fetched(id, records...)
	return b.parts[id]
}

func (b *bench) fetched(id int32, records ...*kgo.Record) {
	b.admit(&admission{}, "orders", b.opened(topicPartition{"orders", id}), &kgo.FetchPartition{Partition: id, Records: records, HighWatermark: b.next[id]})
}

func (b *bench) watermark(p *partition) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := p.commit(b.sched, 1)
	if !ok {
		return unknownOffset
	}
	return c.Offset
}

// script is a handler that notes what it gets.
type script struct {
	mu sync.Mutex
	// guards seen
	seen []string
	do   func(ctx context.Context, r *Record) error
}

func (s *script) handle(ctx context.Context, r *Record) error {
	s.mu.Lock()
	s.seen = append(s.seen, fmt.Sprintf("%s:%s", r.Tenant, r.Value))
	s.mu.Unlock()
	if s.do == nil {
		return nil
	}
	return s.do(ctx, r)
}

func (s *script) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, " ")
}

// of is what was handled of one tenant.
func (s *script) of(tenant string) string {
	var own []string
	for h := range strings.FieldsSeq(s.all()) {
		if after, ok := strings.CutPrefix(h, tenant+":"); ok {
			own = append(own, after)
		}
	}
	return strings.Join(own, " ")
}

var errTest = errors.New("handler failed")

// failing fails tenant "bad" and lets the others through.
func failing(_ context.Context, r *Record) error {
	if string(r.Tenant) == "bad" {
		return errTest
	}
	return nil
}

func TestFailedRecordIsRetriedInPlaceBeforeTheNext(t *testing.T) {
	failures := 3
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Value) == "1" && failures > 0 {
			failures--
			return errTest
		}
		return nil
	}}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		p := b.admitted(0, "a:1 a:2 b:1x a:3")
		synctest.Wait()
		if got := s.of("b"); got != "1x" {
			t.Errorf("b handled %q while a backs off, want 1x", got)
		}
		if w := b.watermark(p); w != 0 {
			t.Errorf("watermark %d while a's first record fails, want 0", w)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := s.of("a"); got != "1 1 1 1 2 3" {
			t.Errorf("a handled %q", got)
		}
		if w := b.watermark(p); w != 4 {
			t.Errorf("watermark %d, want 4", w)
		}
	})
}

func TestRetryBacksOffExponentiallyWithJitter(t *testing.T) {
	r := Retry{Min: 100 * time.Millisecond, Max: 5 * time.Second}
	for failed, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond,
		7: 5 * time.Second, 100: 5 * time.Second,
	} {
		for range 100 {
			if d := r.backoff(failed); d < want/2 || d > want {
				t.Fatalf("back-off after %d failures is %v, want in [%v, %v]", failed, d, want/2, want)
			}
		}
	}
}

func TestRetryLoopDoesNotSpin(t *testing.T) {
	s := &script{do: failing}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		b.admitted(0, "bad:1")
		time.Sleep(10 * time.Second)
		// 0.1, 0.2, … 6.4 s with jitter: at least half of each is waited.
		if n := len(strings.Fields(s.all())); n > 10 {
			t.Errorf("%d attempts in 10 s", n)
		}
	})
}

func TestRetryAfterIsHonouredAndIsNoFailedAttempt(t *testing.T) {
	var at []time.Duration
	begin := time.Now()
	s := &script{}
	s.do = func(_ context.Context, r *Record) error {
		at = append(at, time.Since(begin))
		if len(at) <= 5 {
			return RetryAfter(7 * time.Second)
		}
		return nil
	}
	inBubble(t, Config{Retry: Retry{Attempts: 2}}, func(ctx context.Context, r *Record) error {
		if begin.After(time.Now()) || len(at) == 0 {
			begin = time.Now()
		}
		return s.handle(ctx, r)
	}, func(b *bench) {
		p := b.admitted(0, "a:1 a:2")
		time.Sleep(time.Minute)
		synctest.Wait()
		if w := b.watermark(p); w != 2 {
			t.Errorf("watermark %d, want 2: the record must not be given up", w)
		}
		for i := 1; i <= 5; i++ {
			if d := at[i] - at[i-1]; d < 7*time.Second || d > 8*time.Second {
				t.Errorf("handling %d came %v after the one before, want 7s", i+1, d)
			}
		}
	})
}

// A worker has its next lane before it logs what became of the last one.
func TestRetryAfterIsLoggedWithItsDelay(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Tenant) == "a" {
			time.Sleep(time.Second)
			return RetryAfter(7 * time.Second)
		}
		return nil
	}}
	inBubble(t, Config{Concurrency: 1, Logger: zap.New(core)}, s.handle, func(b *bench) {
		b.admitted(0, "a:1")
		synctest.Wait()
		b.admitted(0, "b:1")
		time.Sleep(2 * time.Second)
		again := logs.FilterMessage("record is handled again").All()
		if len(again) != 1 || again[0].ContextMap()["delay"] != 7*time.Second {
			t.Errorf("logged %v, want a delay of 7s once", again)
		}
	})
}

func TestPanicIsAnErrorAndTheWorkerLives(t *testing.T) {
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Tenant) == "bad" && r.Attempt == 1 {
			panic("boom")
		}
		return nil
	}}
	inBubble(t, Config{Concurrency: 1}, s.handle, func(b *bench) {
		p := b.admitted(0, "bad:1 a:1 bad:2 a:2")
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.of("bad") != "1 1 2 2" || s.of("a") != "1 2" || b.watermark(p) != 4 {
			t.Errorf("handled %q, watermark %d", s.all(), b.watermark(p))
		}
	})
}

func TestGoexitOfAHandlerDoesNotLoseTheWorker(t *testing.T) {
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Tenant) == "bad" && r.Attempt == 1 {
			runtime.Goexit()
		}
		return nil
	}}
	inBubble(t, Config{Concurrency: 1}, s.handle, func(b *bench) {
		p := b.admitted(0, "bad:1 a:1 bad:2 a:2")
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.of("bad") != "1 1 2 2" || s.of("a") != "1 2" || b.watermark(p) != 4 {
			t.Errorf("handled %q, watermark %d", s.all(), b.watermark(p))
		}
	})
}

func TestExhaustedRecordParksItsLaneOnly(t *testing.T) {
	s := &script{do: failing}
	inBubble(t, Config{Retry: Retry{Attempts: 3}}, s.handle, func(b *bench) {
		p := b.admitted(0, "bad:1 bad:2 a:1 a:2")
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.of("bad") != "1 1 1" || s.of("a") != "1 2" {
			t.Errorf("handled %q", s.all())
		}
		if w := b.watermark(p); w != 0 {
			t.Errorf("watermark %d with a parked record at 0", w)
		}
		s.do = nil
		if n := b.resumeTenant([]byte("bad")); n != 1 {
			t.Errorf("resumed %d lanes, want 1", n)
		}
		synctest.Wait()
		if s.of("bad") != "1 1 1 1 2" || b.watermark(p) != 4 {
			t.Errorf("after resuming: handled %q, watermark %d", s.all(), b.watermark(p))
		}
	})
}

func TestExhaustedRecordIsDeadLetteredInOrder(t *testing.T) {
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Value) == "1" {
			return errTest
		}
		return nil
	}}
	inBubble(t, Config{Retry: Retry{Attempts: 2, Exhausted: DeadLetter}}, s.handle, func(b *bench) {
		p := b.admitted(0, "bad:1 bad:2")
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(b.letters) != 1 {
			t.Fatalf("%d dead letters, want 1", len(b.letters))
		}
		if s.of("bad") != "1 1" || b.watermark(p) != 0 {
			t.Errorf("before the acknowledgement: handled %q, watermark %d", s.all(), b.watermark(p))
		}
		b.answer(errTest) // refused: it is written again, the record is not handled again
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(b.letters) != 2 {
			t.Fatalf("%d writes after a refusal, want 2", len(b.letters))
		}
		b.answer(nil)
		synctest.Wait()
		if s.of("bad") != "1 1 2" || b.watermark(p) != 2 {
			t.Errorf("after it: handled %q, watermark %d", s.all(), b.watermark(p))
		}
		got := headers(b.letters[1])
		for key, want := range map[string]string{
			HeaderDeadError: "handler failed", HeaderDeadAttempts: "2", HeaderDeadTopic: "orders",
			HeaderDeadPartition: "0", HeaderDeadOffset: "0", HeaderDeadGroup: "g",
		} {
			if got[key] != want {
				t.Errorf("header %s is %q, want %q", key, got[key], want)
			}
		}
		if b.letters[1].Topic != "orders.tl-dlq" || string(b.letters[1].Key) != "bad" || string(b.letters[1].Value) != "1" {
			t.Errorf("dead letter %+v", b.letters[1])
		}
	})
}

func headers(r *kgo.Record) map[string]string {
	m := make(map[string]string)
	for _, h := range r.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

func TestPermanentErrorIsNotRetried(t *testing.T) {
	s := &script{do: func(context.Context, *Record) error { return Permanent(errTest) }}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		b.admitted(0, "a:1 a:2")
		time.Sleep(time.Hour)
		if got := s.all(); got != "a:1" {
			t.Errorf("handled %q, want one attempt", got)
		}
	})
}

func TestSkipCountsAsDone(t *testing.T) {
	s := &script{do: func(_ context.Context, r *Record) error { return fmt.Errorf("wrapped: %w", Skip("not ours")) }}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		p := b.admitted(0, "a:1 a:2 b:3")
		synctest.Wait()
		if b.watermark(p) != 3 || s.of("a") != "1 2" {
			t.Errorf("handled %q, watermark %d", s.all(), b.watermark(p))
		}
	})
}

func TestTenantsRunTogetherWithinAPartition(t *testing.T) {
	s := &script{do: func(context.Context, *Record) error { time.Sleep(time.Second); return nil }}
	inBubble(t, Config{Concurrency: 10}, s.handle, func(b *bench) {
		begin := time.Now()
		p := b.admitted(0, "a:1 b:1 c:1 d:1 e:1 f:1 g:1 h:1 i:1 j:1")
		for b.watermark(p) < 10 {
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(begin); d > 1100*time.Millisecond {
			t.Errorf("10 tenants took %v with 10 workers and 1 s each", d)
		}
	})
}

func TestTenantLockHoldsAcrossPartitions(t *testing.T) {
	running, most := 0, 0
	var mu sync.Mutex
	s := &script{do: func(context.Context, *Record) error {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		running--
		mu.Unlock()
		return nil
	}}
	inBubble(t, Config{Concurrency: 10}, s.handle, func(b *bench) {
		b.admitted(0, "a:1 a:2")
		b.admitted(1, "a:3 a:4")
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if most != 1 {
			t.Errorf("%d handlers of one tenant at once, want 1", most)
		}
	})
}

func TestSmallTenantIsHandledSecondBehindAWhale(t *testing.T) {
	s := &script{do: func(context.Context, *Record) error { time.Sleep(10 * time.Millisecond); return nil }}
	inBubble(t, Config{Concurrency: 1}, s.handle, func(b *bench) {
		b.admitted(0, strings.Repeat("whale:x ", 1000)+"small:1")
		time.Sleep(time.Minute)
		synctest.Wait()
		if i := slices.Index(strings.Fields(s.all()), "small:1"); i > 1 {
			t.Errorf("the small tenant was handled at place %d, want 1", i)
		}
	})
}

func TestHandlerDeadlineEndsItsContext(t *testing.T) {
	s := &script{do: func(ctx context.Context, r *Record) error {
		if r.Attempt > 1 {
			return nil
		}
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > 2*time.Second {
			t.Errorf("deadline %v, %v", at, ok)
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	inBubble(t, Config{HandlerTimeout: 2 * time.Second}, s.handle, func(b *bench) {
		p := b.admitted(0, "a:1 a:2")
		begin := time.Now()
		for b.watermark(p) < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(begin); d < 2*time.Second || d > 5*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestStuckHandlerKeepsItsLaneAndGivesItsSlotBack(t *testing.T) {
	var release chan struct{}
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Tenant) == "bad" && string(r.Value) == "1" {
			<-release
		}
		return nil
	}}
	inBubble(t, Config{Concurrency: 1, HandlerTimeout: time.Second}, s.handle, func(b *bench) {
		release = make(chan struct{})
		p := b.admitted(0, "bad:1 bad:2 a:1 a:2")
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.of("a") != "1 2" || s.of("bad") != "1" || b.watermark(p) != 0 {
			t.Errorf("while stuck: handled %q, watermark %d", s.all(), b.watermark(p))
		}
		close(release)
		synctest.Wait()
		if s.of("bad") != "1 2" || b.watermark(p) != 4 {
			t.Errorf("afterwards: handled %q, watermark %d", s.all(), b.watermark(p))
		}
	})
}

func TestSlowHandlerStrandsNoLaneItsWorkerTook(t *testing.T) {
	slowOnce := sync.Once{}
	var release chan struct{}
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Value) == "slow" {
			slowOnce.Do(func() { <-release })
		}
		return nil
	}}
	inBubble(t, Config{Concurrency: 2}, s.handle, func(b *bench) {
		release = make(chan struct{})
		// Cheap handlings first, so that workers take many lanes at a time.
		for i := range 50 {
			b.admitted(0, fmt.Sprintf("t%d:x t%d:x", i, i))
		}
		synctest.Wait()
		var words []string
		for i := range 50 {
			words = append(words, fmt.Sprintf("t%d:%s", i, map[bool]string{true: "slow", false: "y"}[i == 0]))
		}
		b.admitted(0, strings.Join(words, " "))
		time.Sleep(time.Second)
		synctest.Wait()
		if n := strings.Count(s.all(), ":y"); n != 49 {
			t.Errorf("%d of 49 other tenants were handled", n)
		}
		close(release)
	})
}

func TestRevokedPartitionsLateHandlingChangesNothing(t *testing.T) {
	var release chan struct{}
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Value) == "1" {
			<-release
		}
		return nil
	}}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		release = make(chan struct{})
		old := b.admitted(0, "a:1 a:2 a:3")
		synctest.Wait()
		b.engine.close([]*partition{old})
		p := b.open(topicPartition{"orders", 0}, begin{offset: 0, epoch: -1, committed: unknownOffset}, 2)
		b.parts[0], b.next[0] = p, 0
		b.admitted(0, "a:1x a:2x")
		synctest.Wait()
		if got := s.of("a"); got != "1" {
			t.Errorf("handled %q: the tenant's lock must outlive the assignment", got)
		}
		if w := b.watermark(p); w != 0 {
			t.Errorf("watermark %d, want 0", w)
		}
		close(release)
		synctest.Wait()
		if s.of("a") != "1 1x 2x" || b.watermark(p) != 2 {
			t.Errorf("handled %q, watermark %d", s.of("a"), b.watermark(p))
		}
		if len(b.byLanes) != 1 {
			t.Errorf("%d partitions remembered, want 1", len(b.byLanes))
		}
	})
}

func TestLostPartitionEndsItsHandlersContexts(t *testing.T) {
	var ended chan error
	s := &script{do: func(ctx context.Context, _ *Record) error {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		ended = make(chan error, 1)
		p := b.admitted(0, "a:1")
		synctest.Wait()
		b.engine.close([]*partition{p})
		if err := <-ended; !errors.Is(err, errPartitionGone) {
			t.Errorf("cause %v", err)
		}
	})
}

func TestDrainHandlesWhatIsBufferedAndLeavesWhatFails(t *testing.T) {
	s := &script{do: func(ctx context.Context, r *Record) error {
		time.Sleep(100 * time.Millisecond)
		return failing(ctx, r)
	}}
	inBubble(t, Config{Concurrency: 2}, s.handle, func(b *bench) {
		p := b.admitted(0, "a:1 a:2 b:1 b:2 c:1 bad:1 bad:2")
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		b.drain(ctx, []*partition{p})
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("a failing record held the drain for %v", d)
		}
		if w := b.watermark(p); w != 5 {
			t.Errorf("watermark %d, want 5: all but the failing tenant", w)
		}
	})
}

func TestDrainEndsAtItsDeadlineDespiteAStuckHandler(t *testing.T) {
	var release chan struct{}
	s := &script{do: func(context.Context, *Record) error { <-release; return nil }}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		release = make(chan struct{})
		p := b.admitted(0, "a:1 b:1")
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		b.drain(ctx, []*partition{p})
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("the drain took %v, want 3s", d)
		}
		close(release)
	})
}

func TestStopCancelledHandlingIsNoFailedAttempt(t *testing.T) {
	s := &script{do: func(ctx context.Context, _ *Record) error { <-ctx.Done(); return ctx.Err() }}
	inBubble(t, Config{Retry: Retry{Attempts: 1, Exhausted: DeadLetter}}, s.handle, func(b *bench) {
		b.admitted(0, "a:1")
		synctest.Wait()
		b.cancel()
		synctest.Wait()
		if len(b.letters) != 0 {
			t.Error("a record was dead-lettered because the worker stopped")
		}
	})
}

func TestRoomIsBoundedInRecordsAndBytes(t *testing.T) {
	var release chan struct{}
	s := &script{do: func(context.Context, *Record) error { <-release; return nil }}
	inBubble(t, Config{MaxRecords: 8, MaxBytes: 1 << 20, Concurrency: 1}, s.handle, func(b *bench) {
		release = make(chan struct{})
		if n := b.free(); n != 8 {
			t.Errorf("room for %d, want 8", n)
		}
		b.admitted(0, "a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8")
		if n := b.free(); n != 0 {
			t.Errorf("room for %d, want none", n)
		}
		close(release)
		<-b.room
		synctest.Wait()
		if n := b.free(); n != 8 || b.held != 0 {
			t.Errorf("room for %d records, %d bytes held, when all is done", n, b.held)
		}
	})
}

func TestHeldBytesComeBackByEveryWay(t *testing.T) {
	for _, slow := range []bool{false, true} {
		s := &script{do: failing}
		inBubble(t, Config{Retry: Retry{Attempts: 1, Exhausted: DeadLetter}}, s.handle, func(b *bench) {
			b.slow.Store(slow)
			p := b.admitted(0, "a:1 b:2 bad:1 c:1 :none a:3")
			b.slow.Store(slow)
			q := b.admitted(1, "a:1 bad:2 c:1")
			synctest.Wait()
			b.answer(nil)
			synctest.Wait()
			b.engine.close([]*partition{p, q})
			if b.held != 0 {
				t.Errorf("slow %v: %d bytes held with nothing open", slow, b.held)
			}
		})
	}
}

func TestCopiesShareNothingWithTheirFetch(t *testing.T) {
	r := &kgo.Record{Key: []byte("k"), Value: nil, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}}
	c := copyRecord(r)
	r.Key[0], r.Headers[0].Value[0] = 'x', 'x'
	r.Headers[0].Key = "x"
	if string(c.Key) != "k" || c.Value != nil || string(c.Headers[0].Value) != "v" || c.Headers[0].Key != "h" {
		t.Errorf("copy %+v", c)
	}
}

func TestTombstoneIsARecordLikeAnyOther(t *testing.T) {
	var got *Record
	s := &script{do: func(_ context.Context, r *Record) error { got = r.Clone(); return nil }}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		p := b.admitted(0, "a:1")
		b.fetched(0, &kgo.Record{Topic: "orders", Offset: 1, Key: []byte("a")})
		synctest.Wait()
		if got.Value != nil || got.Attempt != 1 || b.watermark(p) != 2 {
			t.Errorf("got %+v, watermark %d", got, b.watermark(p))
		}
	})
}

func TestRecordsWithoutATenant(t *testing.T) {
	for policy, want := range map[NoTenant]struct {
		handled   string
		watermark int64
		letters   int
	}{
		NoTenantLane:       {"a:1 :x :y a:2", 4, 0},
		NoTenantSkip:       {"a:1 a:2", 4, 0},
		NoTenantError:      {"a:1", 1, 0},
		NoTenantDeadLetter: {"a:1 a:2", 1, 1},
	} {
		s := &script{}
		inBubble(t, Config{Concurrency: 1, NoTenant: policy}, s.handle, func(b *bench) {
			p := b.admitted(0, "a:1")
			synctest.Wait()
			b.admitted(0, ":x :y")
			synctest.Wait()
			b.admitted(0, "a:2")
			synctest.Wait()
			if s.all() != want.handled || b.watermark(p) != want.watermark || len(b.letters) != want.letters {
				t.Errorf("policy %d: handled %q, watermark %d, %d letters; want %+v", policy, s.all(), b.watermark(p), len(b.letters), want)
			}
			if policy == NoTenantError && !errors.Is(p.stopped, ErrNoTenant) {
				t.Errorf("stopped by %v", p.stopped)
			}
		})
	}
}

func TestNoTenantLanesOfTwoPartitionsRunTogether(t *testing.T) {
	s := &script{do: func(context.Context, *Record) error { time.Sleep(time.Second); return nil }}
	inBubble(t, Config{Concurrency: 4}, s.handle, func(b *bench) {
		begin := time.Now()
		p, q := b.admitted(0, ":1"), b.admitted(1, ":1")
		for b.watermark(p) < 1 || b.watermark(q) < 1 {
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(begin); d > 1100*time.Millisecond {
			t.Errorf("two partitions' records without a tenant took %v", d)
		}
	})
}

func TestControlRecordsAreSteppedOverAndUnknownOnesStopTheirPartition(t *testing.T) {
	fence := routing.Control{Kind: routing.ControlFence, Move: "m", Epoch: 3}.Append(nil)
	unknown := append([]byte(nil), fence...)
	unknown[1] = 250
	s := &script{}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		p := b.admitted(0, "a:1")
		control := func(offset int64, value []byte) *kgo.Record {
			return &kgo.Record{
				Topic: "orders", Offset: offset, Key: []byte("tl-control/m"), Value: []byte("x"),
				Headers: []kgo.RecordHeader{{Key: routing.HeaderControl, Value: value}},
			}
		}
		b.fetched(0, control(1, fence), &kgo.Record{Topic: "orders", Offset: 2, Key: []byte("a"), Value: []byte("2")})
		synctest.Wait()
		if s.all() != "a:1 a:2" || b.watermark(p) != 3 {
			t.Errorf("handled %q, watermark %d", s.all(), b.watermark(p))
		}
		b.fetched(0, control(3, unknown), &kgo.Record{Topic: "orders", Offset: 4, Key: []byte("a"), Value: []byte("3")})
		b.fetched(0, &kgo.Record{Topic: "orders", Offset: 5, Key: []byte("a"), Value: []byte("4")})
		synctest.Wait()
		if s.all() != "a:1 a:2" || b.watermark(p) != 3 || !errors.Is(p.stopped, ErrUnknownControl) {
			t.Errorf("handled %q, watermark %d, stopped %v", s.all(), b.watermark(p), p.stopped)
		}
	})
}

func TestMarkersAndGapsDoNotHoldTheWatermark(t *testing.T) {
	s := &script{}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		p := b.admitted(0, "a:1")
		marker := &kgo.Record{Topic: "orders", Offset: 9, Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true, Control: true})}
		b.fetched(0, &kgo.Record{Topic: "orders", Offset: 7, Key: []byte("a"), Value: []byte("2")}, marker)
		synctest.Wait()
		if s.all() != "a:1 a:2" || b.watermark(p) != 10 {
			t.Errorf("handled %q, watermark %d, want 10", s.all(), b.watermark(p))
		}
	})
}

func TestOffsetsThatGoBackBeginAnew(t *testing.T) {
	s := &script{}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		old := b.admitted(0, "a:1 a:2 a:3")
		synctest.Wait()
		b.fetched(0, &kgo.Record{Topic: "orders", Offset: 1, Key: []byte("a"), Value: []byte("new")})
		synctest.Wait()
		p := b.engine.parts[topicPartition{"orders", 0}]
		if p == old || p.token.Epoch == old.token.Epoch {
			t.Fatal("the assignment's epoch did not change")
		}
		if s.all() != "a:1 a:2 a:3 a:new" || b.watermark(p) != 2 {
			t.Errorf("handled %q, watermark %d", s.all(), b.watermark(p))
		}
	})
}

func TestRecordsOfPartitionsNotOwnedAreDropped(t *testing.T) {
	s := &script{}
	inBubble(t, Config{}, s.handle, func(b *bench) {
		b.fetched(5, &kgo.Record{Topic: "orders", Partition: 5, Key: []byte("a")})
		synctest.Wait()
		if s.all() != "" || b.free() != b.cfg.MaxRecords {
			t.Errorf("handled %q", s.all())
		}
	})
}

func TestManyTenantsLeaveNoMemoryBehind(t *testing.T) {
	s := func(context.Context, *Record) error { return nil }
	inBubble(t, Config{}, s, func(b *bench) {
		for i := range 200 {
			var words strings.Builder
			for j := range 100 {
				fmt.Fprintf(&words, "tenant-%d:x ", i*100+j)
			}
			b.admitted(0, words.String())
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sched.Advance(b.now())
		if n := b.sched.Tenants(); n > 1000 {
			t.Errorf("%d tenants remembered of 20,000 seen", n)
		}
		if n := len(b.workers); n > b.cfg.Concurrency {
			t.Errorf("%d workers, want at most %d", n, b.cfg.Concurrency)
		}
	})
}

func TestBatchHandlerGetsALaneInOrderAndItsPrefixCounts(t *testing.T) {
	var batches []string
	fail := map[string]error{"3": errTest, "5": Skip("not ours"), "6": RetryAfter(time.Second)}
	h := func(_ context.Context, rs []*Record) (int, error) {
		var values []string
		for _, r := range rs {
			values = append(values, string(r.Value))
			if string(r.Tenant) != "a" || r.Attempt < 1 {
				t.Errorf("record %+v", r)
			}
		}
		batches = append(batches, strings.Join(values, ","))
		for i, r := range rs {
			if err := fail[string(r.Value)]; err != nil {
				delete(fail, string(r.Value))
				return i, err
			}
		}
		return len(rs), nil
	}
	inBubbleBatch(t, Config{BatchSize: 4, Concurrency: 1}, nil, h, func(b *bench) {
		p := b.admitted(0, "a:1 a:2 a:3 a:4 a:5 a:6 a:7")
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"1,2,3,4", "3,4,5,6", "6,7", "6,7"}
		if !slices.Equal(batches, want) || b.watermark(p) != 7 {
			t.Errorf("batches %q, want %q; watermark %d", batches, want, b.watermark(p))
		}
	})
}

func TestBatchHandlerThatFinishesNothingBacksOff(t *testing.T) {
	calls := 0
	h := func(context.Context, []*Record) (int, error) { calls++; return 0, nil }
	inBubbleBatch(t, Config{}, nil, h, func(b *bench) {
		b.admitted(0, "a:1")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if calls > 10 {
			t.Errorf("%d calls in 10 s", calls)
		}
	})
}

func TestStallNamesTheLaneThatHoldsAPartition(t *testing.T) {
	var release chan struct{}
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Tenant) == "slow" {
			<-release
		}
		return nil
	}}
	inBubble(t, Config{HandlerTimeout: -1}, s.handle, func(b *bench) {
		release = make(chan struct{})
		b.admitted(0, "a:1 slow:1 slow:2 b:1")
		synctest.Wait()
		if got := b.stalls(); len(got) != 0 {
			t.Errorf("stalls %+v at the start", got)
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()
		got := b.stalls()
		if len(got) != 1 || got[0].offset != 1 || string(got[0].tenant) != "slow" || got[0].state != "in hand" ||
			got[0].handler < 80*time.Second || got[0].since < time.Minute {
			t.Errorf("stalls %+v", got)
		}
		if again := b.stalls(); len(again) != 0 {
			t.Errorf("reported again at once: %+v", again)
		}
		close(release)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		if got := b.stalls(); len(got) != 0 {
			t.Errorf("stalls %+v with everything done", got)
		}
	})
}

func TestAThousandBackOffsTakeOneTimer(t *testing.T) {
	s := &script{do: func(context.Context, *Record) error { return errTest }}
	inBubble(t, Config{Concurrency: 4, Retry: Retry{Min: time.Hour, Max: time.Hour}}, s.handle, func(b *bench) {
		before := runtime.NumGoroutine()
		var words strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&words, "t%d:x ", i)
		}
		b.admitted(0, words.String())
		synctest.Wait()
		if n := len(strings.Fields(s.all())); n != 1000 {
			t.Errorf("%d handled", n)
		}
		if n := runtime.NumGoroutine() - before; n > 4 {
			t.Errorf("%d goroutines for 1,000 records in back-off, want the workers'", n)
		}
	})
}

// A broker's response may decompress to any number of bytes. What a poll takes
// of it follows from the bytes that are free and the size of the records before.
func TestAPollTakesNoMoreThanTheBytesThatAreFree(t *testing.T) {
	const each, most = 60_000, 1 << 20
	for _, slow := range []bool{false, true} {
		s := &script{do: func(ctx context.Context, _ *Record) error { <-ctx.Done(); return ctx.Err() }}
		inBubble(t, Config{MaxBytes: most, LaneBytes: most, Concurrency: 1}, s.handle, func(b *bench) {
			b.slow.Store(slow)
			b.engine.open(topicPartition{"orders", 0}, begin{epoch: -1, committed: unknownOffset}, 0)
			a := &admission{}
			for at, n := 0, 1; n > 0; n = b.free() {
				fp := &kgo.FetchPartition{Partition: 0, HighWatermark: 1 << 20}
				for range n {
					fp.Records = append(fp.Records, &kgo.Record{
						Topic: "orders", Key: []byte(strconv.Itoa(at)), Value: make([]byte, each), Offset: int64(at),
					})
					at++
				}
				b.admit(a, "orders", b.opened(topicPartition{"orders", 0}), fp)
			}
			if b.held < most || b.held > most+2*each {
				t.Errorf("slow %v: %d bytes held at the bound of %d", slow, b.held, most)
			}
		})
	}
}
