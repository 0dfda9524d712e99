package integration

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/internal/testkit"
)

// broker is a Kafka that a test runs against.
type broker struct {
	name  string
	addrs []string
}

// forEachBroker runs the test on the embedded broker, a fresh one, and on the
// real one.
func forEachBroker(t *testing.T, test func(*testing.T, broker)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, startEmbedded(t)) })
	t.Run("kafka", func(t *testing.T) { test(t, realBroker(t)) })
}

func startEmbedded(t *testing.T) broker {
	t.Helper()
	return broker{name: "embedded", addrs: testkit.Broker(t).Addrs()}
}

// realBroker skips the test where there is none; TestMain has said so, and has
// failed if one is required.
func realBroker(t *testing.T) broker {
	t.Helper()
	if suite.kafka == nil {
		t.Skipf("no real broker: %s", suite.why)
	}
	return broker{name: "kafka", addrs: suite.kafka}
}

// Addrs makes a broker one that testkit has clients for.
func (b broker) Addrs() []string { return b.addrs }

// client returns a client that is closed at the test's end.
func (b broker) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return testkit.Client(t, b, opts...)
}

// topic creates a topic with a name of its own, which is deleted at the test's
// end.
func (b broker) topic(t *testing.T, partitions int32) string {
	t.Helper()
	name := unique(t, "topic")
	client := b.client(t)
	adm := kadm.NewClient(client)
	ctx := deadline(t, time.Minute)
	if _, err := adm.CreateTopic(ctx, partitions, -1, nil, name); err != nil {
		t.Fatalf("topic %s: %v", name, err)
	}
	await(ctx, t, "every broker knows the topic", func() bool { return known(ctx, client, name) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := adm.DeleteTopic(ctx, name); err != nil {
			t.Errorf("topic %s: delete: %v", name, err)
		}
	})
	return name
}

// known reports whether every broker knows the topic and its leaders. A broker
// that was not asked to create it hears of it a little later.
func known(ctx context.Context, client *kgo.Client, topic string) bool {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	for _, broker := range client.DiscoveredBrokers() {
		answer, err := broker.Request(ctx, req)
		if err != nil {
			return false
		}
		for _, t := range answer.(*kmsg.MetadataResponse).Topics {
			leaderless := func(p kmsg.MetadataResponseTopicPartition) bool { return p.ErrorCode != 0 || p.Leader < 0 }
			if t.ErrorCode != 0 || slices.ContainsFunc(t.Partitions, leaderless) {
				return false
			}
		}
	}
	return true
}

// unique returns a name that no other test and no earlier run has used.
func unique(t *testing.T, what string) string {
	t.Helper()
	test := strings.Map(func(r rune) rune {
		if r == '/' || r == '_' {
			return '-'
		}
		return r
	}, strings.TrimPrefix(t.Name(), "Test"))
	return "tl-" + what + "-" + test + "-" + strings.ToLower(rand.Text()[:8])
}

// deadline returns a context that ends the test's waits before "go test" ends
// the whole suite without saying where.
func deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// await is testkit.Await, whose name is long for how often it is needed here.
func await(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.Await(ctx, t, what, holds)
}
