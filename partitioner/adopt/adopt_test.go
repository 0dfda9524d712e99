package adopt_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/internal/testkit"
	"github.com/tenantlane/tenantlane/partitioner/adopt"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// adopted is the topic "orders" of a table made for a client.
func adopted(t testing.TB, client string, partitions int32, change func(*routing.TopicSpec)) *routing.Topic {
	t.Helper()
	spec, err := adopt.TopicSpec(client, partitions)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&spec)
	}
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": spec}})
	if err != nil {
		t.Fatal(err)
	}
	topic, _ := table.Topic("orders")
	return topic
}

// Where real clients put the keys of client_placements.tsv.
func TestTablesMapAsRealClientsDid(t *testing.T) {
	raw, err := os.ReadFile("../routing/testdata/client_placements.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	columns := strings.Split(lines[0], "\t")
	checked := 0
	for i, column := range columns[1:] {
		client, count, _ := strings.Cut(column, "_")
		partitions, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(err)
		}
		topic := adopted(t, client, int32(partitions), nil)
		for _, line := range lines[1:] {
			fields := strings.Split(line, "\t")
			key, err := hex.DecodeString(fields[0])
			if err != nil {
				t.Fatal(err)
			}
			if got := strconv.Itoa(int(topic.Lookup(key, key).Partition)); got != fields[i+1] {
				t.Errorf("%s of %d: key %q goes to %s, the client put it on %s", client, partitions, key, got, fields[i+1])
			}
			checked++
		}
	}
	if checked != 8*52 {
		t.Errorf("checked %d placements, want 8 columns of 52", checked)
	}
}

func TestSlotsAreAMultipleWithinTheLimits(t *testing.T) {
	for partitions := int32(1); partitions <= routing.MaxPartitions; partitions++ {
		n := adopt.Slots(partitions)
		if n%partitions != 0 || n < min(routing.DefaultSlots, partitions) || n > routing.MaxSlots {
			t.Fatalf("%d partitions get %d slots", partitions, n)
		}
	}
}

func TestTopicSpecRefuses(t *testing.T) {
	for want, err := range map[string]error{
		"known are java, franz-go, sarama, librdkafka": second(adopt.TopicSpec("rust", 32)),
		"a topic of 0 partitions":                      second(adopt.TopicSpec("java", 0)),
		"a topic of 65537 partitions":                  second(adopt.TopicSpec("java", routing.MaxPartitions+1)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func second(_ routing.TopicSpec, err error) error { return err }

// broker starts an embedded broker with the topic "orders" of 12 partitions,
// and a client with franz-go's default partitioner.
func broker(t testing.TB) *kgo.Client {
	t.Helper()
	return testkit.Client(t, testkit.Broker(t, kfake.SeedTopics(12, "orders")), kgo.DefaultProduceTopic("orders"))
}

func keyed(n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = kgo.KeySliceRecord(fmt.Appendf(nil, "tenant-%d", i), []byte("x"))
	}
	return records
}

func produce(t testing.TB, client *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyFindsWhatFranzGoWrote(t *testing.T) {
	client := broker(t)
	produce(t, client, keyed(500)...)
	steps := 0
	progress := func(done, of int64) {
		if steps++; done > of {
			t.Errorf("progress %d of %d", done, of)
		}
	}
	r, err := adopt.Verify(t.Context(), client, adopted(t, "franz-go", 12, nil), adopt.Config{Progress: progress})
	if err != nil || r.Records != 500 || r.Share() != 1 || r.Differences != nil || steps == 0 {
		t.Errorf("report %+v after %d steps, %v, want 500 records that all match", r, steps, err)
	}
	r, err = adopt.Verify(t.Context(), client, adopted(t, "sarama", 12, nil), adopt.Config{Differences: 3})
	if err != nil || r.Share() > 0.2 || len(r.Differences) != 3 {
		t.Fatalf("report %+v, %v, want that sarama's table matches about one in 12, with 3 differences", r, err)
	}
	for _, d := range r.Differences {
		want := adopted(t, "sarama", 12, nil).Lookup(d.Tenant, d.Tenant).Partition
		if !cmp.Equal(d.Want, []int32{want}) || d.Partition == want {
			t.Errorf("difference %+v, the table says %d", d, want)
		}
	}
}

func TestVerifyReadsOnlyTheTail(t *testing.T) {
	client := broker(t)
	produce(t, client, keyed(500)...)
	r, err := adopt.Verify(t.Context(), client, adopted(t, "franz-go", 12, nil), adopt.Config{PerPartition: 2})
	if err != nil || r.Records != 24 || r.Matching != 24 {
		t.Errorf("report %+v, %v, want 2 records of each of 12 partitions", r, err)
	}
}

func TestVerifyCountsEachRecordOnce(t *testing.T) {
	client := broker(t)
	topic := adopted(t, "franz-go", 12, func(s *routing.TopicSpec) {
		s.Epoch = 7
		s.Placements = map[string]routing.Placement{
			"away":   {Topic: "elsewhere"},
			"moved":  {Partitions: []int32{3}, Epoch: 7},
			"spread": {Partitions: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, Spread: routing.SpreadRandom},
		}
	})
	stamped := func(epoch uint64) *kgo.Record {
		r := kgo.KeyStringRecord("moved", "x")
		r.Headers = []kgo.RecordHeader{{Key: routing.HeaderRoute, Value: routing.RouteHeader{Kind: routing.KindTenant, Epoch: epoch}.Append(nil)}}
		return r
	}
	control := kgo.KeyStringRecord("tl-control/1", "x")
	control.Headers = []kgo.RecordHeader{{Key: routing.HeaderControl, Value: routing.Control{Kind: routing.ControlFence}.Append(nil)}}
	produce(t, client, kgo.KeyStringRecord("away", "x"), kgo.KeyStringRecord("spread", "x"), kgo.KeyStringRecord("tenant-1", "x"),
		kgo.StringRecord("no key"), stamped(6), stamped(7), control)

	got, err := adopt.Verify(t.Context(), client, topic, adopt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	differences := map[string]adopt.Difference{}
	for _, d := range got.Differences {
		differences[string(d.Tenant)] = d
	}
	got.Differences = nil
	if diff := cmp.Diff(adopt.Report{Records: 4, Matching: 2, WithoutTenant: 1, Older: 1, Control: 1}, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if len(differences) != 2 || differences["away"].WantTopic != "elsewhere" || !cmp.Equal(differences["moved"].Want, []int32{3}) {
		t.Errorf("differences %+v, want of away and moved", differences)
	}
}

func TestVerifyRefuses(t *testing.T) {
	client := broker(t)
	if _, err := adopt.Verify(t.Context(), client, adopted(t, "java", 13, nil), adopt.Config{}); err == nil || !strings.Contains(err.Error(), "fewer than the 13") {
		t.Errorf("error %v, want that the topic has fewer partitions", err)
	}
	if _, err := adopt.Verify(t.Context(), client, adopted(t, "java", 12, nil), adopt.Config{PerPartition: -1}); err == nil || !strings.Contains(err.Error(), "PerPartition") {
		t.Errorf("error %v, want one that names PerPartition", err)
	}
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{"nowhere": {Partitions: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	topic, _ := table.Topic("nowhere")
	if _, err := adopt.Verify(t.Context(), client, topic, adopt.Config{}); !strings.Contains(fmt.Sprint(err), kerr.UnknownTopicOrPartition.Message) {
		t.Errorf("error %v, want that the topic is unknown", err)
	}
}

func BenchmarkVerify(b *testing.B) {
	client := broker(b)
	produce(b, client, keyed(10_000)...)
	topic := adopted(b, "franz-go", 12, nil)
	for b.Loop() {
		if r, err := adopt.Verify(b.Context(), client, topic, adopt.Config{}); err != nil || r.Share() != 1 {
			b.Fatal(r, err)
		}
	}
}
