package sample_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/sample"
)

func TestTailVisitsEveryRecordOfTheEnd(t *testing.T) {
	t.Parallel()
	_, client := broker(t)
	produce(t, client, 0, "acme", 50)
	produce(t, client, 1, "globex", 5)
	// Small fetches, so that a span takes several.
	r, err := sample.NewReader(client, sample.Config{MaxBytes: 256})
	if err != nil {
		t.Fatal(err)
	}
	spans, err := r.Tail(t.Context(), "orders", 20)
	if err != nil || len(spans) != 2 {
		t.Fatalf("spans %+v, %v", spans, err)
	}
	for _, want := range []sample.Span{{Partition: 0, From: 30, To: 50}, {Partition: 1, From: 0, To: 5}} {
		span := spans[want.Partition]
		if span != want {
			t.Errorf("span %+v, want %+v", span, want)
		}
		next := span.From
		if err := r.Range(t.Context(), "orders", span, func(rec *kgo.Record) bool {
			if rec.Offset != next || rec.Partition != span.Partition {
				t.Errorf("visited partition %d offset %d, want %d", rec.Partition, rec.Offset, next)
			}
			next++
			return true
		}); err != nil || next != span.To {
			t.Errorf("visited up to %d, %v, want %d", next, err, span.To)
		}
	}
}

func TestRangeStopsWhenItIsTold(t *testing.T) {
	t.Parallel()
	_, client := broker(t)
	produce(t, client, 0, "acme", 50)
	n := 0
	span := sample.Span{Partition: 0, From: 0, To: 50}
	if err := reader(t, client).Range(t.Context(), "orders", span, func(*kgo.Record) bool { n++; return n < 7 }); err != nil || n != 7 {
		t.Errorf("visited %d records, %v, want 7", n, err)
	}
}

func TestTailPassesTransactionMarkersAtTheEnd(t *testing.T) {
	t.Parallel()
	_, client := broker(t, kgo.TransactionalID("tail"))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, client, 0, "acme", 3)
	if err := client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	n := 0
	span := sample.Span{Partition: 0, From: 0, To: 4} // three records and the marker
	if err := reader(t, client).Range(t.Context(), "orders", span, func(*kgo.Record) bool { n++; return true }); err != nil || n != 3 {
		t.Errorf("visited %d records, %v, want 3", n, err)
	}
}

func TestRangeSkipsWhatRetentionDeleted(t *testing.T) {
	t.Parallel()
	_, client := broker(t)
	produce(t, client, 0, "acme", 10)
	gone := kadm.Offsets{}
	gone.Add(kadm.Offset{Topic: "orders", Partition: 0, At: 6})
	if deleted, err := kadm.NewClient(client).DeleteRecords(t.Context(), gone); err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	n := 0
	span := sample.Span{Partition: 0, From: 2, To: 10}
	if err := reader(t, client).Range(t.Context(), "orders", span, func(*kgo.Record) bool { n++; return true }); err != nil || n != 4 {
		t.Errorf("visited %d records, %v, want the 4 that are left", n, err)
	}
}

func TestTailNamesAnUnknownTopic(t *testing.T) {
	t.Parallel()
	_, client := broker(t)
	if _, err := reader(t, client).Tail(t.Context(), "orderz", 1); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("error %v, want that the topic is unknown", err)
	}
}

func TestMeasureCountsWhatArrives(t *testing.T) {
	t.Parallel()
	_, client := broker(t)
	produce(t, client, 0, "before", 100)
	measuring, done := context.WithCancel(t.Context())
	defer done()
	var producer sync.WaitGroup
	producer.Go(func() {
		for measuring.Err() == nil {
			produce(t, client, 0, "acme", 30)
			produce(t, client, 1, "globex", 10)
		}
	})
	counts, err := reader(t, client).Measure(t.Context(), "orders", 300*time.Millisecond, 16, func(r *kgo.Record) ([]byte, bool) {
		return r.Key, r.Key != nil
	})
	done()
	producer.Wait()
	if err != nil {
		t.Fatal(err)
	}
	top := counts.Top(3)
	if len(top) != 2 || top[0].Key != "acme" || top[1].Key != "globex" {
		t.Errorf("counted %+v, want acme before globex and nobody else", top)
	}
}
