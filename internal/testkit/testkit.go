package testkit

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/embedded"
)

// Broker starts an embedded broker with these options, which ends with the
// test.
func Broker(t testing.TB, opts ...kfake.Opt) *embedded.Broker {
	t.Helper()
	b, err := embedded.Start(embedded.Config{Options: opts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Client returns a client of whatever has addresses, which is closed at the
// test's end. The options win over the addresses.
func Client(t testing.TB, broker interface{ Addrs() []string }, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(slices.Concat([]kgo.Opt{kgo.SeedBrokers(broker.Addrs()...)}, opts)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Await polls until the condition holds, and fails the test if ctx ends first.
func Await(ctx context.Context, t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Poll(ctx, holds) {
		t.Fatalf("waited in vain: %s", what)
	}
}

// Poll waits until the condition holds or ctx ends, and reports whether it
// holds.
func Poll(ctx context.Context, holds func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
