package partitioner_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// exampleTable is what store.OpenFile(ctx, "routing.yaml", …) would read.
const exampleTable = `
version: 1
revision: 1
topics:
  orders:
    partitions: 8
    shared: "2-7"
    epoch: 1
    placements:
      acme-corp: {partitions: [0], epoch: 1}
`

func exampleSource() store.Source {
	table, err := routing.Parse("routing.yaml", []byte(exampleTable))
	if err != nil {
		log.Fatal(err)
	}
	return store.Fixed(table)
}

func exampleBroker() (seeds []string, stop func()) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, "orders"))
	if err != nil {
		log.Fatal(err)
	}
	return c.ListenAddrs(), c.Close
}

// An existing producer needs one more option.
func ExampleNew() {
	seeds, stop := exampleBroker()
	defer stop()
	src := exampleSource()

	client, err := kgo.NewClient(
		kgo.SeedBrokers(seeds...),
		kgo.RecordPartitioner(partitioner.New(src, partitioner.Config{})),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	r := &kgo.Record{Topic: "orders", Key: []byte("acme-corp"), Value: []byte("order 1")}
	if err := client.ProduceSync(context.Background(), r).FirstErr(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("partition", r.Partition)
	// Output: partition 0
}

// A Producer is two lines more than a client, and then takes the client's place
// for producing.
func ExampleNewProducer() {
	ctx := context.Background()
	seeds, stop := exampleBroker()
	defer stop()
	src := exampleSource()

	opts := []kgo.Opt{kgo.SeedBrokers(seeds...)} // whatever the application has
	client, err := kgo.NewClient(append(opts, partitioner.ClientOpts(src, partitioner.Config{})...)...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	p, err := partitioner.NewProducer(client, src, partitioner.ProducerConfig{})
	if err != nil {
		log.Fatal(err)
	}

	p.Produce(ctx, &kgo.Record{Topic: "orders", Key: []byte("acme-corp"), Value: []byte("order 1")},
		func(r *kgo.Record, err error) { fmt.Println("partition", r.Partition, err) })
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: partition 0 <nil>
}

// Pause and Resume hold one tenant back while its placement changes.
func ExampleProducer_Pause() {
	ctx := context.Background()
	seeds, stop := exampleBroker()
	defer stop()
	src := exampleSource()
	client, err := kgo.NewClient(append(partitioner.ClientOpts(src, partitioner.Config{}), kgo.SeedBrokers(seeds...))...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	p, err := partitioner.NewProducer(client, src, partitioner.ProducerConfig{})
	if err != nil {
		log.Fatal(err)
	}

	tenant := []byte("acme-corp")
	p.Pause("orders", tenant)
	if err := p.Settle(ctx, "orders", tenant); err != nil {
		log.Fatal(err)
	}
	done := make(chan struct{})
	p.Produce(ctx, &kgo.Record{Topic: "orders", Key: tenant}, func(*kgo.Record, error) { close(done) })
	fmt.Println("in flight", p.InFlight("orders", tenant))
	p.Resume("orders", tenant)
	<-done
	fmt.Println("written")
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// in flight 0
	// written
}

// Errors are typed, and name the record.
func ExampleRouteError() {
	ctx := context.Background()
	seeds, stop := exampleBroker()
	defer stop()
	src := exampleSource()
	client, err := kgo.NewClient(append(partitioner.ClientOpts(src, partitioner.Config{}), kgo.SeedBrokers(seeds...))...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	p, err := partitioner.NewProducer(client, src, partitioner.ProducerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = p.Close(ctx) }()

	err = p.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("whose?")}).FirstErr()
	var route *partitioner.RouteError
	if errors.As(err, &route) && errors.Is(err, partitioner.ErrNoTenant) {
		fmt.Println(route.Topic, strings.HasSuffix(err.Error(), "record has no tenant"))
	}
	// Output: orders true
}

func ExampleTenantOf() {
	rule, err := routing.ParseTenantRule("prefix:/")
	if err != nil {
		log.Fatal(err)
	}
	tenant, ok := partitioner.TenantOf(rule, &kgo.Record{Key: []byte("acme-corp/order-17")})
	fmt.Printf("%s %v\n", tenant, ok)
	// Output: acme-corp true
}

func ExampleCause() {
	seeds, stop := exampleBroker()
	defer stop()
	client, err := kgo.NewClient(append(partitioner.ClientOpts(exampleSource(), partitioner.Config{}), kgo.SeedBrokers(seeds...))...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	r, err := client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders"}).First()
	fmt.Println(errors.Is(partitioner.Cause(r, err), partitioner.ErrNoTenant))
	// Output: true
}
