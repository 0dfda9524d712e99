package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
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
