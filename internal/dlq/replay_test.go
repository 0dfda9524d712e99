package dlq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/dlq"
)

const (
	topic   = "orders"
	letters = topic + consumer.DeadLetterSuffix
)

// office is a broker with a topic and its dead letters.
type office struct {
	*kfake.Cluster
	t      *testing.T
	client *kgo.Client
}

func newOffice(t *testing.T) *office {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topic, letters))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	o := &office{Cluster: c, t: t}
	o.client = o.newClient()
	return o
}

func (o *office) newClient() *kgo.Client {
	o.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(o.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(client.Close)
	return client
}

// letter is one of a tenant's, from a place in the topic.
func letter(tenant string, partition int32, offset int64, group string) *kgo.Record {
	return &kgo.Record{
		Topic: letters, Partition: partition, Key: []byte(tenant), Value: fmt.Appendf(nil, "%s-%d", tenant, offset),
		Headers: []kgo.RecordHeader{
			{Key: "tl-route", Value: []byte("stamp")},
			{Key: consumer.HeaderDeadError, Value: []byte("boom")},
			{Key: consumer.HeaderDeadAttempts, Value: []byte("1")},
			{Key: consumer.HeaderDeadGroup, Value: []byte(group)},
			{Key: consumer.HeaderDeadTopic, Value: []byte(topic)},
			{Key: consumer.HeaderDeadPartition, Value: []byte(strconv.Itoa(int(partition)))},
			{Key: consumer.HeaderDeadOffset, Value: []byte(strconv.FormatInt(offset, 10))},
		},
	}
}

// some are n letters of each tenant in a partition, interleaved.
func some(partition int32, n int, tenants ...string) []*kgo.Record {
	var all []*kgo.Record
	for i := range n {
		for k, tenant := range tenants {
			all = append(all, letter(tenant, partition, int64(i*len(tenants)+k), "billing"))
		}
	}
	return all
}

func (o *office) write(records ...*kgo.Record) {
	o.t.Helper()
	if err := o.client.ProduceSync(o.t.Context(), records...).FirstErr(); err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) replay(cfg dlq.Config) dlq.Report {
	o.t.Helper()
	cfg.Topic = letters
	report, err := dlq.Replay(o.t.Context(), o.client, cfg)
	if err != nil {
		o.t.Fatal(err)
	}
	return report
}

// in reads all of a topic.
func (o *office) in(topic string) []*kgo.Record {
	o.t.Helper()
	ends, err := kadm.NewClient(o.client).ListEndOffsets(o.t.Context(), topic)
	if err != nil {
		o.t.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(end kadm.ListedOffset) { left += end.Offset })
	reader, err := kgo.NewClient(kgo.SeedBrokers(o.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		o.t.Fatal(err)
	}
	defer reader.Close()
	var all []*kgo.Record
	for int64(len(all)) < left {
		fetches := reader.PollFetches(o.t.Context())
		if err := fetches.Err0(); err != nil {
			o.t.Fatal(err)
		}
		all = append(all, fetches.Records()...)
	}
	slices.SortFunc(all, func(a, b *kgo.Record) int {
		return int(a.Partition-b.Partition)*1_000_000 + int(a.Offset-b.Offset)
	})
	return all
}

// assertOrder fails unless the values of each tenant ascend within a partition,
// but for repeats.
func assertOrder(t *testing.T, all []*kgo.Record) (repeats int) {
	t.Helper()
	last := map[string]int{}
	for _, r := range all {
		_, number, _ := strings.Cut(string(r.Value), "-")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("value %q", r.Value)
		}
		key := fmt.Sprintf("%s/%d", r.Key, r.Partition)
		before, seen := last[key]
		switch {
		case !seen, n > before:
			last[key] = n
		case n <= before:
			repeats++
		}
	}
	return repeats
}

func TestLettersGoBackWhereTheyLayInOrderAndOnce(t *testing.T) {
	o := newOffice(t)
	o.write(some(1, 150, "a", "b", "c")...)
	o.write(some(2, 5, "d")...)
	report := o.replay(dlq.Config{})
	if report.Replayed != 455 || report.Letters != 455 || report.Tenants != 4 || report.First != nil {
		t.Errorf("%+v", report)
	}
	back := o.in(topic)
	if len(back) != 455 || assertOrder(t, back) != 0 {
		t.Fatalf("%d records, %d repeats", len(back), assertOrder(t, back))
	}
	for _, r := range back {
		own := &consumer.Record{Record: r}
		if group, is := own.ReplayOf(); !is || group != "billing" || r.Headers[0].Key != "tl-route" || (string(r.Key) == "d") != (r.Partition == 2) {
			t.Fatalf("%+v", r)
		}
	}
	if again := o.replay(dlq.Config{}); again.Replayed != 0 || again.Before != 455 {
		t.Errorf("the second time: %+v", again)
	}
	o.write(letter("a", 1, 9000, "billing"))
	if more := o.replay(dlq.Config{}); more.Replayed != 1 || len(o.in(topic)) != 456 {
		t.Errorf("a new letter: %+v", more)
	}
}

func TestASelectionIsReplayedAndTheRestLater(t *testing.T) {
	o := newOffice(t)
	o.write(some(0, 10, "a", "b")...)
	o.write(letter("a", 0, 5000, "search"))
	one := dlq.Config{Selection: dlq.Selection{Tenants: [][]byte{[]byte("a")}, Group: "billing"}}
	if dry := o.replay(dlq.Config{Selection: one.Selection, DryRun: true}); dry.Replayed != 10 || len(o.in(topic)) != 0 {
		t.Errorf("dry run: %+v", dry)
	}
	one.Limit = 4
	if report := o.replay(one); report.Replayed != 4 {
		t.Errorf("limited: %+v", report)
	}
	one.Limit = 0
	if report := o.replay(one); report.Replayed != 6 || report.Before != 4 {
		t.Errorf("%+v", report)
	}
	if report := o.replay(dlq.Config{}); report.Replayed != 11 || report.Before != 10 {
		t.Errorf("the rest: %+v", report)
	}
	if back := o.in(topic); len(back) != 21 || assertOrder(t, back) != 0 {
		t.Errorf("%d records", len(back))
	}
}

// A replay that is killed leaves no mark of its last letters: they repeat, at
// most MarkEvery of them, and nothing is lost or out of order.
func TestAReplayThatIsKilledRepeatsABoundedNumber(t *testing.T) {
	o := newOffice(t)
	o.write(some(0, 150, "a", "b")...)
	killed := 0
	for _, at := range []int{130, 60, 199} {
		client := o.newClient()
		// From then on nothing reaches the broker, as after kill -9.
		dead := o.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Err: kerr.TopicAuthorizationFailed,
			When: func(kmsg.Request) bool { return killed >= at },
		})
		killed = 0
		_, err := dlq.Replay(t.Context(), client, dlq.Config{Topic: letters, Progress: func(n int64) { killed = int(n) }})
		if err == nil {
			t.Fatalf("killed at %d without an error", at)
		}
		dead.Remove()
		client.Close()
	}
	report := o.replay(dlq.Config{})
	back := o.in(topic)
	repeats := assertOrder(t, back)
	if repeats != len(back)-300 || repeats > 3*dlq.MarkEvery || report.Before == 0 {
		t.Errorf("%d records of 300, %d repeats, %+v", len(back), repeats, report)
	}
	if again := o.replay(dlq.Config{}); again.Replayed != 0 {
		t.Errorf("%+v", again)
	}
}

// An interrupted one marks what it has done.
func TestAReplayThatIsInterruptedRepeatsNothing(t *testing.T) {
	o := newOffice(t)
	o.write(some(0, 100, "a", "b")...)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := dlq.Replay(ctx, o.client, dlq.Config{Topic: letters, Progress: func(n int64) {
		if n > 70 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	o.replay(dlq.Config{})
	if back := o.in(topic); len(back) != 200 || assertOrder(t, back) != 0 {
		t.Errorf("%d records of 200, %d repeats", len(back), assertOrder(t, back))
	}
}

// A worker that crashes before its commit writes a letter again.
func TestALetterThatWasWrittenTwiceIsReplayedOnce(t *testing.T) {
	o := newOffice(t)
	o.write(letter("a", 0, 1, "billing"), letter("a", 0, 2, "billing"), letter("a", 0, 1, "billing"), letter("a", 0, 2, "billing"), letter("a", 0, 2, "search"))
	if report := o.replay(dlq.Config{}); report.Replayed != 3 || report.Twice != 2 {
		t.Errorf("%+v", report)
	}
	if report := o.replay(dlq.Config{}); report.Replayed != 0 {
		t.Errorf("the second time: %+v", report)
	}
}

// A letter that cannot be written holds back its own tenant only, whose order it
// would break.
func TestARefusedLetterHoldsBackItsTenantOnly(t *testing.T) {
	o := newOffice(t)
	big := letter("a", 0, 2, "billing")
	o.write(letter("a", 0, 0, "billing"), letter("b", 0, 1, "billing"), big, letter("b", 0, 3, "billing"), letter("a", 0, 4, "billing"))
	refusing := o.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Err: kerr.MessageTooLarge,
		When: func(req kmsg.Request) bool { return bytes.Contains(batches(req), []byte("a-2")) },
	})
	report := o.replay(dlq.Config{})
	if report.Replayed != 3 || report.Refused != 2 || !errors.Is(report.First, dlq.ErrRefused) {
		t.Errorf("%+v", report)
	}
	refusing.Remove()
	if report := o.replay(dlq.Config{}); report.Replayed != 2 || report.Before != 3 {
		t.Errorf("%+v", report)
	}
	if back := o.in(topic); len(back) != 5 || assertOrder(t, back) != 0 {
		t.Errorf("%d records", len(back))
	}
}

// batches are the bytes of the records that a request produces.
func batches(req kmsg.Request) (all []byte) {
	if produce, ok := req.(*kmsg.ProduceRequest); ok {
		for _, t := range produce.Topics {
			for _, p := range t.Partitions {
				all = append(all, p.Records...)
			}
		}
	}
	return all
}

func TestLettersOfTenantsThatMovedStay(t *testing.T) {
	o := newOffice(t)
	o.write(some(0, 3, "a", "b")...)
	report := o.replay(dlq.Config{Moved: func(_ *dlq.Letter, tenant []byte) bool { return string(tenant) == "b" }})
	if report.Replayed != 3 || report.Moved != 3 {
		t.Errorf("%+v", report)
	}
}

func TestAListTellsWhatWasReplayed(t *testing.T) {
	o := newOffice(t)
	o.write(some(1, 3, "a", "b")...)
	o.write(&kgo.Record{Topic: letters, Partition: 1, Value: []byte("somebody else's")})
	o.replay(dlq.Config{Selection: dlq.Selection{Tenants: [][]byte{[]byte("a")}}})
	replayed := map[string]int{}
	foreign, err := dlq.List(t.Context(), o.client, letters, dlq.Selection{}, func(l dlq.Listed) error {
		if l.Replayed {
			replayed[string(l.Tenant)]++
		}
		return nil
	})
	if err != nil || foreign != 1 || replayed["a"] != 3 || replayed["b"] != 0 {
		t.Errorf("%d foreign, %v, %v", foreign, replayed, err)
	}
	stop := errors.New("enough")
	if _, err := dlq.List(t.Context(), o.client, letters, dlq.Selection{}, func(dlq.Listed) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("stopped with %v", err)
	}
	if _, err := dlq.List(t.Context(), o.client, "nope", dlq.Selection{}, nil); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("a topic that is not there: %v", err)
	}
}
