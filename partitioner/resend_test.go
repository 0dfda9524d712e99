package partitioner

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func TestARecordThatIsSentAgainKeepsItsIdentity(t *testing.T) {
	c := cluster(t, 4)
	src := store.Fixed(tableOf(t, routing.TopicSpec{
		Partitions: 4, Epoch: 7, Placements: map[string]routing.Placement{"acme": {Partitions: []int32{3}, Epoch: 7}},
	}))
	p := producing(t, c, src, ProducerConfig{})
	theirs := [16]byte{1, 2, 3}
	old := routing.RouteHeader{Kind: routing.KindSlot, Epoch: 2, Session: theirs, Seq: 41}
	r := record("acme", "again")
	r.Headers = []kgo.RecordHeader{{Key: routing.HeaderRoute, Value: old.Append(nil)}, {Key: "own", Value: []byte("h")}}
	if err := p.Resend(patient(t), r, theirs, 41); err != nil || r.Partition != 3 {
		t.Fatalf("to partition %d, %v", r.Partition, err)
	}
	if err := p.ProduceSync(patient(t), record("acme", "new")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	reader := clientOf(t, c, kgo.ConsumeTopics("orders"))
	var got []*kgo.Record
	for len(got) < 2 {
		fetches := reader.PollFetches(patient(t))
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		got = append(got, fetches.Records()...)
	}
	stampOf := func(r *kgo.Record) (stamps []routing.RouteHeader) {
		for _, h := range r.Headers {
			if h.Key == routing.HeaderRoute {
				stamp, err := routing.ParseRouteHeader(h.Value)
				if err != nil {
					t.Fatal(err)
				}
				stamps = append(stamps, stamp)
			}
		}
		return stamps
	}
	want := routing.RouteHeader{Kind: routing.KindTenant, Epoch: 7, Session: theirs, Seq: 41}
	if stamps := stampOf(got[0]); len(stamps) != 1 || stamps[0] != want || len(got[0].Headers) != 3 {
		t.Errorf("stamps %+v, want %+v, headers %v", stamps, want, got[0].Headers)
	}
	if stamps := stampOf(got[1]); len(stamps) != 1 || stamps[0].Session != p.Session() || stamps[0].Seq != 1 {
		t.Errorf("stamps %+v", stamps)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Resend(ended, record("acme", "late"), theirs, 42); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
