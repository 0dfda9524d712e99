package integration

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// scenario is one course of events. It plays until all that shall happen has
// happened; the run then waits for the work to be done and judges.
type scenario struct {
	name string
	play func(*run)
	// graceful says that no worker crashes, so that nothing may repeat.
	graceful bool
}

var scenarios = []scenario{
	{name: "steady", graceful: true, play: func(r *run) {
		r.start(nil)
		r.start(nil)
		r.produce("p", records)
	}},
	{name: "backlog", graceful: true, play: func(r *run) {
		r.produce("p", records)
		r.start(nil)
	}},
	{name: "join", graceful: true, play: func(r *run) {
		first, second := r.start(slowly), r.start(slowly)
		during(r, func() {
			r.awaitShare(share, first, second)
			r.awaitShare(share, first, second, r.start(slowly))
		})
	}},
	{name: "leave", graceful: true, play: func(r *run) {
		first, leaver, third := r.start(slowly), r.start(slowly), r.start(slowly)
		during(r, func() {
			r.awaitShare(share, first, leaver, third)
			r.stop(leaver)
			r.awaitShare(share, first, third)
		})
	}},
	{name: "rolling restart", graceful: true, play: func(r *run) {
		old := []*worker{r.start(slowly), r.start(slowly), r.start(slowly)}
		during(r, func() {
			r.awaitShare(share, old...)
			for _, w := range old {
				r.stop(w)
				r.awaitShare(share, r.start(slowly))
			}
		})
	}},
	{name: "a worker is cut off", play: func(r *run) {
		survivor, lost := r.start(slowly), r.start(slowly)
		during(r, func() {
			r.awaitShare(share, survivor, lost)
			lost.wire.Cut()
			r.awaitShare(share, survivor)
		})
	}},
	{name: "tenants are moved", graceful: true, play: func(r *run) {
		first, second := r.start(slowly), r.start(slowly)
		during(r, func() {
			r.awaitShare(share, first, second)
			whale, ordinary := r.tenants.Tenants[whale].Tenant, r.tenants.Tenants[10].Tenant
			for _, to := range []int32{7, 6, 7} {
				r.move(whale, to)
				r.awaitShare(share, first, second)
			}
			r.move(ordinary, 6)
			r.awaitShare(share, first, second)
		})
	}},
	{name: "handlers fail", graceful: true, play: func(r *run) {
		r.start(failing(50))
		r.start(failing(50))
		r.produce("p", records)
	}},
	{name: "two producers and a burst", graceful: true, play: func(r *run) {
		first, second := r.start(nil), r.start(nil)
		ordinary := r.tenants.Tenants[len(r.tenants.Tenants)/2].Tenant
		during(r, func() {
			r.produce("q", records/2, load.Burst{Tenant: ordinary, Count: records})
			r.awaitShare(share, first, second)
		})
	}},
}

// share is how much a worker handles before a scenario goes on.
const share = 300

// during produces steadily while events happen.
func during(r *run, events func()) {
	r.t.Helper()
	var over atomic.Bool
	var producing sync.WaitGroup
	var err error
	steady := r.source("steady")
	steady.load.Rate = 4000
	producing.Go(func() {
		for err == nil && !over.Load() {
			err = steady.send(400)
		}
	})
	func() {
		defer producing.Wait() // also when events fail the test
		defer over.Store(true)
		events()
	}()
	if err != nil {
		r.t.Fatal(err)
	}
}

// slowly makes a run last long enough for events to happen within it.
func slowly(ctx context.Context, _ *consumer.Record) error {
	pause := time.NewTimer(2 * time.Millisecond)
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errUnlucky = errors.New("this attempt was chosen to fail")

// failing makes the first attempt of every nth record fail.
func failing(n int64) behavior {
	var count atomic.Int64
	return func(_ context.Context, r *consumer.Record) error {
		if r.Attempt == 1 && count.Add(1)%n == 0 {
			return errUnlucky
		}
		return nil
	}
}

func writeTable(t *testing.T, file string, table *routing.Table) {
	t.Helper()
	text, err := table.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
