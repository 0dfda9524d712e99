package refetch_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/consumer/refetch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topic = "orders"

func brokers(t *testing.T, nodes int) (*kfake.Cluster, *refetch.Reader) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(nodes), kfake.SeedTopics(2, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r, err := refetch.New(true, kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return c, r
}

func produce(t *testing.T, c *kfake.Cluster, n int, opts ...kgo.Opt) {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(10_000))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range n {
		r := &kgo.Record{Topic: topic, Partition: 1, Value: fmt.Appendf(nil, "%d", i)}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// readAll reads a partition to its end and checks that offsets ascend.
func readAll(t *testing.T, r *refetch.Reader, from int64, maxBytes int32) []*kgo.Record {
	t.Helper()
	var all []*kgo.Record
	for {
		c, err := r.Read(t.Context(), topic, 1, from, maxBytes)
		if err != nil {
			t.Fatalf("reading at %d: %v", from, err)
		}
		if c.AtEnd {
			return all
		}
		for _, rec := range c.Records {
			if rec.Offset < from || rec.Offset >= c.Next {
				t.Fatalf("offset %d is outside [%d, %d)", rec.Offset, from, c.Next)
			}
			from = rec.Offset + 1
		}
		from = c.Next
		all = append(all, c.Records...)
	}
}

func TestReadGoesThroughALogFromAnyOffset(t *testing.T) {
	c, r := brokers(t, 1)
	produce(t, c, 50)
	for _, from := range []int64{0, 1, 17, 49} {
		for _, maxBytes := range []int32{1, 200, 1 << 20} {
			all := readAll(t, r, from, maxBytes)
			if len(all) != 50-int(from) || all[0].Offset != from || string(all[0].Value) != fmt.Sprint(from) || all[0].Topic != topic {
				t.Fatalf("from %d by %d bytes: %d records, first %+v", from, maxBytes, len(all), all[0])
			}
		}
	}
}

func TestReadFollowsTheLeader(t *testing.T) {
	c, r := brokers(t, 3)
	produce(t, c, 5)
	if n := len(readAll(t, r, 0, 1<<20)); n != 5 {
		t.Fatalf("%d records", n)
	}
	was := c.LeaderFor(topic, 1)
	if err := c.MoveTopicPartition(topic, 1, (was+1)%3); err != nil {
		t.Fatal(err)
	}
	if n := len(readAll(t, r, 0, 1<<20)); n != 5 {
		t.Errorf("%d records after the leader moved", n)
	}
}

func TestReadOfADeletedOffsetNamesTheLogStart(t *testing.T) {
	c, r := brokers(t, 1)
	produce(t, c, 10)
	if err := c.DeleteRecords(topic, 1, 6); err != nil {
		t.Fatal(err)
	}
	_, err := r.Read(t.Context(), topic, 1, 2, 1<<20)
	out, ok := errors.AsType[*refetch.ErrOutOfRange](err)
	if !ok || out.Offset != 2 || out.Partition != 1 {
		t.Fatalf("got %v", err)
	}
	if out.Start != 6 && out.Start != -1 {
		t.Errorf("log start %d, want 6 or unknown", out.Start)
	}
}

func TestReadHidesAbortedTransactions(t *testing.T) {
	c, r := brokers(t, 1)
	tx, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := tx.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: 1, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := tx.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	var data, control int
	for _, rec := range readAll(t, r, 0, 1<<20) {
		if rec.Attrs.IsControl() {
			control++
		} else {
			data++
		}
	}
	if data != 1 || control != 2 {
		t.Errorf("%d records and %d markers, want 1 and 2", data, control)
	}
}

func TestReadOfAMissingTopicIsAnError(t *testing.T) {
	_, r := brokers(t, 1)
	if _, err := r.Read(t.Context(), "no-such-topic", 0, 0, 1<<20); err == nil {
		t.Error("no error")
	}
}
