package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// resumed is a partition with ten records whose commit says: all is done but
// for one lane, from offset 2 on.
type resumed struct {
	broker   *kfake.Cluster
	begins   *beginnings
	metadata string
	ignored  []offset.Reason
}

func newResumed(t *testing.T) *resumed {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatalf("starting the embedded broker: %v", err)
	}
	t.Cleanup(broker.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	t.Cleanup(client.Close)
	for range 10 {
		if err = client.ProduceSync(t.Context(), kgo.KeyStringRecord("a", "1")).FirstErr(); err != nil {
			t.Fatalf("producing: %v", err)
		}
	}
	r := &resumed{broker: broker}
	cfg := Config{Group: "billing"}.withDefaults()
	r.begins = newBeginnings(kadm.NewClient(client), &cfg, func(_ topicPartition, why offset.Reason) {
		r.ignored = append(r.ignored, why)
	})
	known, err := r.begins.admin.Metadata(t.Context(), "orders")
	if err != nil {
		t.Fatalf("asking for the topic's id: %v", err)
	}
	id := offset.Identity{
		Cluster: known.Cluster, Topic: known.Topics["orders"].ID,
		Fingerprint: fingerprintOf(r.begins.fingerprint, routing.TenantRule{}),
	}
	state := offset.State{Watermark: 2, Frontier: 9, Lanes: []offset.Lane{{Name: 7, Offset: 2}}}
	r.metadata, _ = offset.Encode(id, state, func(int64) int32 { return 0 }, 1024)
	return r
}

func (r *resumed) resolve(ctx context.Context) (begin, error) {
	tp := topicPartition{"orders", 0}
	begins, err := r.begins.resolve(ctx, map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(2).WithEpoch(0)}},
		map[topicPartition]string{tp: r.metadata}, func(string) routing.TenantRule { return routing.TenantRule{} })
	return begins[tp], err
}

func TestAFrontierIsNotGivenUpForALeaderThatJustChanged(t *testing.T) {
	t.Parallel()
	r := newResumed(t)
	r.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetForLeaderEpoch}, Err: kerr.UnknownLeaderEpoch, Count: 2})
	at, err := r.resolve(t.Context())
	if err != nil || at.cursor() != 9 || len(r.ignored) > 0 {
		t.Errorf("begins at %d with %v ignored and error %v, want the frontier 9", at.cursor(), r.ignored, err)
	}
}

// A rebalance ends the context while the broker is asked. The client asks again
// in its next session: to begin at the watermark meanwhile would repeat all that
// is done above it.
func TestARebalanceMidwayIsNoReasonToIgnoreMetadata(t *testing.T) {
	t.Parallel()
	r := newResumed(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.broker.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kmsg.Request) (kmsg.Response, error, bool) {
		cancel()
		return nil, errTest, true
	})
	if at, err := r.resolve(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("begins at %d with error %v, want none and the context's error", at.cursor(), err)
	}
	if len(r.ignored) > 0 {
		t.Errorf("ignored the metadata for %v", r.ignored)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if at, err := r.resolve(ctx); err != nil || at.cursor() != 9 {
		t.Errorf("begins at %d the next time, with error %v", at.cursor(), err)
	}
}
