package adopt_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/partitioner/adopt"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func ExampleTopicSpec() {
	spec, err := adopt.TopicSpec("librdkafka", 50)
	fmt.Println(spec.Hash, spec.Slots, err)
	// Output: crc32-librdkafka 4100 <nil>
}

// A topic that franz-go fills is adopted: its records lie where the table says.
func ExampleVerify() {
	ctx := context.Background()
	broker, err := embedded.Start(embedded.Config{Options: []kfake.Opt{kfake.SeedTopics(12, "orders")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	for _, tenant := range []string{"acme-corp", "globex", "hooli"} {
		if err = client.ProduceSync(ctx, kgo.KeyStringRecord(tenant, "an order")).FirstErr(); err != nil {
			fmt.Println(err)
			return
		}
	}

	spec, err := adopt.TopicSpec("franz-go", 12)
	if err != nil {
		fmt.Println(err)
		return
	}
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": spec}})
	if err != nil {
		fmt.Println(err)
		return
	}
	topic, _ := table.Topic("orders")
	report, err := adopt.Verify(ctx, client, topic, adopt.Config{})
	fmt.Printf("%d records, %.1f %% match %v\n", report.Records, 100*report.Share(), err)
	// Output: 3 records, 100.0 % match <nil>
}
