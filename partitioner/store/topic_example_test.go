package store_test

import (
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// exampleBroker stands for your cluster.
func exampleBroker() (opts []kgo.Opt, stop func()) {
	b, err := embedded.Start(embedded.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return []kgo.Opt{kgo.SeedBrokers(b.Addrs()...)}, func() { _ = b.Close() }
}

func ExampleOpenTopic() {
	opts, stop := exampleBroker()
	defer stop()
	ctx := context.Background()

	// The first writer creates the topics and puts the first table into them.
	table, err := store.OpenTopic(ctx, store.TopicConfig{KafkaOpts: opts, Create: true, Empty: true})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = table.Close() }()
	by := store.Author{Actor: "anna", Reason: "acme has outgrown its neighbors"}
	_, err = table.Update(ctx, by, func(present *routing.Table) (*routing.Table, error) {
		return present.Edit(
			routing.SetTopic("orders", routing.TopicSpec{Partitions: 8, Shared: []int32{1, 2, 3, 4, 5, 6, 7}}),
			routing.SetPlacement("orders", "acme-corp", routing.Placement{Partitions: []int32{0}}))
	})
	if err != nil {
		log.Fatal(err)
	}

	// Everyone else reads it, and has it whole from the start.
	src, err := store.OpenTopic(ctx, store.TopicConfig{KafkaOpts: opts})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	orders, _ := src.Table().Topic("orders")
	fmt.Println("revision", src.Table().Revision(), "acme-corp to partition", orders.Lookup([]byte("acme-corp"), nil).Partition)

	history, err := src.History(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, change := range history {
		fmt.Println(change.Revision, change.Actor+":", change.Reason)
	}
	// Output:
	// revision 1 acme-corp to partition 0
	// 1 anna: acme has outgrown its neighbors
}

func ExampleTopic_Register() {
	opts, stop := exampleBroker()
	defer stop()
	ctx := context.Background()
	table, err := store.OpenTopic(ctx, store.TopicConfig{KafkaOpts: opts, Create: true, Empty: true})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = table.Close() }()

	session, err := table.Register(ctx, store.SessionConfig{Client: "billing", Topics: []string{"orders"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("may route:", session.Err() == nil)
	if err := session.Close(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("after the end:", session.Err())
	// Output:
	// may route: true
	// after the end: routing table may be stale: the session's lease is not assured
}
