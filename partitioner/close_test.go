package partitioner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func TestCloseWaitsForWhatItHas(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{})
	var o outcome
	p.Produce(context.Background(), record("acme", 1), o.promise())
	p.Pause("orders", []byte("acme"))
	p.Produce(context.Background(), record("acme", 2), o.promise())
	var resume sync.WaitGroup
	resume.Go(func() { <-p.closing; p.Resume("orders", []byte("acme")) })
	if err := p.Close(patient(t)); err != nil {
		t.Error(err)
	}
	resume.Wait()
	o.ok(t)
	var late outcome
	p.Produce(context.Background(), record("acme", 3), late.promise())
	if err := late.wait(t)[0]; !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := p.Close(patient(t)); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	c := cluster(t, 2)
	src := store.Fixed(tableOf(t, pinned(2, map[string]int32{"stuck": 0, "held": 1})))
	p := producing(t, c, src, ProducerConfig{MaxTenantRecords: 1})
	fault := withoutLeader(c, 0)
	defer fault.Remove()
	var sent, waiting, held outcome
	p.Produce(context.Background(), record("stuck", 1), sent.promise())
	eventually(t, "in flight", func() bool { return p.InFlight("orders", []byte("stuck")) == 1 })
	var blocked sync.WaitGroup
	blocked.Go(func() { p.Produce(context.Background(), record("stuck", 2), waiting.promise()) })
	p.Pause("orders", []byte("held"))
	p.Produce(context.Background(), record("held", 1), held.promise())

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	blocked.Wait()
	for _, o := range []*outcome{&waiting, &held} {
		for _, err := range o.wait(t) {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("error is %v", err)
			}
		}
	}
	p.client.Close()
	if err := sent.wait(t)[0]; !errors.Is(err, kgo.ErrClientClosed) {
		t.Errorf("what kgo had: %v", err)
	}
}
