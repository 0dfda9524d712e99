package rebalance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// patience is when a test that hangs gives up. Nothing is measured by it.
const patience = 30 * time.Second

func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// world is a broker, a table's file, and producers over it.
type world struct {
	t        testing.TB
	cluster  *kfake.Cluster
	path     string
	file     *store.File
	client   *kgo.Client
	producer *partitioner.Producer
}

const table = `
version: 1
revision: 1
topics:
  orders: {partitions: 4, slots: 16, epoch: 1, placements: {acme: {partitions: [0], epoch: 1}}}
`

func newWorld(t testing.TB) *world {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	w := &world{t: t, cluster: cluster, path: filepath.Join(t.TempDir(), "routing.yaml")}
	if err := os.WriteFile(w.path, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	w.file = w.open()
	w.client = w.newClient()
	w.producer = w.newProducer(w.file)
	return w
}

func (w *world) open() *store.File {
	w.t.Helper()
	f, err := store.OpenFile(context.Background(), w.path, store.FileConfig{Interval: 5 * time.Millisecond})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = f.Close() })
	return f
}

func (w *world) newClient(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.MetadataMinAge(20 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

func (w *world) newProducer(src store.Source) *partitioner.Producer {
	w.t.Helper()
	client := w.newClient(append(partitioner.ClientOpts(src, partitioner.Config{}), kgo.ProducerLinger(0))...)
	p, err := partitioner.NewProducer(client, src, partitioner.ProducerConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.Close(ctx)
	})
	return p
}

func (w *world) coordinator(table TableStore, producers ...Pauser) *Coordinator {
	w.t.Helper()
	if len(producers) == 0 {
		producers = []Pauser{w.producer}
	}
	c, err := NewCoordinator(CoordinatorConfig{Client: w.client, Table: table, Producers: producers, Poll: 2 * time.Millisecond})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) produce(values ...any) {
	w.t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: "orders", Key: []byte("acme"), Value: fmt.Append(nil, v)}
		if err := w.producer.ProduceSync(patient(w.t), r).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// commit sets a group's commit in a partition of orders.
func (w *world) commit(group string, partition int32, at int64) {
	w.t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset("orders", partition, at, -1)
	if err := kadm.NewClient(w.client).CommitAllOffsets(patient(w.t), group, offsets); err != nil {
		w.t.Fatal(err)
	}
}

// home wants the tenant's next record to go to a partition.
func (w *world) home(want int32) {
	w.t.Helper()
	r := &kgo.Record{Topic: "orders", Key: []byte("acme"), Value: []byte("where")}
	if _, err := w.producer.ProduceSync(patient(w.t), r).First(); err != nil || r.Partition != want {
		w.t.Errorf("the tenant's record went to partition %d, want %d (%v)", r.Partition, want, err)
	}
}

// aborted wants a move to leave everything as it was.
func (w *world) aborted(report Report, err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) || report.State != StateAborted || report.Revision != 0 {
		w.t.Errorf("%+v, %v", report, err)
	}
	if got := w.file.Table().Revision(); got != 1 {
		w.t.Errorf("the table has revision %d", got)
	}
	w.home(0)
}

// restart is the next process: a new view of the file and a new producer.
func (w *world) restart() {
	w.t.Helper()
	w.file = w.open()
	w.producer = w.newProducer(w.file)
}
