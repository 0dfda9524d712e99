package routing_test

import (
	"fmt"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

const smallTable = `
version: 1
revision: 4
topics:
  orders:
    partitions: 8
    shared: "1-7"
    placements:
      acme-corp: {partitions: [0]}
`

func ExampleParse() {
	table, err := routing.Parse("routing.yaml", []byte(smallTable))
	if err != nil {
		fmt.Println(err)
		return
	}
	orders, _ := table.Topic("orders")
	for _, tenant := range []string{"acme-corp", "globex"} {
		r := orders.Lookup([]byte(tenant), nil)
		fmt.Println(tenant, "slot", r.Slot, "partition", r.Partition, "by", r.Rule)
	}
	_, err = routing.Parse("routing.yaml", []byte("version: 1\ntopics:\n  orders: {partitions: 8, hash: md5}\n"))
	fmt.Println(err)
	// Output:
	// acme-corp slot 1597 partition 0 by pinned
	// globex slot 428 partition 2 by slot
	// routing.yaml:3: topics.orders.hash: unknown hash "md5", known are xxhash64, blake2b-64, sha256-64, murmur2-kafka, fnv1a-sarama, crc32-librdkafka
}

func ExampleTable_Edit() {
	table, err := routing.Parse("routing.yaml", []byte(smallTable))
	if err != nil {
		fmt.Println(err)
		return
	}
	next, err := table.Edit(routing.SetPlacement("orders", "globex", routing.Placement{Partitions: []int32{0}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range routing.Diff(table, next) {
		for _, c := range d.Placements {
			fmt.Println("revision", next.Revision(), d.Topic, c.Tenant, c.From.Partitions, "to", c.To.Partitions)
		}
	}
	// Output: revision 5 orders globex [2] to [0]
}

func ExampleRebase() {
	current, err := routing.Parse("current.yaml", []byte(smallTable))
	if err != nil {
		fmt.Println(err)
		return
	}
	wanted, err := routing.Parse("edited.yaml", []byte("version: 1\ntopics:\n  orders: {partitions: 8, shared: 1-7}\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	next, err := routing.Rebase(current, wanted.Spec())
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := next.YAML()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(text))
	// Output:
	// version: 1
	// revision: 5
	// topics:
	//   orders:
	//     partitions: 8
	//     hash: xxhash64
	//     slots: 4096
	//     shared: "1-7"
	//     tenant_of: key
	//     producers: any
	//     strategy: modulo
	//     epoch: 1
	//     placements:
	//       acme-corp: {follow: slot, epoch: 1}
}
