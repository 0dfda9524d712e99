package integration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/offset"
)

// mark is one partition with a group whose commit says: all is done but for
// tenant "bad", whose first record is parked at offset 0. Records are numbered by
// their values, so that it shows what was handled.
type mark struct {
	t            *testing.T
	ctx          context.Context //nolint:containedctx // the test's own
	broker       broker
	topic, group string
	client       *kgo.Client
	admin        *kadm.Client
	sent         int

	mu sync.Mutex
	// guards handled
	handled map[string]int // by value, of all but "bad"
}

// others is how many records lie behind the parked one.
const others = 40

func newMark(t *testing.T, b broker, topic string) *mark {
	t.Helper()
	m := &mark{t: t, ctx: deadline(t, 4*time.Minute), broker: b, topic: topic, group: unique(t, "group")}
	m.client = b.client(t, m.produceOpts()...)
	m.admin = kadm.NewClient(m.client)
	return m
}

// produceOpts keep to what is in sync, and no state of producers, which an
// unclean election loses.
func (m *mark) produceOpts() []kgo.Opt {
	return []kgo.Opt{kgo.DefaultProduceTopic(m.topic), kgo.DisableIdempotentWrite()}
}

// parked makes the mark's commit.
func (m *mark) parked() {
	m.t.Helper()
	m.send("bad")
	m.sendOthers(others)
	w := m.work(nil)
	m.awaitHandled(others)
	await(m.ctx, m.t, "a commit of all but the parked lane", func() bool {
		said, why := offset.Decode(m.commit().Metadata)
		return why == offset.Valid && said.Frontier == others+1 && len(said.Lanes) == 1
	})
	w.stop()
}

func (m *mark) send(tenant string) {
	m.t.Helper()
	m.sent++
	r := &kgo.Record{Key: []byte(tenant), Value: []byte(strconv.Itoa(m.sent))}
	if err := m.client.ProduceSync(m.ctx, r).FirstErr(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mark) sendOthers(n int) {
	m.t.Helper()
	for i := range n {
		m.send("tenant-" + strconv.Itoa(i%10))
	}
}

// commit is what the group has committed. A broker that was killed a moment ago
// may have been asked.
func (m *mark) commit() (at kadm.Offset) {
	m.t.Helper()
	await(m.ctx, m.t, "an answer of the group", func() bool {
		commits, err := m.admin.FetchOffsets(m.ctx, m.group)
		found, _ := commits.Lookup(m.topic, 0)
		at = found.Offset
		return err == nil
	})
	return at
}

// recommit commits what a tool would.
func (m *mark) recommit(at int64, metadata string) {
	m.t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: m.topic, Partition: 0, At: at, LeaderEpoch: -1, Metadata: metadata})
	if err := m.admin.CommitAllOffsets(m.ctx, m.group, offsets); err != nil {
		m.t.Fatal(err)
	}
}

// forget clears what was handled, to see what comes again.
func (m *mark) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handled = nil
}

func (m *mark) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.handled)
}

func (m *mark) awaitHandled(n int) {
	m.t.Helper()
	await(m.ctx, m.t, fmt.Sprintf("%d records handled", n), func() bool { return m.count() >= n })
}

// marked is a worker of a mark.
type marked struct {
	*consumer.Runtime
	metrics *prometheus.Registry
	stop    func()
}

func (m *mark) work(change func(*consumer.Config)) *marked {
	m.t.Helper()
	w := &marked{metrics: prometheus.NewRegistry()}
	cfg := consumer.Config{
		Group: m.group, Topics: []string{m.topic}, CommitInterval: 50 * time.Millisecond, Registerer: w.metrics,
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(m.broker.addrs...)}, Logger: testLogger(m.t),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	w.Runtime, err = consumer.New(cfg, m.handle)
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { err = w.Run(ctx) })
	w.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err != nil {
			m.t.Errorf("Run: %v", err)
		}
	})
	m.t.Cleanup(w.stop)
	return w
}

func (m *mark) handle(_ context.Context, r *consumer.Record) error {
	if strings.HasPrefix(string(r.Tenant), "bad") {
		return consumer.Permanent(errors.New("cannot be handled"))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.handled == nil {
		m.handled = map[string]int{}
	}
	m.handled[string(r.Value)]++
	return nil
}

// counted is the sum of a counter over those of its series that have a label of
// this value; "" is any.
func (w *marked) counted(t *testing.T, name, label string) (sum float64) {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			has := label == ""
			for _, l := range series.GetLabel() {
				has = has || l.GetValue() == label
			}
			if f.GetName() == "tenantlane_consumer_"+name && has {
				sum += series.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// Each reason for which a commit's metadata counts for nothing, with what really
// leads to it: what is handled again is all from the committed offset on, and
// nothing is lost.
func TestIgnoredMetadataCostsRepeatsAndNoLoss(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	for _, c := range []struct {
		name   string
		reason offset.Reason
		from   int64 // where everything is handled again
		change func(m *mark) *mark
		config func(*consumer.Config)
	}{
		{name: "a mirroring tool copies the commit to another cluster", reason: offset.Cluster, change: toAnotherCluster},
		{name: "a tool changes the offset and keeps the metadata", reason: offset.Moved, from: 7, change: func(m *mark) *mark {
			m.recommit(7, m.commit().Metadata)
			return m
		}},
		{name: "a tool moves the offset and brings its own text", reason: offset.Foreign, change: func(m *mark) *mark {
			m.recommit(0, "reset by nightly-tool")
			return m
		}},
		{name: "a topic is made again and the commit restored", reason: offset.Topic, change: madeAgain},
		{name: "lanes are formed otherwise", reason: offset.Fingerprint, config: func(cfg *consumer.Config) {
			cfg.Order, cfg.OrderKeyVersion = consumer.OrderKeys, "v2"
			cfg.OrderKey = func(r *kgo.Record) []byte { return r.Value }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMark(t, b, b.topic(t, 1))
			m.parked()
			if c.change != nil {
				m = c.change(m)
			}
			m.forget()
			w := m.work(c.config)
			want := others + 1 - max(int(c.from), 1)
			m.awaitHandled(want)
			if n := w.counted(t, "ignored_metadata_total", c.reason.String()); n != 1 {
				t.Errorf("ignored %v times for the reason %v, want once", n, c.reason)
			}
			m.sendOthers(1)
			m.awaitHandled(want + 1)
			w.stop()
			if n := m.count(); n != want+1 {
				t.Errorf("%d records were handled, want the %d from offset %d on and the new one", n, want, c.from)
			}
		})
	}
}

// toAnotherCluster has the same records and the same commit on another cluster,
// as a mirror has.
func toAnotherCluster(m *mark) *mark {
	b := startEmbedded(m.t)
	mirror := newMark(m.t, b, b.topic(m.t, 1))
	mirror.send("bad")
	mirror.sendOthers(others)
	mirror.recommit(m.commit().At, m.commit().Metadata)
	return mirror
}

// madeAgain deletes the topic, makes it anew with as many records, and commits
// what was committed.
func madeAgain(m *mark) *mark {
	m.t.Helper()
	commit := m.commit()
	if _, err := m.admin.DeleteTopic(m.ctx, m.topic); err != nil {
		m.t.Fatal(err)
	}
	await(m.ctx, m.t, "the topic is made again", func() bool {
		_, err := m.admin.CreateTopic(m.ctx, 1, -1, nil, m.topic)
		return err == nil
	})
	await(m.ctx, m.t, "every broker knows it", func() bool { return known(m.ctx, m.client, m.topic) })
	again := newMark(m.t, m.broker, m.topic)
	again.group = m.group
	again.send("bad")
	again.sendOthers(others)
	again.recommit(commit.At, commit.Metadata)
	return again
}

// More lanes are parked than 4,096 characters can name. The broker refuses the
// commit for its length; it is halved and taken, and what a crash repeats is
// what it could not name.
func TestMetadataThatIsTooLongIsHalvedAndTaken(t *testing.T) {
	b := realBroker(t)
	m := newMark(t, b, b.topic(t, 1))
	for i := range 600 {
		m.send("bad-" + strconv.Itoa(i))
	}
	m.sendOthers(others)
	long := func(cfg *consumer.Config) { cfg.MetadataChars = 16_000 }
	w := m.work(long)
	m.awaitHandled(others)
	await(m.ctx, t, "a commit that names fewer lanes", func() bool {
		said, why := offset.Decode(m.commit().Metadata)
		return why == offset.Valid && len(said.Lanes) > 100 && len(m.commit().Metadata) <= 4096
	})
	if n := w.counted(t, "commit_errors_total", "OFFSET_METADATA_TOO_LARGE"); n < 1 {
		t.Errorf("the broker refused %v commits for their length", n)
	}
	w.stop()
	m.forget()
	again := m.work(long)
	m.awaitHandled(others) // they lie above the frontier: repeated, not lost
	again.stop()
}

// The parked lane's records fall off the log. That is counted and said, the
// partition goes on, and nobody else's record is skipped or repeated.
func TestRetentionOfAParkedLaneHarmsNobodyElse(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b broker) {
		m := newMark(t, b, b.topic(t, 1))
		m.parked()
		m.sendOthers(others) // not handled yet: nobody works
		m.send("bad")        // and this one is not lost
		m.deleteBelow(others / 2)
		m.forget()
		w := m.work(nil)
		m.awaitHandled(others)
		if n := w.counted(t, "lost_records_total", m.topic); n < 1 {
			t.Error("nothing was counted as lost")
		}
		await(m.ctx, t, "the lane's record behind is tried", func() bool {
			return w.Tenant([]byte("bad")).State == consumer.StateParked
		})
		// The same to a worker that runs: its parked record goes, and it stays.
		m.sendOthers(others)
		m.awaitHandled(2 * others)
		m.deleteBelow(2*others + 2)
		if _, err := w.ResumeTenant(m.ctx, []byte("bad"), consumer.Act{Actor: "test"}); err != nil {
			t.Error(err)
		}
		m.sendOthers(1)
		m.awaitHandled(2*others + 1)
		w.stop()
		if n := m.count(); n != 2*others+1 {
			t.Errorf("%d records of others were handled, want the %d that nobody had handled", n, 2*others+1)
		}
	})
}

// deleteBelow moves the log's start, as retention does.
func (m *mark) deleteBelow(at int64) {
	m.t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset(m.topic, 0, at, -1)
	done, err := m.admin.DeleteRecords(m.ctx, offsets)
	if err = errors.Join(err, done.Error()); err != nil {
		m.t.Fatal(err)
	}
}
