package embedded_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/internal/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	broker, err := embedded.Start(embedded.Config{})
	if err != nil {
		panic(err)
	}
	defer broker.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	meta, err := kadm.NewClient(client).BrokerMetadata(context.Background())
	fmt.Println(len(meta.Brokers), meta.Cluster, err)
	// Output: 1 tenantlane-embedded <nil>
}

func start(t *testing.T, cfg embedded.Config) *embedded.Broker {
	t.Helper()
	b, err := embedded.Start(cfg)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { stop(t, b) })
	return b
}

func stop(t *testing.T, b *embedded.Broker) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func client(t *testing.T, b *embedded.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addrs()...))...)
	if err != nil {
		t.Fatalf("NewClient: %v", err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func timeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestProduceAndConsumeOverTCP(t *testing.T) {
	ctx := timeout(t)
	b := start(t, embedded.Config{Partitions: 3})
	cl := client(t, b, kgo.ConsumeTopics("orders"))
	created, err := kadm.NewClient(cl).CreateTopic(ctx, -1, -1, nil, "orders")
	if err != nil {
		t.Fatalf("CreateTopic: %v", err)
	}
	if created.NumPartitions != 3 {
		t.Errorf("created with %d partitions, want the default of 3", created.NumPartitions)
	}
	if err := cl.ProduceSync(ctx, kgo.KeyStringRecord("t", "v")).FirstErr(); err == nil {
		t.Error("a record without a topic was accepted")
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
	if got := cl.PollFetches(ctx).NumRecords(); got != 1 {
		t.Errorf("consumed %d records, want 1", got)
	}
}

func TestUnknownTopicIsNotCreatedUnlessAsked(t *testing.T) {
	for _, auto := range []bool{false, true} {
		t.Run(fmt.Sprint(auto), func(t *testing.T) {
			b := start(t, embedded.Config{AutoCreate: auto})
			cl := client(t, b, kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(1))
			err := cl.ProduceSync(timeout(t), &kgo.Record{Topic: "new"}).FirstErr()
			if (err == nil) != auto {
				t.Errorf("AutoCreate %v: produce to a new topic: %v", auto, err)
			}
		})
	}
}

func TestDataDirKeepsRecordsAndCommits(t *testing.T) {
	ctx, dir := timeout(t), t.TempDir()
	b := start(t, embedded.Config{DataDir: dir})
	cl := client(t, b)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "orders"); err != nil {
		t.Fatalf("CreateTopic: %v", err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("kept")}).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
	offsets := kadm.OffsetsFromFetches(kgo.Fetches{})
	offsets.AddOffset("orders", 0, 1, -1)
	if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if _, err := embedded.Start(embedded.Config{DataDir: dir}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second broker on the same directory: %v, want a refusal", err)
	}
	cl.Close()
	stop(t, b)

	again := start(t, embedded.Config{DataDir: dir})
	cl = client(t, again, kgo.ConsumeTopics("orders"))
	fetches := cl.PollFetches(ctx)
	if fetches.NumRecords() != 1 || string(fetches.Records()[0].Value) != "kept" {
		t.Errorf("after the restart: %v, want the record", fetches.Records())
	}
	commits, err := kadm.NewClient(cl).FetchOffsets(ctx, "g")
	if at, ok := commits.Lookup("orders", 0); err != nil || !ok || at.At != 1 {
		t.Errorf("after the restart: commit %v %v, want 1", at, err)
	}
}

func TestListen(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	b := start(t, embedded.Config{Listen: addr, Nodes: 3})
	if got := b.Addrs(); len(got) != 3 || got[0] != addr {
		t.Errorf("Addrs() = %v, want three, the first %s", got, addr)
	}
	if got := len(b.Cluster().ListenAddrs()); got != 3 {
		t.Errorf("the cluster has %d nodes, want 3", got)
	}
	if _, err := embedded.Start(embedded.Config{Listen: addr}); err == nil {
		t.Error("a second broker on the same port started")
	}
}

func TestVirtualNetwork(t *testing.T) {
	var network kfake.VirtualNetwork
	b := start(t, embedded.Config{Options: []kfake.Opt{kfake.Ports(9092), kfake.ListenFn(network.Listen)}})
	cl := client(t, b, kgo.Dialer(network.DialContext))
	if err := cl.Ping(timeout(t)); err != nil {
		t.Errorf("ping through the virtual network: %v", err)
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for _, tc := range []struct {
		cfg  embedded.Config
		want string
	}{
		{embedded.Config{Listen: "localhost"}, "Listen"},
		{embedded.Config{Listen: "0.0.0.0:0"}, "Listen"},
		{embedded.Config{Listen: "[::]:0"}, "Listen"},
		{embedded.Config{Listen: ":9092"}, "Listen"},
		{embedded.Config{Listen: "localhost:kafka"}, "Listen"},
		{embedded.Config{Listen: "localhost:65536"}, "Listen"},
		{embedded.Config{Nodes: -1}, "Nodes"},
		{embedded.Config{Partitions: -1}, "Partitions"},
		{embedded.Config{DataDir: "/dev/null/x"}, "data directory"},
	} {
		_, err := embedded.Start(tc.cfg)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Start(%+v) = %v, want an error that names %s", tc.cfg, err, tc.want)
		}
	}
}
