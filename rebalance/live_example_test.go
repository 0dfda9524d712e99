package rebalance_test

import (
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance"
)

func ExampleLiveCoordinator_Move() {
	ctx := context.Background()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, "orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	brokers := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}

	table, err := store.OpenTopic(ctx, store.TopicConfig{KafkaOpts: brokers, Create: true, Empty: true})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = table.Close() }()
	me := store.Author{Actor: "ann", Reason: "acme-corp crowds out partition 0"}
	_, err = table.Update(ctx, me, func(present *routing.Table) (*routing.Table, error) {
		return present.Edit(
			routing.SetTopic("orders", routing.TopicSpec{Partitions: 8, Wrapped: true}),
			routing.SetPlacement("orders", "acme-corp", routing.Placement{Partitions: []int32{0}}))
	})
	if err != nil {
		log.Fatal(err)
	}

	c, err := rebalance.NewLiveCoordinator(rebalance.LiveConfig{KafkaOpts: brokers, Table: table})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	report, err := c.Move(ctx, rebalance.LiveMove{Topic: "orders", Tenant: "acme-corp", To: []int32{3}, By: me})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.State, report.From, report.To, "epoch", report.Epoch, "fences", report.Fences)
	report, err = c.Move(ctx, rebalance.LiveMove{Topic: "orders", Tenant: "acme-corp", To: []int32{9}})
	fmt.Println(report.State, err)
	// Output:
	// done [0] [3] epoch 2 fences [{0 0}]
	// aborted move of tenant "acme-corp" of topic orders, refused: partition 9 is outside the topic, which has 0 to 7
}

func ExampleLiveCoordinator_Run() {
	ctx := context.Background()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, "orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	brokers := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	table, err := store.OpenTopic(ctx, store.TopicConfig{KafkaOpts: brokers, Create: true, Empty: true})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = table.Close() }()
	_, err = table.Update(ctx, store.Author{}, func(present *routing.Table) (*routing.Table, error) {
		return present.Edit(routing.SetTopic("orders", routing.TopicSpec{Partitions: 8, Shared: []int32{0, 1, 2, 3}, Wrapped: true}))
	})
	if err != nil {
		log.Fatal(err)
	}
	c, err := rebalance.NewLiveCoordinator(rebalance.LiveConfig{KafkaOpts: brokers, Table: table})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	growth := rebalance.Campaign{Topic: "orders", Slots: map[int32]int32{}, Batch: 512}
	for slot := int32(0); slot < routing.DefaultSlots; slot += 2 { // half of what 0 and 2 have
		growth.Slots[slot] = 4 + slot%4
	}
	for range 2 { // run again, it finds that all is done
		report, err := c.Run(ctx, growth)
		fmt.Printf("%+v %v\n", report, err)
	}
	// Output:
	// {Units:2048 Already:0 Moved:2048 Moves:4 Aborted:0} <nil>
	// {Units:2048 Already:2048 Moved:0 Moves:0 Aborted:0} <nil>
}
