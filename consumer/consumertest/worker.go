package consumertest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/wire"
)

const (
	defaultTopic   = "records"
	defaultPatient = 30 * time.Second
	// look is the time between two looks at the worker.
	look = 2 * time.Millisecond
	// session is how long the group waits for a worker that crashed.
	session = time.Second
)

// Config says how the handler is run. The zero value works.
type Config struct {
	// Consumer is the worker's configuration. Group, Topics and KafkaOpts are
	// filled in; without a topic there is one called "records". Retry is 1 to
	// 10 ms and CommitInterval 10 ms unless set.
	Consumer consumer.Config
	// Partitions of each topic. Default 1.
	Partitions int32
	// Patience bounds every wait. Default 30 s.
	Patience time.Duration
}

// Handling is one call of the handler.
type Handling struct {
	Tenant    string
	Key       string
	Value     string
	Topic     string
	Partition int32
	Offset    int64
	Attempt   int
	Worker    int   // 1 for the first worker, 2 for the one after a Crash or Restart, …
	Err       error // what the handler answered
}

// Worker runs a handler.
type Worker struct {
	t        testing.TB
	cfg      Config
	handler  consumer.Handler
	broker   *kfake.Cluster
	producer *kgo.Client
	process  *process
	starts   int

	mu sync.Mutex
	// guards the fields below
	handlings []Handling
	sent      map[string]map[int32]int64 // log ends by topic and partition
}

// process is one life of the worker.
type process struct {
	rt     *consumer.Runtime
	cancel context.CancelFunc
	done   chan error
	wire   *wire.Wire
}

// Start runs a handler until the test ends.
func Start(t testing.TB, cfg Config, h consumer.Handler) *Worker {
	t.Helper()
	cfg = cfg.withDefaults()
	topics := slices.Clone(cfg.Consumer.Topics)
	for _, topic := range cfg.Consumer.Topics {
		topics = append(topics, cfg.Consumer.DeadLetterTopic(topic))
	}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(cfg.Partitions, topics...), kfake.GroupMinSessionTimeout(session))
	if err != nil {
		t.Fatalf("consumertest: starting the broker: %v", err)
	}
	t.Cleanup(broker.Close)
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic(cfg.Consumer.Topics[0]))
	if err != nil {
		t.Fatalf("consumertest: making a producer: %v", err)
	}
	t.Cleanup(producer.Close)
	w := &Worker{t: t, cfg: cfg, handler: h, broker: broker, producer: producer, sent: map[string]map[int32]int64{}}
	w.start()
	t.Cleanup(func() { w.end(false) })
	return w
}

func (c Config) withDefaults() Config {
	if c.Partitions == 0 {
		c.Partitions = 1
	}
	if c.Patience == 0 {
		c.Patience = defaultPatient
	}
	if len(c.Consumer.Topics) == 0 {
		c.Consumer.Topics = []string{defaultTopic}
	}
	if c.Consumer.Group == "" {
		c.Consumer.Group = "consumertest"
	}
	if c.Consumer.Retry.Min == 0 {
		c.Consumer.Retry.Min, c.Consumer.Retry.Max = time.Millisecond, 10*time.Millisecond
	}
	if c.Consumer.CommitInterval == 0 {
		c.Consumer.CommitInterval = 10 * time.Millisecond
	}
	if c.Consumer.DeadLetterTopic == nil {
		c.Consumer.DeadLetterTopic = func(topic string) string { return topic + consumer.DeadLetterSuffix }
	}
	return c
}

func (w *Worker) start() {
	w.t.Helper()
	w.starts++
	number := w.starts
	p := &process{done: make(chan error, 1), wire: &wire.Wire{}}
	cfg := w.cfg.Consumer
	cfg.KafkaOpts = append(slices.Clone(cfg.KafkaOpts),
		kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.Dialer(p.wire.Dial), kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(session/20), kgo.FetchMaxWait(20*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))
	rt, err := consumer.New(cfg, func(ctx context.Context, r *consumer.Record) error {
		err := w.handler(ctx, r)
		w.note(number, r, err)
		return err
	})
	if err != nil {
		w.t.Fatalf("consumertest: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.rt, p.cancel = rt, cancel
	go func() { p.done <- rt.Run(ctx) }()
	w.process = p
}

func (w *Worker) note(number int, r *consumer.Record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlings = append(w.handlings, Handling{
		Tenant: string(r.Tenant), Key: string(r.Key), Value: string(r.Value), Topic: r.Topic, Partition: r.Partition,
		Offset: r.Offset, Attempt: r.Attempt, Worker: number, Err: err,
	})
}

// end stops the process under way, in good order or not.
func (w *Worker) end(crash bool) {
	w.t.Helper()
	p := w.process
	if crash {
		p.wire.Cut()
		p.rt.StopNow()
	}
	p.cancel()
	select {
	case err := <-p.done:
		if err != nil && !crash {
			w.t.Errorf("consumertest: Run: %v", err)
		}
		p.done <- err
	case <-time.After(w.cfg.Patience):
		w.t.Error("consumertest: Run did not return")
	}
}

// Send produces a record with this key for each value, and waits until the
// broker has them.
func (w *Worker) Send(key string, values ...string) {
	w.t.Helper()
	for _, v := range values {
		w.SendRecords(kgo.KeyStringRecord(key, v))
	}
}

// SendRecords produces records, in order, and waits until the broker has them.
func (w *Worker) SendRecords(rs ...*kgo.Record) {
	w.t.Helper()
	for _, r := range rs {
		if err := w.producer.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
			w.t.Fatalf("consumertest: sending: %v", err)
		}
		w.mu.Lock()
		if w.sent[r.Topic] == nil {
			w.sent[r.Topic] = map[int32]int64{}
		}
		w.sent[r.Topic][r.Partition] = r.Offset + 1
		w.mu.Unlock()
	}
}

// Settle waits until every record that was sent is done: handled, skipped,
// dead-lettered, or behind a record that is parked.
func (w *Worker) Settle() {
	w.t.Helper()
	w.Until("everything to be done or parked", func() bool {
		tenants := w.process.rt.Tenants(consumer.TenantFilter{Most: 1 << 20})
		for i := range tenants {
			if tenants[i].State != consumer.StateParked || tenants[i].InFlight > 0 {
				return false
			}
		}
		return w.allRead()
	})
}

// allRead says that the worker has read all that was sent.
func (w *Worker) allRead() bool {
	read := make(map[string]map[int32]int64)
	for _, p := range w.process.rt.Progress() {
		if read[p.Topic] == nil {
			read[p.Topic] = map[int32]int64{}
		}
		read[p.Topic][p.Partition] = p.Next
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic, partitions := range w.sent {
		for partition, end := range partitions {
			if read[topic][partition] < end {
				return false
			}
		}
	}
	return true
}

// Until waits until ok, which is asked again and again.
func (w *Worker) Until(what string, ok func() bool) {
	w.t.Helper()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	deadline := time.After(w.cfg.Patience)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			w.t.Fatalf("consumertest: timed out waiting for %s", what)
		}
	}
}

// Crash ends the worker as a kill would: what it has not committed is not
// committed. Another one takes over, once the group has noticed.
func (w *Worker) Crash() {
	w.t.Helper()
	w.end(true)
	w.start()
}

// Restart stops the worker in good order, and starts another one.
func (w *Worker) Restart() {
	w.t.Helper()
	w.end(false)
	w.start()
}

// Runtime is the worker that runs now, to look at and to operate.
func (w *Worker) Runtime() *consumer.Runtime { return w.process.rt }

// Handlings are all calls of the handler that have ended, in that order.
func (w *Worker) Handlings() []Handling {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.handlings)
}

// Committed is a partition's committed offset in the first topic, -1 without
// one.
func (w *Worker) Committed(partition int32) int64 {
	info := w.broker.GroupInfo(w.cfg.Consumer.Group)
	if info == nil {
		return -1
	}
	commit, ok := info.Commits[w.cfg.Consumer.Topics[0]][partition]
	if !ok {
		return -1
	}
	return commit.Offset
}

// DeadLetters reads the dead letters of the first topic.
func (w *Worker) DeadLetters() []*kgo.Record {
	w.t.Helper()
	topic := w.cfg.Consumer.DeadLetterTopic(w.cfg.Consumer.Topics[0])
	var want int64
	for _, p := range w.broker.PartitionInfos(topic) {
		want += p.HighWatermark
	}
	if want == 0 {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.ConsumeTopics(topic))
	if err != nil {
		w.t.Fatalf("consumertest: reading dead letters: %v", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), w.cfg.Patience)
	defer cancel()
	var letters []*kgo.Record
	for int64(len(letters)) < want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			w.t.Fatalf("consumertest: reading dead letters: %v", err)
		}
		letters = append(letters, fetches.Records()...)
	}
	return letters
}
