package move

import (
	"slices"
	"testing"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// A course is told what happened, as text, and must then want an action.
func TestCoordination(t *testing.T) {
	open := &routing.Move{ID: "m", From: []int32{5, 2}}
	done := &routing.Move{ID: "m", From: []int32{5, 2}, State: routing.MoveSwitched, Fences: []routing.Fence{{Partition: 2, Offset: 7}, {Partition: 5, Offset: 9}}}
	events := map[string]func(*Coordination){
		"prepared": func(c *Coordination) { c.Prepared(open) }, "refused": (*Coordination).Refuse,
		"drained": (*Coordination).Drained, "fenced": func(c *Coordination) { c.Fenced(7) },
		"committed": (*Coordination).Committed, "unconfirmed": (*Coordination).Unconfirmed,
		"give up": (*Coordination).GiveUp, "saw open": func(c *Coordination) { c.Saw(open) },
		"saw nothing": func(c *Coordination) { c.Saw(nil) }, "saw switched": func(c *Coordination) { c.Saw(done) },
	}
	toSwitch := []string{"prepared", "drained", "fenced", "fenced"}
	for _, c := range []struct {
		happened []string
		want     Action
		outcome  Outcome
	}{
		{nil, Prepare, Unfinished},
		{[]string{"refused"}, Stop, Refused},
		{[]string{"give up"}, Stop, Refused},
		{[]string{"unconfirmed"}, Look, Unfinished},
		{[]string{"unconfirmed", "saw nothing"}, Stop, Refused},
		{[]string{"unconfirmed", "saw open"}, AwaitDrained, Unfinished},
		{[]string{"unconfirmed", "give up"}, Look, Unfinished},
		{[]string{"unconfirmed", "give up", "saw open"}, Abort, Unfinished},
		{[]string{"unconfirmed", "give up", "saw nothing"}, Stop, Aborted},
		{[]string{"saw nothing"}, Prepare, Unfinished},
		{[]string{"prepared"}, AwaitDrained, Unfinished},
		{[]string{"prepared", "committed"}, AwaitDrained, Unfinished},
		{[]string{"prepared", "fenced"}, AwaitDrained, Unfinished},
		{[]string{"prepared", "saw nothing"}, Stop, Aborted},
		{[]string{"prepared", "give up"}, Abort, Unfinished},
		{[]string{"prepared", "give up", "committed"}, Stop, Aborted},
		{[]string{"prepared", "give up", "refused"}, Look, Unfinished},
		{[]string{"prepared", "give up", "refused", "saw nothing"}, Stop, Aborted},
		{[]string{"prepared", "drained"}, WriteFence, Unfinished},
		{[]string{"prepared", "drained", "fenced"}, WriteFence, Unfinished},
		{[]string{"prepared", "drained", "fenced", "give up"}, Abort, Unfinished},
		{toSwitch, Switch, Unfinished},
		{append(slices.Clone(toSwitch), "committed"), Stop, Switched},
		{append(slices.Clone(toSwitch), "refused", "saw nothing"), Stop, Aborted},
		{append(slices.Clone(toSwitch), "unconfirmed", "saw open"), Switch, Unfinished},
		{append(slices.Clone(toSwitch), "unconfirmed", "saw switched"), Stop, Switched},
		{append(slices.Clone(toSwitch), "unconfirmed", "give up", "saw switched"), Stop, Switched},
		{append(slices.Clone(toSwitch), "committed", "give up", "unconfirmed", "saw nothing"), Stop, Switched},
	} {
		course := Coordinate("m")
		for _, what := range c.happened {
			events[what](&course)
		}
		if got, _ := course.Next(); got != c.want || course.Outcome() != c.outcome {
			t.Errorf("after %q: %v, %v, want %v, %v", c.happened, got, course.Outcome(), c.want, c.outcome)
		}
	}
}

func TestEachPartitionOfASpreadTenantGetsItsFence(t *testing.T) {
	course := Coordinate("m")
	course.Prepared(&routing.Move{From: []int32{5, 2}})
	course.Drained()
	for _, want := range []int32{2, 5} {
		if a, partition := course.Next(); a != WriteFence || partition != want {
			t.Errorf("%v in %d, want a fence in %d", a, partition, want)
		}
		course.Fenced(int64(want) * 10)
	}
	want := []routing.Fence{{Partition: 2, Offset: 20}, {Partition: 5, Offset: 50}}
	if got := course.Fences(); !slices.Equal(got, want) {
		t.Errorf("fences %v, want %v", got, want)
	}
}

func TestUnwrappedTopicsHaveNothingStale(t *testing.T) {
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{topicName: {Partitions: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	topic, _ := table.Topic(topicName)
	from := topic.Lookup(tenantName, nil).Partition
	table = edited(table, tableMove{state: routing.MoveSwitched, from: int8(from), to: int8(from ^ 1), x: 3})
	topic, _ = table.Topic(topicName)
	r := Placed{Tenant: tenantName, Partition: from, Offset: 9}
	if Stale(topic, r) {
		t.Error("a record without the wrapper is stale where producers may lack it")
	}
	table, err = table.Edit(routing.SetProducers(topicName, true))
	if err != nil {
		t.Fatal(err)
	}
	if topic, _ = table.Topic(topicName); !Stale(topic, r) {
		t.Error("a record without the wrapper behind a fence is not stale")
	}
}

// A slot's fence ends what was routed by the slot, a tenant's fence all that the
// tenant sent.
func TestAFenceEndsItsUnitOnly(t *testing.T) {
	p := Partition{holds: []hold{
		{move: "a", unit: routing.Unit{Slots: []int32{3, 8}}, offset: 10},
		{move: "b", unit: routing.Unit{Tenant: "acme"}, offset: 20},
	}}
	for _, c := range []struct {
		r    Placed
		held bool
	}{
		{Placed{Tenant: []byte("x"), Slot: 8, Offset: 11}, true},
		{Placed{Tenant: []byte("x"), Slot: 8, Offset: 9}, false},
		{Placed{Tenant: []byte("x"), Slot: 8, Kind: routing.KindTenant, Offset: 11}, false},
		{Placed{Tenant: []byte("x"), Slot: 7, Offset: 11}, false},
		{Placed{Tenant: []byte("acme"), Slot: 7, Offset: 19}, false},
		{Placed{Tenant: []byte("acme"), Slot: 7, Offset: 21}, true},
		{Placed{Tenant: []byte("acme"), Slot: 7, Kind: routing.KindSpreadKey, Offset: 21}, true},
	} {
		held := slices.ContainsFunc(p.holds, func(h hold) bool { return h.covers(c.r) })
		if held != c.held {
			t.Errorf("%+v: held is %v", c.r, held)
		}
	}
	if at, ok := p.Unfinished(); !ok || at != 10 {
		t.Errorf("unfinished from %d, %v", at, ok)
	}
}
