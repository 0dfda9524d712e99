package move

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// crowd is a topic in which many moves have ended, and one is open: of the
// tenant open.
func crowd(b testing.TB, moves int) *routing.Topic {
	b.Helper()
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{topicName: {Partitions: 64, Wrapped: true}}})
	if err != nil {
		b.Fatal(err)
	}
	edits := []routing.Edit{}
	for i := range moves {
		topic, _ := table.Topic(topicName)
		id, tenant := fmt.Sprint("m", i), fmt.Sprint("tenant-", i)
		from := topic.Lookup([]byte(tenant), nil).Partition
		edits = append(edits,
			routing.PrepareMove(topicName, routing.Move{ID: id, Tenant: tenant, To: []int32{from ^ 1}, Deadline: time.Unix(30, 0)}),
			routing.SwitchMove(topicName, id, []routing.Fence{{Partition: from, Offset: 1000}}))
	}
	if moves > 0 {
		edits = append(edits, routing.PrepareMove(topicName, routing.Move{ID: "open", Tenant: "open", To: []int32{1}, Deadline: time.Unix(30, 0)}))
	}
	if table, err = table.Edit(edits...); err != nil {
		b.Fatal(err)
	}
	topic, _ := table.Topic(topicName)
	return topic
}

func record0(tenant string, topic *routing.Topic, offset int64) Placed {
	r := topic.Lookup([]byte(tenant), nil)
	return Placed{Tenant: []byte(tenant), Slot: r.Slot, Kind: r.Kind, Epoch: r.Epoch, Partition: r.Partition, Offset: offset}
}

// hot are the functions that every record costs.
var hot = map[string]func(*routing.Topic, Placed, []Home) bool{
	"Late":    func(t *routing.Topic, r Placed, _ []Home) bool { return Late(t, r) == Acknowledge },
	"Stale":   func(t *routing.Topic, r Placed, _ []Home) bool { return Stale(t, r) },
	"Behind":  func(t *routing.Topic, r Placed, _ []Home) bool { return Behind(t, r) },
	"Earlier": func(t *routing.Topic, r Placed, dst []Home) bool { return len(Earlier(t, r, dst)) > 0 },
	"Judge": func(t *routing.Topic, r Placed, dst []Home) bool {
		p := Partition{}
		v, _ := p.Judge(t, r, false, dst)
		return v == Run
	},
}

func TestTheHotPathAllocatesNothing(t *testing.T) {
	for _, moves := range []int{0, 1000} {
		topic := crowd(t, moves)
		for _, name := range slices.Sorted(maps.Keys(hot)) {
			f := hot[name]
			for _, tenant := range []string{"tenant-7", "never moved"} {
				r, room := record0(tenant, topic, 2000), make([]Home, 0, 8)
				if n := testing.AllocsPerRun(100, func() { f(topic, r, room) }); n != 0 {
					t.Errorf("%s of %q with %d moves: %v allocations", name, tenant, moves, n)
				}
			}
		}
	}
}

func Benchmark(b *testing.B) {
	for _, moves := range []int{0, 1000} {
		topic := crowd(b, moves)
		for _, name := range slices.Sorted(maps.Keys(hot)) {
			f := hot[name]
			for _, tenant := range []string{"tenant-7", "never moved"} {
				b.Run(fmt.Sprintf("%s/moves=%d/%s", name, moves, tenant), func(b *testing.B) {
					r, room := record0(tenant, topic, 2000), make([]Home, 0, 8)
					b.ReportAllocs()
					for b.Loop() {
						f(topic, r, room)
					}
				})
			}
		}
	}
}
