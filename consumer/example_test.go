package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// A worker handles each tenant's records in order, and drains when its context
// is canceled.
func Example() {
	brokers, stopBroker := exampleBroker("orders", "acme:1", "globex:1", "acme:2", "acme:3")
	defer stopBroker()

	table, err := routing.NewTable(routing.Spec{
		Revision: 1,
		Topics: map[string]routing.TopicSpec{"orders": {
			Partitions: 1,
			TenantOf:   routing.TenantRule{From: routing.FromPrefix, Arg: ":"},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	src := store.Fixed(table)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	handle := func(_ context.Context, r *consumer.Record) error {
		if string(r.Tenant) == "acme" {
			fmt.Printf("%s %s\n", r.Tenant, r.Key)
		}
		if string(r.Key) == "acme:3" {
			cancel() // a signal handler's job in a real worker
		}
		return nil
	}
	rt, err := consumer.New(consumer.Config{
		Group:       "billing",
		Topics:      []string{"orders"},
		Table:       src,
		Concurrency: 100,
		KafkaOpts:   []kgo.Opt{kgo.SeedBrokers(brokers...)},
	}, handle)
	if err != nil {
		log.Fatal(err)
	}
	if err := rt.Run(ctx); err != nil { // blocks; cancel drains, commits, leaves
		log.Fatal(err)
	}
	// Output:
	// acme acme:1
	// acme acme:2
	// acme acme:3
}

// What a handler answers decides what becomes of its record.
func ExampleHandler() {
	var handle consumer.Handler = func(_ context.Context, r *consumer.Record) error {
		switch {
		case len(r.Value) == 0:
			return consumer.Skip("a tombstone means nothing here") // done
		case string(r.Value) == "busy":
			return consumer.RetryAfter(30 * time.Second) // only this tenant waits
		case string(r.Value) == "broken":
			return consumer.Permanent(errors.New("cannot be parsed")) // parked, or dead-lettered
		case string(r.Value) == "flaky" && r.Attempt < 3:
			return errors.New("try again") // after a back-off, before the tenant's next record
		}
		return nil // done
	}
	for _, value := range []string{"", "busy", "broken", "flaky", "fine"} {
		r := &consumer.Record{Record: &kgo.Record{Value: []byte(value)}, Attempt: 1}
		fmt.Printf("%q: %v\n", value, handle(context.Background(), r))
	}
	// Output:
	// "": record skipped: a tombstone means nothing here
	// "busy": retry after 30s
	// "broken": cannot be parsed
	// "flaky": try again
	// "fine": <nil>
}

// exampleBroker starts an embedded broker with one record for each key.
func exampleBroker(topic string, keys ...string) (addrs []string, stop func()) {
	broker := kfake.MustCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, key := range keys {
		if err := client.ProduceSync(context.Background(), kgo.KeyStringRecord(key, "order")).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}
	return broker.ListenAddrs(), broker.Close
}
