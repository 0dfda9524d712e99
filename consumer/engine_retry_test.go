package consumer

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

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
