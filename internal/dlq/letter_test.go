package dlq

import (
	"bytes"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/consumer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// headers makes record headers of name, value, name, value, …
func headers(pairs ...string) []kgo.RecordHeader {
	var all []kgo.RecordHeader
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return all
}

// round is what dead-lettering adds.
func round(offset, why string) []kgo.RecordHeader {
	return headers(consumer.HeaderDeadError, why, consumer.HeaderDeadAttempts, "3", consumer.HeaderDeadGroup, "billing",
		consumer.HeaderDeadTopic, "orders", consumer.HeaderDeadPartition, "5", consumer.HeaderDeadOffset, offset, consumer.HeaderDeadTime, "1700000000000")
}

func TestALetterTellsWhereItLay(t *testing.T) {
	l, err := Parse(&kgo.Record{Headers: append(headers("tl-route", "x"), round("17", "boom")...)})
	want := consumer.Place{Topic: "orders", Partition: 5, Offset: 17}
	if err != nil || l.Origin != want || l.Error != "boom" || l.Attempts != 3 || l.Group != "billing" || !l.At.Equal(time.UnixMilli(1700000000000)) {
		t.Errorf("%+v, %v", l, err)
	}
	for _, wrong := range [][]kgo.RecordHeader{
		nil,
		headers("tl-route", "x"),
		round("17", "x")[:4],
		round("-1", "x"),
		round("x", "x"),
		round("99999999999999999999", "x"),
		append(round("17", "x"), headers(consumer.HeaderDeadPartition, "4294967296")...),
	} {
		if l, err := Parse(&kgo.Record{Headers: wrong}); err == nil {
			t.Errorf("%v is taken for a letter: %+v", wrong, l)
		}
	}
}

func TestAReplayKeepsTheRecordAndSaysThatItIsOne(t *testing.T) {
	first := append(headers("tl-route", "x", "trace", "y"), round("17", "boom")...)
	l, err := Parse(&kgo.Record{Topic: "orders.tl-dlq", Partition: 5, Offset: 2, Key: []byte("acme"), Value: nil, Headers: first})
	if err != nil {
		t.Fatal(err)
	}
	again := l.replay()
	if again.Topic != "orders" || again.Partition != 5 || string(again.Key) != "acme" || again.Value != nil || len(again.Headers) != len(first)+1 {
		t.Errorf("%+v", again)
	}
	// It fails again, and is replayed again: it must not grow.
	l, err = Parse(&kgo.Record{Topic: "orders.tl-dlq", Partition: 5, Offset: 9, Key: []byte("acme"), Headers: append(again.Headers, round("40", "boom again")...)})
	if err != nil || l.Origin.Offset != 40 || l.Error != "boom again" || l.Replays != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	third := l.replay()
	if len(third.Headers) != len(first)+2 {
		t.Errorf("%d headers after two rounds: %v", len(third.Headers), third.Headers)
	}
	r := &consumer.Record{Record: third}
	if group, is := r.ReplayOf(); !is || group != "billing" {
		t.Errorf("%q, %v", group, is)
	}
	if !bytes.Equal(third.Headers[len(third.Headers)-1].Value, []byte("orders.tl-dlq/5/9")) {
		t.Errorf("%v", third.Headers)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("orders", "5", "17", "3", "1700000000000")
	f.Add("", "-1", "", "x", "9223372036854775807")
	f.Fuzz(func(t *testing.T, topic, partition, offset, attempts, at string) {
		l, err := Parse(&kgo.Record{Headers: headers(consumer.HeaderDeadTopic, topic, consumer.HeaderDeadPartition, partition,
			consumer.HeaderDeadOffset, offset, consumer.HeaderDeadAttempts, attempts, consumer.HeaderDeadTime, at)})
		if err == nil && (l.Origin.Topic == "" || l.Origin.Partition < 0 || l.Origin.Offset < 0) {
			t.Errorf("%+v is a letter of nowhere", l)
		}
	})
}

func TestALetterIsNoMark(t *testing.T) {
	for _, r := range []*kgo.Record{
		{Key: []byte("k"), Headers: headers(HeaderReplayed, "1")},
		{Value: []byte("v"), Headers: headers(HeaderReplayed, "1")},
		{Headers: round("1", "x")},
	} {
		if _, is := markOf(r); is {
			t.Errorf("%+v is taken for a mark", r)
		}
	}
}
