package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

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
