package lagwatch

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// A round learns which member holds a partition, which broker leads it, and
// once a minute how large it is.
func TestRoundLearnsOwnersLeadersAndSizes(t *testing.T) {
	t.Parallel()
	b, err := embedded.Start(embedded.Config{Nodes: 2, Options: []kfake.Opt{kfake.SeedTopics(4, "orders")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	member, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"),
		kgo.DefaultProduceTopic("orders"), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	produce := func(n int) {
		t.Helper()
		if err = member.ProduceSync(t.Context(), &kgo.Record{Partition: 1, Value: make([]byte, n)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce(5000)
	if member.PollFetches(t.Context()).NumRecords() == 0 {
		t.Fatal("nothing read")
	}
	if err = member.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := Config{KafkaOpts: []kgo.Opt{kgo.SeedBrokers(b.Addrs()...)}, Rule: new(lag.Defaults()), SampleTimeout: 6 * time.Second}.withDefaults()
	client, err := kgo.NewClient(clientOpts(&cfg)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := newSampler(&cfg, client, newInventory(nil))
	at := time.Now()
	first := s.sample(t.Context(), at)
	g, ok := first.group("billing")
	topic := first.topic("orders")
	if !ok || topic == nil || len(first.Errors) > 0 {
		t.Fatalf("%+v", first)
	}
	if c, _ := g.topic("orders"); len(c.Owners) != 4 || c.Owners[0] != 1 {
		t.Errorf("owners %v", c.Owners)
	}
	if len(topic.Leaders) != 4 || at32(topic.Leaders, 0) == 0 || at32(topic.Leaders, 9) != 0 {
		t.Errorf("leaders %v", topic.Leaders)
	}
	if offsetOf(topic.Bytes, 1) < 5000 {
		t.Fatalf("sizes %v", topic.Bytes)
	}
	if again := s.sample(t.Context(), at.Add(10*time.Second)); again.topic("orders").Bytes != nil {
		t.Error("asked again within a minute")
	}
	produce(60_000)
	later := s.sample(t.Context(), at.Add(time.Minute))
	e := newEngine(&cfg)
	e.observe(first)
	e.observe(later)
	if rate := e.byteRate("orders", 1); rate < 900 || rate > 1200 {
		t.Errorf("%.0f bytes per second", rate)
	}
}
