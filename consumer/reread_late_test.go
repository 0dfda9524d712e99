package consumer

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// deadLetters is a dead-letter topic that answers a moment later, and refuses
// at times: then all that is on its way, as the client does.
type deadLetters struct {
	mu sync.Mutex
	// guards the fields below
	written []*kgo.Record // in their order
	refuse  int           // so many rounds
	pending []func()
}

func (d *deadLetters) post(letter *kgo.Record, done func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) == 0 {
		time.AfterFunc(2*time.Millisecond, d.answer)
	}
	refused := d.refuse > 0
	if !refused {
		d.written = append(d.written, letter)
	}
	d.pending = append(d.pending, func() {
		if refused {
			done(errTest)
			return
		}
		done(nil)
	})
}

func (d *deadLetters) answer() {
	d.mu.Lock()
	d.refuse = max(d.refuse-1, 0)
	pending := d.pending
	d.pending = nil
	d.mu.Unlock()
	for _, f := range pending {
		f()
	}
}

func (d *deadLetters) of(tenant string) (values []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.written {
		if string(r.Key) == tenant {
			n, err := strconv.Atoi(string(r.Value))
			if err != nil {
				panic(err)
			}
			values = append(values, n)
		}
	}
	return values
}

// handledBy notes the values of each tenant in the order of their handling.
type handledBy struct {
	mu sync.Mutex
	// guards values
	values map[string][]int
}

func (h *handledBy) note(r *Record) error {
	n, err := strconv.Atoi(string(r.Value))
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.values == nil {
		h.values = map[string][]int{}
	}
	h.values[string(r.Tenant)] = append(h.values[string(r.Tenant)], n)
	return nil
}

func (h *handledBy) of(tenant string) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]int(nil), h.values[tenant]...)
}

// assertWhole fails unless both lists ascend and are 1 to n together, each once.
func assertWhole(t *testing.T, what string, n int, lists ...[]int) {
	t.Helper()
	seen := make([]bool, n+1)
	for _, list := range lists {
		for i, x := range list {
			if i > 0 && x <= list[i-1] || x < 1 || x > n || seen[x] {
				t.Fatalf("%s: %d after %v", what, x, list[max(i-3, 0):i])
			}
			seen[x] = true
		}
	}
	for x := 1; x <= n; x++ {
		if !seen[x] {
			t.Fatalf("%s: %d is neither handled nor dead-lettered", what, x)
		}
	}
}

// backlog is records of a whale between those of ten others.
func backlog(n int) *fakeLog {
	log := &fakeLog{}
	for i := range n {
		log.append("whale", strconv.Itoa(i+1))
		log.append(fmt.Sprintf("t%d", i%10), strconv.Itoa(i/10+1))
	}
	return log
}

func lateConfig() Config {
	return Config{
		MaxRecords: 400, LaneRecords: 16, MaxDistance: 1000, TooFar: TooFarDeadLetter, Concurrency: 4,
		Retry: Retry{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond},
	}
}

func TestLanesTooFarBehindAreDeadLetteredInOrderAndNobodyWaitsForThem(t *testing.T) {
	for _, refuse := range []int{0, 3} {
		for _, order := range []Order{OrderTenant, OrderNone} {
			log, handled, letters := backlog(10_000), &handledBy{}, &deadLetters{refuse: refuse}
			cfg := lateConfig()
			cfg.Order = order
			if order == OrderNone {
				cfg.TenantConcurrency = 1
			}
			inBubble(t, cfg, func(_ context.Context, r *Record) error {
				if string(r.Tenant) == "whale" {
					time.Sleep(5 * time.Millisecond)
				}
				return handled.note(r)
			}, func(b *bench) {
				b.engine.letters = letters.post
				p := b.follow(log, fresh(), time.Hour)
				whale, given := handled.of("whale"), letters.of("whale")
				assertWhole(t, "whale", 10_000, whale, given)
				if len(given) < 5_000 || len(whale) < 100 {
					t.Errorf("%d handled, %d dead-lettered", len(whale), len(given))
				}
				for i := range 10 {
					name := fmt.Sprintf("t%d", i)
					assertWhole(t, name, 1000, handled.of(name), letters.of(name))
				}
				if n := len(letters.written) - len(given); n > 0 {
					t.Errorf("%d records of others were dead-lettered", n)
				}
				if b.held != 0 || p.lanes.Late() != 0 || b.watermark(p) != 20_000 {
					t.Errorf("held %d bytes, %d late lanes, watermark %d", b.held, p.lanes.Late(), b.watermark(p))
				}
			})
			got := headers(letters.written[0])
			if got[HeaderDeadAttempts] != "0" || got[HeaderDeadTopic] != "orders" || len(got[HeaderDeadError]) == 0 {
				t.Errorf("headers %v", got)
			}
		}
	}
}

func TestALateLanesRecordsAreDoneOnlyOnceTheirLettersAreAcknowledged(t *testing.T) {
	log := backlog(3000)
	inBubble(t, lateConfig(), func(_ context.Context, r *Record) error {
		if string(r.Tenant) == "whale" {
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	}, func(b *bench) {
		written := 0
		b.engine.letters = func(*kgo.Record, func(error)) { written++ }
		p := b.follow(log, fresh(), 20*time.Second)
		b.mu.Lock()
		first, next := p.rereads.surrender.pass.At(), p.progress.Next()
		b.mu.Unlock()
		if written == 0 || next != 6000 || b.watermark(p) > first {
			t.Errorf("%d letters, read up to %d, watermark %d, letters begin at %d", written, next, b.watermark(p), first)
		}
		if c, _ := b.commitOf(p); c.State.Frontier != 6000 || len(c.State.Lanes) != 1 {
			t.Errorf("the commit says %+v", c.State)
		}
		b.close([]*partition{p}) // without an answer: whoever gets it repeats them
	})
}

func TestAHandOverWaitsForTheLettersOfLateLanes(t *testing.T) {
	log, letters := backlog(3000), &deadLetters{}
	inBubble(t, lateConfig(), func(_ context.Context, r *Record) error {
		if string(r.Tenant) == "whale" {
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	}, func(b *bench) {
		b.engine.letters = letters.post
		p := b.follow(log, fresh(), time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		b.drain(ctx, []*partition{p})
		b.mu.Lock()
		defer b.mu.Unlock()
		if p.rereads.surrender != nil || ctx.Err() != nil {
			t.Errorf("letters are under way after the drain: %v", p.rereads.surrender)
		}
	})
}

// TestLanesThatWaitForSomebodyAreNeverTooFarBehind: a parked lane and a paused
// tenant's keep all their records, and have time to catch up when they go on.
func TestLanesThatWaitForSomebodyAreNeverTooFarBehind(t *testing.T) {
	log := &fakeLog{}
	for i := range 5000 {
		log.append("t", strconv.Itoa(i+1))
		if i < 300 {
			log.append("parked", strconv.Itoa(i+1))
			log.append("paused", strconv.Itoa(i+1))
		}
	}
	handled, letters := &handledBy{}, &deadLetters{}
	var broken atomic.Bool
	broken.Store(true)
	inBubble(t, lateConfig(), func(_ context.Context, r *Record) error {
		if string(r.Tenant) == "parked" && broken.Load() {
			return Permanent(errTest)
		}
		time.Sleep(time.Millisecond)
		return handled.note(r)
	}, func(b *bench) {
		b.engine.letters = letters.post
		b.pause("paused", pauseNote{})
		b.mu.Lock()
		b.cfg.MaxDistance = 1 << 40 // t itself is not the matter here
		b.mu.Unlock()
		b.follow(log, fresh(), 20*time.Second)
		b.mu.Lock()
		b.cfg.MaxDistance = 1000
		b.mu.Unlock()
		// The partition is followed on, far beyond the limit, while they wait.
		again := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			b.reread(ctx, log)
		}
		again(time.Second)
		broken.Store(false)
		b.resumeTenant([]byte("parked"))
		b.resumeTenant([]byte("paused"))
		again(10 * time.Second)
		synctest.Wait()
		if n := len(letters.written); n > 0 {
			t.Errorf("%d records were dead-lettered", n)
		}
		for _, name := range []string{"parked", "paused"} {
			assertWhole(t, name, 300, handled.of(name))
		}
	})
}
