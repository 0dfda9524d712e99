package stale

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestALetterTellsWhatWorkersWrote(t *testing.T) {
	route := routing.RouteHeader{Kind: routing.KindTenant, Epoch: 3, Session: [16]byte{1, 2}, Seq: 9}
	why := consumer.Staleness{Reason: consumer.StaleEpoch, Move: "00ff", Fence: 41, Epoch: 4}
	for name, key := range map[string][]byte{"key": []byte("acme"), "empty key": {}, "no key": nil} {
		t.Run(name, func(t *testing.T) {
			r := &kgo.Record{
				Topic: "orders", Partition: 3, Offset: 44, Key: key, Value: []byte("v"),
				Headers: []kgo.RecordHeader{{Key: "own", Value: []byte("h")}, {Key: routing.HeaderRoute, Value: route.Append(nil)}},
			}
			l, err := Parse(consumer.Quarantined(r, "orders"+consumer.QuarantineSuffix, "billing", why))
			if err != nil {
				t.Fatal(err)
			}
			if l.Origin != (consumer.Place{Topic: "orders", Partition: 3, Offset: 44}) || l.Group != "billing" || l.At.IsZero() ||
				l.Staleness != why || !l.Stamped || l.Route != route || l.Partition != 3 {
				t.Errorf("%+v", l)
			}
			want := &kgo.Record{Topic: "orders", Key: key, Value: r.Value, Headers: r.Headers}
			got := l.original()
			if diff := cmp.Diff([]any{want.Topic, want.Key, want.Value, want.Headers}, []any{got.Topic, got.Key, got.Value, got.Headers}); diff != "" {
				t.Errorf("the record of before (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNoLetterSaysWhy(t *testing.T) {
	reason := kgo.RecordHeader{Key: consumer.HeaderStaleReason, Value: []byte(consumer.StaleEpoch)}
	for name, r := range map[string]*kgo.Record{
		"no key":         {Headers: []kgo.RecordHeader{reason}},
		"two parts":      {Key: []byte("orders/3"), Headers: []kgo.RecordHeader{reason}},
		"no topic":       {Key: []byte("/3/4"), Headers: []kgo.RecordHeader{reason}},
		"leading zero":   {Key: []byte("orders/03/4"), Headers: []kgo.RecordHeader{reason}},
		"negative":       {Key: []byte("orders/-3/4"), Headers: []kgo.RecordHeader{reason}},
		"no reason":      {Key: []byte("orders/3/4")},
		"fence in words": {Key: []byte("orders/3/4"), Headers: []kgo.RecordHeader{reason, {Key: consumer.HeaderStaleFence, Value: []byte("one")}}},
	} {
		t.Run(name, func(t *testing.T) {
			if l, err := Parse(r); err == nil {
				t.Errorf("%+v", l)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("orders/3/4"), consumer.HeaderStaleReason, []byte(consumer.StaleEpoch))
	f.Fuzz(func(t *testing.T, key []byte, name string, value []byte) {
		l, err := Parse(&kgo.Record{Key: key, Headers: []kgo.RecordHeader{
			{Key: consumer.HeaderStaleReason, Value: []byte("r")}, {Key: name, Value: value},
		}})
		if err == nil && l.Origin.String() != string(key) {
			t.Errorf("%q read as %v", key, l.Origin)
		}
	})
}
