package partitioner

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func TestNewProducerRefusesClientsThatBreakItsPromises(t *testing.T) {
	c := cluster(t, 1)
	src := store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1}))
	own := ClientOpts(src, Config{})
	for want, opts := range map[string][]kgo.Opt{
		"ClientOpts":                         {},
		"partitioner.ClientOpts":             {kgo.RecordPartitioner(kgo.ManualPartitioner())},
		"HonorPartition":                     ClientOpts(src, Config{HonorPartition: true}),
		"DisableIdempotentWrite":             append(own, kgo.DisableIdempotentWrite()),
		"AllowIdempotentProduceCancellation": append(own, kgo.AllowIdempotentProduceCancellation()),
		"DefaultProduceTopicAlways":          append(own, kgo.DefaultProduceTopic("orders"), kgo.DefaultProduceTopicAlways()),
		"ManualFlushing":                     append(own, kgo.ManualFlushing()),
	} {
		t.Run(want, func(t *testing.T) {
			p, err := NewProducer(clientOf(t, c, opts...), src, ProducerConfig{})
			if err == nil {
				t.Fatal(p.Close(patient(t)))
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not name %s", err, want)
			}
		})
	}
}

func TestProducerConfigNamesTheField(t *testing.T) {
	c := cluster(t, 1)
	src := store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1}))
	opts := append(ClientOpts(src, Config{}), kgo.MaxBufferedRecords(100), kgo.MaxBufferedBytes(1000))
	for want, cfg := range map[string]ProducerConfig{
		"MaxRecords is 101":        {MaxRecords: 101},
		"MaxBytes is 1001":         {MaxBytes: 1001},
		"MaxTenantRecords is -1":   {MaxTenantRecords: -1},
		"MaxTenantBytes is -1":     {MaxTenantBytes: -1},
		"MaxPartitionRecords":      {MaxPartitionRecords: -1},
		"MaxPartitionBytes":        {MaxPartitionBytes: -1},
		"MaxQueuedRecords":         {MaxQueuedRecords: -1},
		"MaxQueuedBytes":           {MaxQueuedBytes: -1},
		"PartitionWait is -1":      {PartitionWait: -1},
		"OnFull is 7":              {OnFull: 7},
		"the client's MaxBuffered": {MaxRecords: 101},
	} {
		t.Run(want, func(t *testing.T) {
			_, err := NewProducer(clientOf(t, c, opts...), src, cfg)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestStampsSayHowARecordWasRouted(t *testing.T) {
	c := cluster(t, 8, kfake.SeedTopics(2, "orders-interactive"))
	slot := func(tenant string) routing.Route {
		topic, _ := tableOf(t, routing.TopicSpec{Partitions: 8}).Topic("orders")
		return topic.Lookup([]byte(tenant), nil)
	}("ordinary")
	src := store.Fixed(tableWith(t, map[string]routing.TopicSpec{
		"orders": {
			Partitions: 8, Epoch: 9, TenantOf: routing.TenantRule{From: routing.FromPrefix, Arg: "/"},
			SlotOverrides: map[int32]routing.SlotPlacement{slot.Slot: {Partition: 6, Epoch: 2}},
			Placements: map[string]routing.Placement{
				"whale":    {Partitions: []int32{5}, Epoch: 3},
				"split":    {Partitions: []int32{1, 2, 3}, Spread: routing.SpreadKey, Epoch: 4},
				"counter":  {Partitions: []int32{4}, Spread: routing.SpreadRandom, Epoch: 7},
				"umbrella": {Topic: "orders-interactive", Epoch: 8},
				"away":     {Topic: "elsewhere", Epoch: 9},
			},
		},
		"orders-interactive": {
			Partitions: 2, TenantOf: routing.TenantRule{From: routing.FromPrefix, Arg: "/"},
			Placements: map[string]routing.Placement{"umbrella": {Partitions: []int32{1}, Epoch: 6}},
		},
	}))
	p := producing(t, c, src, ProducerConfig{})
	split, _ := src.Table().Topic("orders")
	for _, want := range []struct {
		key, topic string
		partition  int32
		kind       routing.Kind
		epoch      uint64
	}{
		{"ordinary/1", "orders", 6, routing.KindSlot, 2},
		{"whale/1", "orders", 5, routing.KindTenant, 3},
		{"split/17", "orders", split.Lookup([]byte("split"), []byte("split/17")).Partition, routing.KindSpreadKey, 4},
		{"counter/1", "orders", 4, routing.KindSpreadRandom, 7},
		{"umbrella/1", "orders-interactive", 1, routing.KindTenant, 6},
	} {
		r := &kgo.Record{Topic: "orders", Key: []byte(want.key)}
		if err := p.ProduceSync(patient(t), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if r.Topic != want.topic || r.Partition != want.partition {
			t.Errorf("%s went to %s/%d, want %s/%d", want.key, r.Topic, r.Partition, want.topic, want.partition)
		}
	}
	seq := uint64(0)
	for _, topic := range []string{"orders", "orders-interactive"} {
		for _, r := range read(t, c, topic, map[string]int{"orders": 4, "orders-interactive": 1}[topic]) {
			seq++
			stamp, err := routing.ParseRouteHeader([]byte(header(r, routing.HeaderRoute)[0]))
			if err != nil || stamp.Session != p.Session() || stamp.Seq < 1 || stamp.Seq > 5 {
				t.Errorf("stamp %+v of %s: %v", stamp, r.Key, err)
			}
		}
	}
	if seq != 5 {
		t.Errorf("%d records", seq)
	}
}

func TestATenantWithoutAKeyToSpreadByIsRefused(t *testing.T) {
	c := cluster(t, 3)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{
		Partitions: 3, TenantOf: routing.TenantRule{From: routing.FromHeader, Arg: "tenant"},
		Placements: map[string]routing.Placement{"split": {Partitions: []int32{0, 1}, Spread: routing.SpreadKey, Epoch: 1}},
	})), ProducerConfig{})
	r := &kgo.Record{Topic: "orders", Headers: []kgo.RecordHeader{{Key: "tenant", Value: []byte("split")}}}
	if err := p.ProduceSync(patient(t), r).FirstErr(); !errors.Is(err, ErrNoKey) {
		t.Errorf("error is %v", err)
	}
}

func TestARecordWithoutATenant(t *testing.T) {
	c := cluster(t, 3)
	src := store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 3, Shared: []int32{1}}))
	refusing := producing(t, c, src, ProducerConfig{})
	err := refusing.ProduceSync(patient(t), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr()
	if !errors.Is(err, ErrNoTenant) {
		t.Errorf("error is %v", err)
	}
	client := clientOf(t, c, ClientOpts(src, Config{OnNoTenant: SpreadNoTenant})...)
	spreading, err := NewProducer(client, src, ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = spreading.Close(patient(t)) }()
	r, err := spreading.ProduceSync(patient(t), &kgo.Record{Topic: "orders", Value: []byte("x")}).First()
	if err != nil || r.Partition != 1 {
		t.Errorf("partition %d, %v", r.Partition, err)
	}
}

func TestATopicOutsideTheTableIsLeftAsItIs(t *testing.T) {
	c := cluster(t, 3, kfake.SeedTopics(12, "elsewhere"))
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 3})), ProducerConfig{})
	bare := clientOf(t, c)
	for i := range 20 {
		r, theirs := record("k", i), record("k", i)
		r.Topic, theirs.Topic = "elsewhere", "elsewhere"
		if err := errors.Join(p.ProduceSync(patient(t), r).FirstErr(), bare.ProduceSync(patient(t), theirs).FirstErr()); err != nil {
			t.Fatal(err)
		}
		if r.Partition != theirs.Partition {
			t.Errorf("went to %d, the bare client's to %d", r.Partition, theirs.Partition)
		}
	}
	if got := read(t, c, "elsewhere", 1)[0]; len(got.Headers) != 0 {
		t.Errorf("headers %v", got.Headers)
	}
}

func TestHeadersThatActAreRefusedAndOldStampsDropped(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{})
	r := record("acme", 1)
	r.Headers = []kgo.RecordHeader{{Key: routing.HeaderControl, Value: []byte{1, 1}}}
	if err := p.ProduceSync(patient(t), r).FirstErr(); !errors.Is(err, ErrReservedHeader) {
		t.Errorf("error is %v", err)
	}
	r.Headers = []kgo.RecordHeader{
		{Key: routing.HeaderRoute, Value: []byte("of another place")},
		{Key: routing.HeaderTime, Value: []byte("1600000000000")},
		{Key: "app", Value: []byte("x")},
	}
	if err := p.ProduceSync(patient(t), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got := read(t, c, "orders", 1)[0]
	routes, times := header(got, routing.HeaderRoute), header(got, routing.HeaderTime)
	if len(routes) != 1 || routes[0] == "of another place" || len(times) != 1 || times[0] != "1600000000000" || len(got.Headers) != 3 {
		t.Errorf("headers %v", got.Headers)
	}
}

func TestADefaultTopicIsRouted(t *testing.T) {
	c := cluster(t, 4)
	p := producing(t, c, store.Fixed(tableOf(t, pinned(4, map[string]int32{"acme": 3}))), ProducerConfig{}, kgo.DefaultProduceTopic("orders"))
	r, err := p.ProduceSync(patient(t), &kgo.Record{Key: []byte("acme")}).First()
	if err != nil || r.Partition != 3 || r.Topic != "orders" {
		t.Errorf("%s/%d, %v", r.Topic, r.Partition, err)
	}
}

// wrapping is a hook that replaces a record's context, as kotel does.
type wrapping struct{ seen chan any }

type wrapKey struct{}

func (h wrapping) OnProduceRecordBuffered(r *kgo.Record) {
	h.seen <- r.Context.Value(wrapKey{})
	r.Context = context.WithValue(r.Context, wrapKey{}, "the hook's")
}

func TestHooksSeeTheCallersValuesAndMayWrapTheContext(t *testing.T) {
	c := cluster(t, 4)
	hook := wrapping{make(chan any, 1)}
	p := producing(t, c, store.Fixed(tableOf(t, pinned(4, map[string]int32{"acme": 3}))), ProducerConfig{}, kgo.WithHooks(hook))
	ctx := context.WithValue(patient(t), wrapKey{}, "the caller's")
	r, err := p.ProduceSync(ctx, record("acme", 1)).First()
	if err != nil || r.Partition != 3 {
		t.Errorf("partition %d, %v", r.Partition, err)
	}
	if got := <-hook.seen; got != "the caller's" {
		t.Errorf("the hook saw %v", got)
	}
	if _, err := p.ProduceSync(patient(t), &kgo.Record{Topic: "orders"}).First(); !errors.Is(err, ErrNoTenant) {
		t.Errorf("error is %v", err)
	}
}

func TestPromisesAreCalledOneAtATimeAndNeverByProduce(t *testing.T) {
	c := cluster(t, 2)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 2})), ProducerConfig{})
	var lock sync.Mutex // a caller's, which its promise takes
	inside, calls := 0, 0
	var wg sync.WaitGroup
	promise := func(*kgo.Record, error) {
		inside++
		lock.Lock()
		calls++
		lock.Unlock()
		if inside--; inside != 0 {
			t.Error("two promises at once")
		}
		wg.Done()
	}
	var producers sync.WaitGroup
	for range 4 {
		producers.Go(func() {
			for i := range 50 {
				wg.Add(2)
				lock.Lock()
				p.Produce(context.Background(), record("acme", i), promise)
				p.Produce(context.Background(), &kgo.Record{Topic: "orders"}, promise) // refused
				lock.Unlock()
			}
		})
	}
	producers.Wait()
	wg.Wait()
	if calls != 4*50*2 {
		t.Errorf("%d promises", calls)
	}
}

func TestProduceSyncHonoursItsContextAndLetsGoOfTheRecord(t *testing.T) {
	c := cluster(t, 1)
	p := producing(t, c, store.Fixed(tableOf(t, routing.TopicSpec{Partitions: 1})), ProducerConfig{})
	fault := withoutLeader(c, 0)
	ctx, cancel := context.WithCancel(context.Background())
	r := record("acme", 1)
	var wait sync.WaitGroup
	wait.Go(func() {
		eventually(t, "in flight", func() bool { return p.InFlight("orders", []byte("acme")) == 1 })
		cancel()
	})
	got, err := p.ProduceSync(ctx, r).First()
	wait.Wait()
	if !errors.Is(err, context.Canceled) || got != r {
		t.Errorf("error is %v", err)
	}
	fault.Remove()
	r.Offset, r.Value = 77, []byte("the caller's again") // a race if the Producer still touched it
	if err := p.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	if r.Offset != 77 {
		t.Errorf("the record changed after it was given back: offset %d", r.Offset)
	}
	if got := p.ProduceSync(patient(t)); len(got) != 0 {
		t.Errorf("results of nothing: %v", got)
	}
}

func TestWaitingForRoomHoldsUpOnlyThatTenant(t *testing.T) {
	c := cluster(t, 3)
	src := store.Fixed(tableOf(t, pinned(3, map[string]int32{"flood": 0, "same-partition": 0, "other": 1})))
	p := producing(t, c, src, ProducerConfig{MaxTenantRecords: 5, MaxPartitionRecords: 8})
	fault := withoutLeader(c, 0)
	defer fault.Remove()
	var flood, beside outcome
	var blocked sync.WaitGroup
	for range 4 {
		blocked.Go(func() {
			for i := range 5 {
				p.Produce(context.Background(), record("flood", i), flood.promise())
			}
		})
	}
	eventually(t, "the flood is full", func() bool { return p.InFlight("orders", []byte("flood")) == 5 })
	for i := range 3 { // what one tenant leaves of its partition
		p.Produce(context.Background(), record("same-partition", i), beside.promise())
	}
	if err := p.ProduceSync(patient(t), record("other", 1)).FirstErr(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	err := p.ProduceSync(ctx, record("same-partition", 4)).FirstErr()
	if !errors.Is(err, ErrPartitionUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a full partition: %v", err)
	}
	fault.Remove()
	blocked.Wait()
	flood.ok(t)
	beside.ok(t)
	if n := len(flood.errs); n != 20 {
		t.Errorf("%d records of the flood", n)
	}
}
