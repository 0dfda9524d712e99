package move_test

import (
	"fmt"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/move"
)

// moved gives topic orders before a move of acme from partition 0 to 3, with the
// move open, and switched with its fence at offset 100.
func moved() (before, open, switched *routing.Topic) {
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {
		Partitions: 4, Wrapped: true, Placements: map[string]routing.Placement{"acme": {Partitions: []int32{0}}},
	}}})
	if err != nil {
		panic(err)
	}
	topics := []*routing.Topic{}
	for _, edit := range []routing.Edit{
		routing.SetProducers("orders", true),
		routing.PrepareMove("orders", routing.Move{ID: "m1", Tenant: "acme", To: []int32{3}, Deadline: time.Unix(30, 0)}),
		routing.SwitchMove("orders", "m1", []routing.Fence{{Partition: 0, Offset: 100}}),
	} {
		if table, err = table.Edit(edit); err != nil {
			panic(err)
		}
		topic, _ := table.Topic("orders")
		topics = append(topics, topic)
	}
	return topics[0], topics[1], topics[2]
}

func ExampleCoordinate() {
	_, open, _ := moved()
	prepared, _ := open.Move("m1")
	course := move.Coordinate("m1")
	for {
		action, partition := course.Next()
		switch action {
		case move.Prepare:
			fmt.Println("prepare")
			course.Prepared(prepared)
		case move.AwaitDrained:
			fmt.Println("wait for the producers")
			course.Drained()
		case move.WriteFence:
			fmt.Println("fence in partition", partition)
			course.Fenced(100)
		case move.Switch:
			fmt.Println("switch with", course.Fences())
			course.Committed()
		case move.Stop:
			fmt.Println(course.Outcome())
			return
		}
	}
	// Output:
	// prepare
	// wait for the producers
	// fence in partition 0
	// switch with [{0 100}]
	// switched
}

func ExampleDrain() {
	one, two := routing.SessionID{1}, routing.SessionID{2}
	d := move.NewDrain("m1", []routing.Session{{ID: one}, {ID: two}})
	d.Lease(routing.Lease{ID: one, Drained: []string{"m1"}})
	fmt.Println(d.Done(), len(d.Waiting()))
	d.Expired(two)
	fmt.Println(d.Done(), len(d.Over()))
	// Output:
	// false 1
	// true 1
}

func ExampleGate() {
	var gate move.Gate
	const term = 1
	fmt.Println("enter:", gate.Enter(term))
	gate.Move(true) // the table has an open move of the tenant
	fmt.Println("enter:", gate.Enter(term), "drained:", gate.Drained())
	gate.Answered(move.InTime(term, term, true))
	fmt.Println("drained:", gate.Drained())
	gate.Move(false)
	fmt.Println("enter:", gate.Enter(term))
	// Output:
	// enter: true
	// enter: false drained: false
	// drained: true
	// enter: true
}

func ExampleLate() {
	_, open, switched := moved()
	r := move.Placed{Tenant: []byte("acme"), Kind: routing.KindTenant, Partition: 0, Offset: 105}
	fmt.Println(move.Late(open, r))
	fmt.Println(move.Late(switched, r))
	r.Offset = 99
	fmt.Println(move.Late(switched, r))
	// Output:
	// wait
	// resend
	// acknowledge
}

func ExampleStale() {
	_, _, switched := moved()
	r := move.Placed{Tenant: []byte("acme"), Kind: routing.KindTenant, Partition: 0, Offset: 105}
	fmt.Println(move.Stale(switched, r))
	r.Offset = 99
	fmt.Println(move.Stale(switched, r))
	// Output:
	// true
	// false
}

func ExampleFenceOf() {
	before, open, switched := moved()
	fence := routing.Control{Kind: routing.ControlFence, Move: "m1", Unit: routing.Unit{Tenant: "acme"}}
	fmt.Println(move.FenceOf(open, fence, 0, 100))
	fmt.Println(move.FenceOf(switched, fence, 0, 100))
	fmt.Println(move.FenceOf(switched, fence, 0, 98)) // written twice
	fmt.Println(move.FenceOf(before, fence, 0, 100))  // as after an abort
	// Output:
	// open
	// confirmed
	// void
	// void
}

func ExamplePartition() {
	_, open, switched := moved()
	fence := routing.Control{Kind: routing.ControlFence, Move: "m1", Unit: routing.Unit{Tenant: "acme"}}
	late := move.Placed{Tenant: []byte("acme"), Kind: routing.KindTenant, Partition: 0, Offset: 105}
	p := move.Assign(open, 0)
	p.Fence(open, fence, 100)
	verdict, _ := p.Judge(open, late, false, nil)
	fmt.Println(verdict)
	p.See(switched)
	verdict, _ = p.Judge(switched, late, false, nil)
	fmt.Println(verdict)
	// Output:
	// hold
	// quarantine
}

func ExampleEarlier() {
	_, _, switched := moved()
	r := move.Placed{Tenant: []byte("acme"), Kind: routing.KindTenant, Epoch: 1, Partition: 3}
	const lane = 0xbeef
	for _, home := range move.Earlier(switched, r, nil) {
		fmt.Println("partition", home.Partition, "up to", home.Fence)
		fmt.Println(home.Done(move.GroupCommit{Watermark: 100}, lane))
		fmt.Println(home.Done(move.GroupCommit{Watermark: 101}, lane))
		fmt.Println(home.Done(move.GroupCommit{Watermark: 7, Valid: true, Frontier: 120}, lane))
	}
	// Output:
	// partition 0 up to 100
	// false
	// true
	// true
}

func ExampleForgettable() {
	_, _, switched := moved()
	m, _ := switched.Move("m1")
	for _, first := range []int64{0, 101} {
		fmt.Println(move.Forgettable(m, func(int32) (int64, bool) { return first, true }))
	}
	// Output:
	// false
	// true
}

func ExampleElsewhere() {
	_, _, switched := moved()
	m, _ := switched.Move("m1")
	for _, end := range []int64{7, 101} {
		fmt.Println(move.Elsewhere(m, func(int32) (int64, bool) { return end, true }))
	}
	// Output:
	// true
	// false
}
