package lagwatch_test

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/lagwatch"
)

// One look at a cluster in which one tenant's import fills a partition.
func ExampleWatcher_Once() {
	ctx := context.Background()
	broker, err := embedded.Start(embedded.Config{Options: []kfake.Opt{kfake.SeedTopics(4, "orders")}})
	if err != nil {
		panic(err)
	}
	defer broker.Close()
	seeds := kgo.SeedBrokers(broker.Addrs()...)
	client, err := kgo.NewClient(seeds, kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	commits := kadm.Offsets{}
	for p := range int32(4) {
		commits.AddOffset("orders", p, 0, -1)
	}
	for range 5000 {
		client.Produce(ctx, &kgo.Record{Partition: 2, Key: []byte("importer"), Timestamp: time.Now().Add(-5 * time.Minute)}, nil)
	}
	if err = client.Flush(ctx); err != nil {
		panic(err)
	}
	if err = kadm.NewClient(client).CommitAllOffsets(ctx, "billing", commits); err != nil {
		panic(err)
	}

	w, err := lagwatch.New(lagwatch.Config{KafkaOpts: []kgo.Opt{seeds}, Groups: []string{"billing"}})
	if err != nil {
		panic(err)
	}
	e, err := w.Once(ctx)
	if err != nil {
		panic(err)
	}
	for _, f := range e.Groups[0].Firing {
		fmt.Println(f.Alert, f.Partitions, f.Tenant)
	}
	fmt.Println("blind:", e.Blind)
	// Output:
	// partition_hot [2] importer
	// tenant_dominates [2] importer
	// blind: false
}
