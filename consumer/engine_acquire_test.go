package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// user counts who has the resource.
type user struct {
	mu sync.Mutex
	// guards the fields below
	now, most, times int
}

func (u *user) use(d time.Duration) {
	u.add(1)
	time.Sleep(d)
	u.add(-1)
}

func (u *user) add(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now += n
	u.most = max(u.most, u.now)
	u.times += max(n, 0)
}

// assertFree fails if anybody still has or wants one of the resources.
func (b *bench) assertFree() {
	b.t.Helper()
	for name, s := range b.resources {
		s.mu.Lock()
		if s.limits.Held() != 0 || s.limits.Waiting() != 0 {
			b.t.Errorf("resource %q: %d have it, %d wait", name, s.limits.Held(), s.limits.Waiting())
		}
		s.mu.Unlock()
	}
}

// TestResourcesAreNeverOverused: handlers that fail, panic, end their goroutine,
// give up waiting, forget to give back or give back twice, in bubbles of random
// lives. All records end, in order, and nothing is left taken.
func TestResourcesAreNeverOverused(t *testing.T) {
	for seed := range uint64(8) {
		log := &fakeLog{}
		log.powerLaw(seed, 600, 30)
		var mu sync.Mutex
		rnd := rand.New(rand.NewPCG(seed, 9))
		draw := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return rnd.IntN(n)
		}
		var db, api user
		o := newOrdered(t, func(context.Context, *Record) error { return nil })
		h := func(ctx context.Context, r *Record) error {
			what := draw(12)
			if what == 0 {
				short, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
				defer cancel()
				ctx = short
			}
			release, err := r.Acquire(ctx, "db")
			if err != nil {
				return err
			}
			db.use(time.Duration(draw(4)) * time.Millisecond)
			switch what {
			case 1:
				panic("no")
			case 2:
				runtime.Goexit()
			case 3: // it is given back when the handler has returned
			case 4:
				release()
				release()
			case 5, 6:
				defer release()
				more, err := r.Acquire(ctx, "api")
				if err != nil {
					return err
				}
				defer more()
				api.use(time.Millisecond)
			default:
				defer release()
			}
			return o.handle(ctx, r)
		}
		cfg := Config{
			Concurrency: 8, TenantConcurrency: 1 + int(seed%2), Retry: Retry{Min: time.Millisecond, Max: time.Millisecond},
			HandlerTimeout: time.Second,
			Resources:      map[string]Resource{"db": {Concurrency: 1 + int(seed%3)}, "api": {Rate: 200, Burst: 2}},
		}
		inBubble(t, cfg, h, func(b *bench) {
			p := b.follow(log, fresh(), time.Hour)
			synctest.Wait()
			b.assertFree()
			if o.done() != 600 || b.watermark(p) != 600 {
				t.Errorf("seed %d: %d handled, watermark %d", seed, o.done(), b.watermark(p))
			}
		})
		if limit := 1 + int(seed%3); db.most > limit || db.times < 600 || api.times == 0 {
			t.Errorf("seed %d: %d had the database at once, may %d; it was used %d times, the api %d", seed, db.most, limit, db.times, api.times)
		}
	}
}

func TestAFloodThatWaitsForAResourceDelaysNobodyElse(t *testing.T) {
	var order []string
	var mu sync.Mutex
	h := func(ctx context.Context, r *Record) error {
		release, err := r.Acquire(ctx, "db")
		if err != nil {
			return err
		}
		defer release()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		order = append(order, string(r.Tenant))
		return nil
	}
	cfg := Config{Concurrency: 64, Order: OrderNone, HandlerTimeout: -1, BatchSize: 1, Resources: map[string]Resource{"db": {Concurrency: 1}}}
	inBubble(t, cfg, h, func(b *bench) {
		b.admitted(0, strings.Repeat("flood:1 ", 40))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if n := b.resources["db"].limits.Waiting(); n < 30 {
			t.Fatalf("%d wait", n)
		}
		b.admitted(0, "quiet:1")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Join(order[:3], " "); len(order) != 41 || got != "flood quiet flood" {
			t.Errorf("%d handled, the first are %s", len(order), got)
		}
	})
}

func TestAWaitForAResourceEndsWithTheHandlersDeadline(t *testing.T) {
	var errs chan error // of the bubble
	h := func(ctx context.Context, r *Record) error {
		if string(r.Tenant) == "first" {
			if _, err := r.Acquire(ctx, "db"); err != nil {
				return err
			}
			time.Sleep(5 * time.Second) // and never gives it back by itself
			return nil
		}
		_, err := r.Acquire(ctx, "db")
		errs <- err
		return Skip("once")
	}
	cfg := Config{HandlerTimeout: 2 * time.Second, Resources: map[string]Resource{"db": {Concurrency: 1}}}
	inBubble(t, cfg, h, func(b *bench) {
		errs = make(chan error, 8)
		b.admitted(0, "first:1")
		time.Sleep(time.Second)
		b.admitted(0, "second:1")
		if err := <-errs; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"db"`) {
			t.Errorf("error %v", err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.assertFree()
		if s := b.resources["db"]; s.given != 1 {
			t.Errorf("%d waits were given up", s.given)
		}
	})
}

func TestAcquireByBatchesAndByRecordsThatOutliveTheirHandler(t *testing.T) {
	var clones chan *Record // of the bubble
	batch := func(ctx context.Context, rs []*Record) (int, error) {
		if _, err := rs[len(rs)-1].Acquire(ctx, "none"); !errors.Is(err, ErrUnknownResource) {
			return 0, fmt.Errorf("an unknown resource: %w", err)
		}
		if _, err := rs[0].Acquire(ctx, "db"); err != nil {
			return 0, err
		}
		clones <- rs[0].Clone()
		return len(rs), nil
	}
	cfg := Config{Resources: map[string]Resource{"db": {Concurrency: 1}}}
	inBubbleBatch(t, cfg, nil, batch, func(b *bench) {
		clones = make(chan *Record, 1)
		b.admitted(0, "a:1 a:2")
		clone := <-clones
		synctest.Wait()
		b.assertFree()
		release, err := clone.Acquire(context.Background(), "db")
		if err != nil || b.resources["db"].limits.Held() != 1 {
			t.Errorf("error %v", err)
		}
		release()
	})
	var plain Record
	if release, err := plain.Acquire(t.Context(), "anything"); err != nil {
		t.Error(err)
	} else {
		release()
	}
}

func TestResourcesAreValidated(t *testing.T) {
	for name, bad := range map[string]Resource{"": {Rate: 1}, "none": {}, "negative": {Concurrency: -1}, "burst": {Concurrency: 1, Burst: 2}} {
		cfg := Config{Group: "g", Topics: []string{"t"}, Resources: map[string]Resource{name: bad}}.withDefaults()
		if err := cfg.validate(); err == nil || !strings.Contains(err.Error(), "Resources") {
			t.Errorf("%q %+v: error %v", name, bad, err)
		}
	}
}
