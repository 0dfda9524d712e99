package consumer_test

import (
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
)

// A hundred handlers share a database that bears four at a time, and a partner's
// interface that may be called ten times a second.
func ExampleRecord_Acquire() {
	brokers, stopBroker := exampleBroker("orders", "acme")
	defer stopBroker()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	handle := func(ctx context.Context, r *consumer.Record) error {
		release, err := r.Acquire(ctx, "warehouse")
		if err != nil {
			return err // the handler's deadline, or a stop
		}
		defer release()
		fmt.Printf("%s has the warehouse\n", r.Tenant)
		cancel() // a signal handler's job in a real worker
		return nil
	}
	rt, err := consumer.New(consumer.Config{
		Group:       "billing",
		Topics:      []string{"orders"},
		Concurrency: 100,
		Resources: map[string]consumer.Resource{
			"warehouse": {Concurrency: 4},
			"partner":   {Rate: 10, Burst: 1},
		},
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(brokers...)},
	}, handle)
	if err != nil {
		log.Fatal(err)
	}
	if err := rt.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// acme has the warehouse
}
