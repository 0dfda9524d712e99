package rebalance_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance"
)

func ExampleCoordinator_MoveStopped() {
	ctx := context.Background()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, "orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	dir, err := os.MkdirTemp("", "move")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "routing.yaml")
	table := "version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, epoch: 1, placements: {acme-corp: {partitions: [0], epoch: 1}}}\n"
	if err = os.WriteFile(path, []byte(table), 0o600); err != nil {
		log.Fatal(err)
	}

	file, err := store.OpenFile(ctx, path, store.FileConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	client, err := kgo.NewClient(append(partitioner.ClientOpts(file, partitioner.Config{}), kgo.SeedBrokers(cluster.ListenAddrs()...))...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	producer, err := partitioner.NewProducer(client, file, partitioner.ProducerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = producer.Close(ctx) }()

	c, err := rebalance.NewCoordinator(rebalance.CoordinatorConfig{
		Client: client, Table: file, Producers: []rebalance.Pauser{producer},
	})
	if err != nil {
		log.Fatal(err)
	}
	report, err := c.MoveStopped(ctx, rebalance.StoppedMove{Topic: "orders", Tenant: "acme-corp", To: []int32{3}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.State, report.From, report.To, "epoch", report.Epoch, "revision", report.Revision)
	// Output: done [0] [3] epoch 2 revision 2
}
