package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// produceUntilStopped produces the keys over and over, until stop is called.
func produceUntilStopped(t *testing.T, client *kgo.Client, keys ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var producer sync.WaitGroup
	producer.Go(func() {
		for ctx.Err() == nil {
			produceKeys(t, client, keys...)
		}
	})
	return func() { cancel(); producer.Wait() }
}

// connect makes a client with franz-go's default partitioner.
func connect(t *testing.T, brokers string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers), kgo.DefaultProduceTopic("orders")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func produceKeys(t *testing.T, client *kgo.Client, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := client.ProduceSync(t.Context(), kgo.KeyStringRecord(key, "x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func commitAt(t *testing.T, client *kgo.Client, group string, partition int32, at int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "orders", Partition: partition, At: at})
	if err := kadm.NewClient(client).CommitAllOffsets(t.Context(), group, offsets); err != nil {
		t.Fatal(err)
	}
}

// readTable reads a table as other programs do.
func readTable(t *testing.T, path string) *routing.Table {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table, err := routing.Parse(path, raw)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTableInitAdoptsAndVerifyAgrees(t *testing.T) {
	brokers := startBroker(t)
	client := connect(t, brokers)
	produceKeys(t, client, tenantNames(300)...)
	path := filepath.Join(t.TempDir(), "routing.yaml")

	got := one[initJSON](t, "table", "init", "--brokers", brokers, "--from-topic", "orders", "--clients", "franz-go", "--table", path)
	if diff := cmp.Diff(initJSON{Topic: "orders", Partitions: 8, Slots: 4096, Hash: "murmur2-kafka", Revision: 1}, got); diff != "" {
		t.Errorf("init (-want +got):\n%s", diff)
	}
	verified := one[verifyJSON](t, "table", "verify", "--brokers", brokers, "--topic", "orders", "--table", path)
	if verified.Records != 300 || verified.Matching != 1 || verified.Differences == nil {
		t.Errorf("verify: %+v, want 300 records that all match", verified)
	}
	printed := runArgs(t, "table", "init", "--brokers", brokers, "--from-topic", "orders", "--clients", "sarama")
	printed.wantDone(t)
	other := tempFile(t, "other.yaml", printed.stdout)
	differs := runArgs(t, "table", "verify", "--brokers", brokers, "--table", other, "--differences", "2")
	if differs.code != exitNo || strings.Count(differs.stdout, "belongs to partition") != 2 || strings.Count(differs.stderr, "\n") != 1 {
		t.Errorf("with sarama's table: exit code %d, stdout %q, stderr %q", differs.code, differs.stdout, differs.stderr)
	}
	runArgs(t, "table", "init", "--brokers", brokers, "--from-topic", "orders", "--clients", "java", "--table", path).
		wantError(t, exitNo, `"orders" is already in`)
}

func TestTableInitAddsATopicToATable(t *testing.T) {
	brokers := startBroker(t)
	path := tempFile(t, "routing.yaml", strings.ReplaceAll(routeTable, "  orders:", "  invoices:"))
	runArgs(t, "table", "init", "--brokers", brokers, "--from-topic", "orders", "--clients", "java", "--table", path).wantDone(t)
	table := readTable(t, path)
	if topic, ok := table.Topic("orders"); !ok || topic.Hash() != routing.Murmur2Kafka || table.Revision() != 18 {
		t.Errorf("revision %d, orders in the table: %v", table.Revision(), ok)
	}
	if _, ok := table.Topic("invoices"); !ok {
		t.Error("the topic that was there is gone")
	}
}

func TestTableVerifyOfATopicWithoutTenantsIsNo(t *testing.T) {
	brokers := startBroker(t)
	path := tempFile(t, "routing.yaml", "version: 1\nrevision: 1\ntopics: {orders: {partitions: 8}}\n")
	got := runArgs(t, "table", "verify", "--brokers", brokers, "--table", path, "--format", "json")
	if got.code != exitNo || !strings.Contains(got.stderr, "no record with a tenant") || !strings.Contains(got.stdout, `"records":0`) {
		t.Errorf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
}

// liveTable is a table of the broker's topic with acme on partition 0.
const liveTable = `version: 1
revision: 3
topics:
  orders:
    partitions: 8
    hash: murmur2-kafka
    epoch: 5
    placements: {acme: {partitions: [0], epoch: 5}}
    tiers: {gold: {weight: 50}}
`

func TestTableSetRefusesToRerouteALiveTenant(t *testing.T) {
	brokers := startBroker(t)
	manual := connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produceKeys(t, manual, "acme", "acme") // to partition 0
	commitAt(t, manual, "billing", 0, 1)
	path := tempFile(t, "routing.yaml", liveTable)
	set := []string{"table", "set", "orders", "acme", "--partitions", "3", "--table", path, "--settle", "1ms"}

	runArgs(t, set...).wantError(t, exitUsage, "--brokers", "--unsafe")
	set = append(set, "--brokers", brokers)
	runArgs(t, set...).wantError(t, exitNo, `tenant "acme" is live`, `group "billing"`, "offset 1", "tenantlane move start acme --topic orders --to 3", "--unsafe")
	if got := readTable(t, path); got.Revision() != 3 {
		t.Errorf("after a refusal the table has revision %d, want 3", got.Revision())
	}
	commitAt(t, manual, "billing", 0, 2)
	got := one[changedJSON](t, set...)
	want := changedJSON{Revision: 4, placementJSON: placementJSON{
		Topic: "orders", Tenant: "acme", TenantHex: "61636d65", Partitions: []int32{3}, Tier: "standard", Epoch: 6,
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(changedJSON{})); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
}

func TestTableChangesOfFiles(t *testing.T) {
	path := tempFile(t, "routing.yaml", liveTable)
	change := func(args ...string) {
		t.Helper()
		runArgs(t, append(args, "--table", path, "--unsafe")...).wantDone(t)
	}
	place := func(tenant string) placementJSON {
		t.Helper()
		return one[placementJSON](t, "table", "get", "orders", tenant, "--table", path)
	}
	change("table", "set", "orders", "hooli", "--partitions", "5-7", "--spread", "random")
	if got := place("hooli"); got.Spread != "random" || len(got.Partitions) != 3 || got.Epoch != 6 {
		t.Errorf("hooli is placed %+v", got)
	}
	change("table", "set", "orders", "hooli", "--tier", "gold")
	if got := place("hooli"); got.Tier != "gold" || got.Spread != "random" || got.Epoch != 6 {
		t.Errorf("hooli with a tier is placed %+v", got)
	}
	change("table", "set", "orders", "globex", "--to-topic", "elsewhere")
	if got := place("globex"); got.ToTopic != "elsewhere" || got.Epoch != 7 {
		t.Errorf("globex is placed %+v", got)
	}
	change("table", "unset", "orders", "acme")
	if got := place("acme"); !got.FollowSlot || got.Epoch != 8 || len(got.Partitions) != 1 {
		t.Errorf("acme without its entry is placed %+v", got)
	}
	change("table", "set", "orders", "--slot", "17", "--partitions", "5")
	if topic, _ := readTable(t, path).Topic("orders"); topic.SlotPartition(17) != 5 || topic.Epoch() != 9 {
		t.Errorf("slot 17 goes to %d at epoch %d", topic.SlotPartition(17), topic.Epoch())
	}
	change("tenant", "forget", "hooli")
	if got := place("hooli"); !got.FollowSlot || got.Tier != "standard" || got.Epoch != 0 {
		t.Errorf("hooli forgotten is placed %+v", got)
	}
	if got := one[checkJSON](t, "table", "check", "--table", path); got.Revision != 9 || got.Topics[0].Placements != 2 || got.Topics[0].SlotOverrides != 1 {
		t.Errorf("check: %+v", got)
	}
}

// A change of a tier re-routes nobody and needs no brokers.
func TestTableChangesThatMoveNothingNeedNoBrokers(t *testing.T) {
	path := tempFile(t, "routing.yaml", liveTable)
	got := one[changedJSON](t, "table", "set", "orders", "acme", "--tier", "gold", "--table", path)
	if got.Tier != "gold" || got.Epoch != 5 || got.Revision != 4 {
		t.Errorf("set: %+v", got)
	}
}

// A producer that does not know the new table yet goes on with the old one.
func TestTableSetNamesARecordThatCameTooLate(t *testing.T) {
	brokers := startBroker(t)
	manual := connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	path := tempFile(t, "routing.yaml", liveTable)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	source, err := store.OpenFile(ctx, path, store.FileConfig{Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	changed := source.Changed()
	var late sync.WaitGroup
	late.Go(func() {
		select {
		case <-changed:
			produceKeys(t, manual, "acme")
		case <-ctx.Done():
		}
	})
	got := runArgs(t, "table", "set", "orders", "acme", "--partitions", "3", "--table", path, "--brokers", brokers, "--settle", "1500ms")
	late.Wait()
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	if got.code != exitNo || !strings.Contains(got.stderr, `tenant "acme" to partition 0`) || !strings.Contains(got.stdout, "partition 3") {
		t.Errorf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
}

func TestTablePushAndDiff(t *testing.T) {
	brokers := startBroker(t)
	path := tempFile(t, "routing.yaml", liveTable)
	edited := tempFile(t, "edited.yaml", strings.Replace(liveTable, "[0]", "[2]", 1)+"    slot_overrides: {1: {partition: 0}, 2: {partition: 0}}\n")
	volumes := tempFile(t, "volumes.tsv", "acme\t30\nglobex\t70\n")

	diff := one[diffJSON](t, "table", "diff", edited, "--table", path, "--volumes", volumes)
	if diff.SlotsMoved != 2 || len(diff.Placements) != 1 || diff.VolumeMoved == nil || *diff.VolumeMoved != 0.3 {
		t.Errorf("diff: %+v, want 2 slots, acme, and 30 %% of the volume", diff)
	}
	if want := (placedDiffJSON{"orders", "acme", "61636d65", placeJSON{[]int32{0}, "", ""}, placeJSON{[]int32{2}, "", ""}}); !cmp.Equal(diff.Placements[0], want) {
		t.Errorf("placement %+v, want %+v", diff.Placements[0], want)
	}
	pushed := one[pushJSON](t, "table", "push", edited, "--table", path, "--brokers", brokers, "--settle", "1ms")
	if pushed.Revision != 4 || pushed.SlotsMoved != 2 {
		t.Errorf("push: %+v", pushed)
	}
	topic, _ := readTable(t, path).Topic("orders")
	if p, _ := topic.Placement("acme"); p.Epoch != 6 || !cmp.Equal(p.Partitions, []int32{2}) || topic.SlotPartition(1) != 0 {
		t.Errorf("after the push acme is placed %+v and slot 1 on %d", p, topic.SlotPartition(1))
	}
	same := runArgs(t, "table", "diff", path, path)
	if same.code != exitDone || same.stdout != "nothing moves\n" {
		t.Errorf("diff with itself: exit code %d, stdout %q", same.code, same.stdout)
	}
	rehashed := tempFile(t, "rehashed.yaml", strings.Replace(liveTable, "murmur2-kafka", "xxhash64", 1))
	runArgs(t, "table", "push", rehashed, "--table", path, "--brokers", brokers).wantError(t, exitNo, "hash", "fixed")
}

func TestTablePruneRemovesTenantsWithoutTraffic(t *testing.T) {
	brokers := startBroker(t)
	manual := connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produceKeys(t, manual, "acme")
	path := tempFile(t, "routing.yaml", strings.Replace(liveTable, "placements: {", "placements: {gone: {partitions: [0]}, ", 1))

	dry := one[pruneJSON](t, "table", "prune", "--dry-run", "--table", path, "--brokers", brokers)
	if len(dry.Idle) != 1 || dry.Idle[0].Tenant != "gone" || dry.Pruned || dry.Revision != 3 {
		t.Errorf("dry run: %+v, want gone alone", dry)
	}
	done := one[pruneJSON](t, "table", "prune", "--table", path, "--brokers", brokers, "--settle", "1ms")
	topic, _ := readTable(t, path).Topic("orders")
	if !done.Pruned || done.Revision != 4 || !cmp.Equal(topic.PlacedTenants(), []string{"acme"}) {
		t.Errorf("prune: %+v, tenants left %v", done, topic.PlacedTenants())
	}
	again := one[pruneJSON](t, "table", "prune", "--table", path, "--brokers", brokers)
	if len(again.Idle) != 0 || again.Pruned {
		t.Errorf("again: %+v", again)
	}
}

func TestTableCheckFindsWhatIsWrong(t *testing.T) {
	brokers := startBroker(t)
	good := tempFile(t, "good.yaml", liveTable)
	runArgs(t, "table", "check", "--table", good, "--brokers", brokers).wantDone(t)
	for name, c := range map[string]struct {
		content string
		code    int
		parts   []string
	}{
		"unknown field":         {strings.Replace(liveTable, "epoch: 5\n", "epok: 5\n", 1), exitNo, []string{"bad.yaml:7", "epok"}},
		"outside the topic":     {strings.Replace(liveTable, "[0]", "[8]", 1), exitNo, []string{"bad.yaml:8", "partition 8"}},
		"not a table":           {"hello", exitNo, []string{"bad.yaml"}},
		"more than the cluster": {strings.Replace(liveTable, "partitions: 8", "partitions: 9", 1), exitNo, []string{"orders", "8 partitions", "9"}},
		"a topic that is not":   {strings.Replace(liveTable, "orders:", "nowhere:", 1), exitNo, []string{"nowhere", "does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := tempFile(t, "bad.yaml", c.content)
			runArgs(t, "table", "check", "--table", bad, "--brokers", brokers).wantError(t, c.code, c.parts...)
		})
	}
	runArgs(t, "table", "check", "--table", good, "--brokers", "127.0.0.1:1").wantError(t, exitKafka, "127.0.0.1:1")
}

func TestTableGetPrintsTables(t *testing.T) {
	path := tempFile(t, "routing.yaml", routeTable)
	whole := runArgs(t, "table", "get", "--table", path)
	whole.wantDone(t)
	again := readTable(t, tempFile(t, "again.yaml", whole.stdout))
	if again.Revision() != 17 || len(again.TopicNames()) != 2 {
		t.Errorf("printed table: revision %d, topics %v", again.Revision(), again.TopicNames())
	}
	part := runArgs(t, "table", "get", "orders-interactive", "--table", path)
	part.wantDone(t)
	if got := readTable(t, tempFile(t, "part.yaml", part.stdout)).TopicNames(); len(got) != 1 {
		t.Errorf("topics %v, want one", got)
	}
	if got := rows[placementJSON](t, runArgs(t, "table", "get", "--table", path, "--format", "json")); len(got) != 6 {
		t.Errorf("%d placements, want 6", len(got))
	}
	text := runArgs(t, "table", "get", "orders", "acme-corp", "hooli", "globex", "nobody", "--table", path)
	text.wantDone(t)
	for _, want := range []string{"acme-corp goes to partition 0, since epoch 9", "hooli is spread by random over partitions 2-3", "globex goes to topic elsewhere", "nobody follows its slot"} {
		if !strings.Contains(text.stdout, want) {
			t.Errorf("stdout %q does not hold %q", text.stdout, want)
		}
	}
}

func TestTableRefuses(t *testing.T) {
	brokers := startBroker(t)
	path := tempFile(t, "routing.yaml", liveTable)
	for _, c := range []struct {
		args  []string
		code  int
		parts []string
	}{
		{[]string{"table", "init", "--from-topic", "orders"}, exitUsage, []string{"clients"}},
		{[]string{"table", "init", "--from-topic", "orders", "--clients", "rust", "--brokers", brokers}, exitUsage, []string{"rust", "librdkafka"}},
		{[]string{"table", "init", "--from-topic", "nowhere", "--clients", "java", "--brokers", brokers}, exitKafka, []string{"nowhere", "does not exist"}},
		{[]string{"table", "init", "--from-topic", "orders", "--clients", "java", "--brokers", "127.0.0.1:1"}, exitKafka, []string{"127.0.0.1:1"}},
		{[]string{"table", "verify", "--table", path, "--topic", "nowhere", "--brokers", brokers}, exitUsage, []string{"nowhere"}},
		{[]string{"table", "verify", "--brokers", brokers}, exitUsage, []string{"--table"}},
		{[]string{"table", "verify", "--table", path, "--brokers", brokers, "--per-partition", "0"}, exitUsage, []string{"--per-partition"}},
		{[]string{"table", "set", "orders", "acme", "--table", path}, exitUsage, []string{"--partitions"}},
		{[]string{"table", "set", "orders", "--table", path}, exitUsage, []string{"tenant"}},
		{[]string{"table", "set", "orders", "acme", "--partitions", "8", "--table", path}, exitUsage, []string{"partition 8", "0 to 7"}},
		{[]string{"table", "set", "orders", "acme", "--partitions", "1,2", "--table", path}, exitUsage, []string{"spread"}},
		{[]string{"table", "set", "orders", "acme", "--partitions", "1,2", "--spread", "key", "--table", path}, exitUsage, []string{"tenant_of"}},
		{[]string{"table", "set", "orders", "acme", "--tier", "silver", "--table", path}, exitUsage, []string{"silver"}},
		{[]string{"table", "set", "invoices", "acme", "--partitions", "1", "--table", path}, exitUsage, []string{"invoices"}},
		{[]string{"table", "set", "orders", "--slot", "9999", "--partitions", "1", "--table", path}, exitUsage, []string{"9999"}},
		{[]string{"table", "set", "orders", "acme", "--slot", "1", "--partitions", "1", "--table", path}, exitUsage, []string{"--slot"}},
		{[]string{"table", "unset", "orders", "globex", "--table", path}, exitUsage, []string{"globex"}},
		{[]string{"table", "diff", path}, exitUsage, []string{"--table"}},
		{[]string{"table", "push", "/does/not/exist", "--table", path}, exitUsage, []string{"/does/not/exist"}},
		{[]string{"table", "prune", "--table", path, "--older", "0s", "--brokers", brokers}, exitUsage, []string{"--older"}},
		{[]string{"tenant", "forget", "nobody", "--table", path}, exitNo, []string{"nobody"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Setenv("KAFKA_BROKERS", "")
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			runArgs(t, c.args...).wantError(t, c.code, c.parts...)
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the table changed: %v\n%s", err, after)
			}
		})
	}
}

func TestPlanWhalesFromALiveTopic(t *testing.T) {
	brokers := startBroker(t)
	client := connect(t, brokers)
	stop := produceUntilStopped(t, client, "whale", "whale", "whale", "whale", "whale", "whale", "minnow", "plaice")
	got := one[whalesJSON](t, "plan", "whales", "--from-topic", "orders", "--for", "300ms", "--brokers", brokers, "--partitions", "4")
	stop()
	if len(got.Whales) == 0 || got.Whales[0].Tenant != "whale" || got.Whales[0].Share < 0.5 || got.Whales[0].Share > 0.9 {
		t.Errorf("whales %+v, want the whale with about three quarters", got.Whales)
	}
	runArgs(t, "plan", "hash", "--from-topic", "orders", "--for", "50ms", "--brokers", brokers, "--partitions", "4").
		wantError(t, exitNo, "no record with a tenant", "--for")
	runArgs(t, "plan", "hash", "--from-topic", "nowhere", "--brokers", brokers, "--partitions", "4").
		wantError(t, exitKafka, "nowhere", "does not exist")
}

func tenantNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "tenant-" + strconv.Itoa(i)
	}
	return names
}
