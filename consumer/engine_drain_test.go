package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
