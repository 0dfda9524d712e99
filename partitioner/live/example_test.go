package live_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/partitioner/live"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// A group has not committed acme's record yet, so acme may not be re-routed.
func ExampleRerouted() {
	ctx := context.Background()
	broker, err := embedded.Start(embedded.Config{Options: []kfake.Opt{kfake.SeedTopics(4, "orders")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	record := &kgo.Record{Topic: "orders", Partition: 1, Key: []byte("acme"), Value: []byte("an order")}
	if err = client.ProduceSync(ctx, record).FirstErr(); err != nil {
		fmt.Println(err)
		return
	}
	standing := kadm.Offsets{}
	standing.Add(kadm.Offset{Topic: "orders", Partition: 1, At: 0})
	if err = kadm.NewClient(client).CommitAllOffsets(ctx, "billing", standing); err != nil {
		fmt.Println(err)
		return
	}

	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{
		"orders": {Partitions: 4, Placements: map[string]routing.Placement{"acme": {Partitions: []int32{1}}}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	changed, err := table.Edit(routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{2}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	before, _ := table.Topic("orders")
	after, _ := changed.Topic("orders")
	found, err := live.Rerouted(ctx, client, before, after)
	if err != nil || found.Record == nil {
		fmt.Println("nothing is live", err)
		return
	}
	fmt.Printf("%s has a record at partition %d offset %d that group %s waits for\n",
		found.Record.Tenant, found.Record.Partition, found.Record.Offset, found.Record.Group)
	// Output: acme has a record at partition 1 offset 0 that group billing waits for
}
