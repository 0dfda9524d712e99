package admin_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/admin"
)

// A worker serves its endpoint beside Run, and an operator looks for the record
// that holds up a tenant, and skips it.
func Example() {
	var worker admin.Worker = &fake{} // a *consumer.Runtime
	server, err := admin.New(admin.Config{Addr: "127.0.0.1:0"}, worker)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if served := server.Run(ctx); served != nil {
			log.Print(served)
		}
	})
	defer running.Wait()
	defer cancel()

	operator, err := admin.NewClient(server.Addr(), "")
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()
	parked, err := operator.Tenants(ctx, consumer.TenantFilter{State: consumer.StateParked})
	if err != nil {
		log.Fatal(err)
	}
	bad := parked[0].Troubles[0]
	fmt.Printf("%s waits at %s/%d/%d: %s\n", parked[0].Tenant, bad.Topic, bad.Partition, bad.Offset, bad.Error)
	effect, err := operator.Skip(ctx, []byte(parked[0].Tenant),
		consumer.Place{Topic: bad.Topic, Partition: bad.Partition, Offset: bad.Offset},
		consumer.Act{Actor: "eve", Reason: "the customer will send it again"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("skipped; committed:", effect.Committed)
	// Output:
	// acme waits at orders/3/17: boom
	// skipped; committed: true
}
