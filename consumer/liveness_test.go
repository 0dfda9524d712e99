package consumer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pass lets virtual time go by, and what it brings happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A retry must come at its time although nothing else happens in the worker
// that would look at the scheduler's timers.
func TestRetryAfterAStuckHandlerComesInAQuietWorker(t *testing.T) {
	var release chan struct{}
	s := &script{do: func(_ context.Context, r *Record) error {
		if r.Attempt == 1 {
			<-release
			return errTest
		}
		return nil
	}}
	inBubble(t, Config{Concurrency: 1, HandlerTimeout: time.Second}, s.handle, func(b *bench) {
		release = make(chan struct{})
		p := b.admitted(0, "bad:1")
		pass(time.Minute) // its slot is given back
		close(release)
		pass(time.Minute)
		if s.of("bad") != "1 1" || b.watermark(p) != 1 {
			t.Errorf("handled %q, watermark %d", s.all(), b.watermark(p))
		}
	})
}

func TestRetryThatACommitSettledComesInAQuietWorker(t *testing.T) {
	var release chan struct{}
	s := &script{do: func(_ context.Context, r *Record) error {
		switch {
		case string(r.Value) == "hang":
			<-release
		case string(r.Value) == "fail" && r.Attempt == 1:
			return errTest
		}
		return nil
	}}
	inBubble(t, Config{Concurrency: 2}, s.handle, func(b *bench) {
		release = make(chan struct{})
		// Cheap handlings first, so that one worker takes both lanes at a time.
		var warm []string
		for i := range 50 {
			warm = append(warm, fmt.Sprintf("t%d:x t%d:x", i, i))
		}
		b.admitted(0, strings.Join(warm, " "))
		synctest.Wait()
		words := strings.Repeat(" t%d:fail", 9)
		p := b.admitted(0, fmt.Sprintf(words, 0, 1, 2, 3, 4, 5, 6, 7, 8)+" t9:hang")
		pass(time.Second)
		b.pendingCommits([]*partition{p})
		pass(10 * time.Second) // the handler that hangs has its deadline later
		if n := strings.Count(s.all(), ":fail"); n != 18 {
			t.Errorf("nine failed records were handled %d times, want 18", n)
		}
		close(release)
	})
}

func TestDeadLetterOfALostPartitionIsNotWrittenAgain(t *testing.T) {
	s := &script{do: func(context.Context, *Record) error { return Permanent(errTest) }}
	inBubble(t, Config{Retry: Retry{Exhausted: DeadLetter}}, s.handle, func(b *bench) {
		p := b.admitted(0, "a:1")
		synctest.Wait()
		b.answer(errTest)
		b.close([]*partition{p})
		pass(10 * time.Minute)
		if len(b.letters) != 1 {
			t.Errorf("%d dead letters were written, want 1", len(b.letters))
		}
	})
}

// What waits for its retry is its tenant's place: a record that comes meanwhile
// waits behind it, and a burst of other tenants takes nothing away.
func TestATenantIsNotFreedWhileItsRetryIsPending(t *testing.T) {
	s := &script{do: func(_ context.Context, r *Record) error {
		if string(r.Tenant) == "a" && string(r.Value) == "1" && r.Attempt < 3 {
			return errTest
		}
		return nil
	}}
	inBubble(t, Config{Retry: Retry{Min: time.Minute, Max: time.Minute}}, s.handle, func(b *bench) {
		b.admitted(0, "a:1")
		pass(time.Second)
		var burst strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&burst, "other-%d:x ", i)
		}
		b.admitted(0, burst.String())
		pass(10 * time.Second)
		p := b.admitted(0, "a:2")
		if st := b.statusOf([]byte("a")); st.Depth != 2 || st.State != StateFailing {
			t.Errorf("the tenant is %+v", st)
		}
		pass(5 * time.Minute)
		if s.of("a") != "1 1 1 2" || b.watermark(p) != 5002 {
			t.Errorf("handled %q, watermark %d", s.of("a"), b.watermark(p))
		}
	})
}
