package partitioner

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// tableOf makes a table of one topic, orders.
func tableOf(t testing.TB, spec routing.TopicSpec) *routing.Table {
	t.Helper()
	return tableWith(t, map[string]routing.TopicSpec{"orders": spec})
}

func tableWith(t testing.TB, topics map[string]routing.TopicSpec) *routing.Table {
	t.Helper()
	for name, spec := range topics {
		for _, p := range spec.Placements {
			spec.Epoch = max(spec.Epoch, p.Epoch)
		}
		topics[name] = spec
	}
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// ask does what kgo does for each record.
func ask(t kgo.TopicPartitioner, r *kgo.Record, n int) int {
	t.RequiresConsistency(r)
	if b, ok := t.(kgo.TopicBackupPartitioner); ok {
		return b.PartitionByBackup(r, n, idle{n})
	}
	return t.Partition(r, n)
}

// idle says that no partition has a backlog.
type idle struct{ n int }

func (i idle) Next() (int, int64) { return i.n - 1, 0 }
func (i idle) Rem() int           { return i.n }

func TestPartitionFollowsTheTable(t *testing.T) {
	table := tableOf(t, routing.TopicSpec{
		Partitions: 8, Slots: 64, TenantOf: routing.TenantRule{From: routing.FromPrefix, Arg: ":"},
		Placements: map[string]routing.Placement{
			"acme":    {Partitions: []int32{7}, Epoch: 1},
			"initech": {Partitions: []int32{2, 4, 6}, Spread: routing.SpreadKey, Epoch: 2},
		},
	})
	topic, _ := table.Topic("orders")
	parts := New(store.Fixed(table), Config{}).ForTopic("orders")
	rapid.Check(t, func(rt *rapid.T) {
		tenant := rapid.SampledFrom([]string{"acme", "initech", "a", "b", "c", "\x00\xff"}).Draw(rt, "tenant")
		key := []byte(tenant + ":" + rapid.String().Draw(rt, "order"))
		want := topic.Lookup([]byte(tenant), key).Partition
		r := &kgo.Record{Topic: "orders", Key: key}
		if got := ask(parts, r, 8); got != int(want) {
			rt.Errorf("key %q went to %d, the table says %d", key, got, want)
		}
		if !parts.RequiresConsistency(r) {
			rt.Error("does not require consistency")
		}
	})
}

func TestPartitionRefusesWithAReason(t *testing.T) {
	table := tableWith(t, map[string]routing.TopicSpec{
		"orders": {
			Partitions: 8, TenantOf: routing.TenantRule{From: routing.FromHeader, Arg: "tenant"},
			Placements: map[string]routing.Placement{
				"spread":   {Partitions: []int32{1, 2}, Spread: routing.SpreadKey, Epoch: 3},
				"umbrella": {Topic: "orders-interactive", Epoch: 4},
				"last":     {Partitions: []int32{7}, Epoch: 5},
			},
		},
		"wrapped": {Partitions: 8, Wrapped: true},
	})
	of := func(tenant string) []kgo.RecordHeader {
		return []kgo.RecordHeader{{Key: "tenant", Value: []byte(tenant)}}
	}
	for name, c := range map[string]struct {
		record kgo.Record
		n      int
		want   error
		text   string
	}{
		"no tenant":       {kgo.Record{Topic: "orders", Key: []byte("k")}, 8, ErrNoTenant, "topic orders of 8"},
		"empty tenant":    {kgo.Record{Topic: "orders", Headers: of("")}, 8, ErrNoTenant, "topic orders"},
		"no key":          {kgo.Record{Topic: "orders", Headers: of("spread")}, 8, ErrNoKey, `tenant "spread"`},
		"another topic":   {kgo.Record{Topic: "orders", Headers: of("umbrella")}, 8, ErrOtherTopic, `tenant "umbrella"`},
		"fewer partition": {kgo.Record{Topic: "orders", Headers: of("last")}, 7, ErrOutOfRange, `topic orders for tenant "last" partition 7 of 7 (epoch 5 of table revision 1)`},
		"wrapped topic":   {kgo.Record{Topic: "wrapped", Key: []byte("k")}, 8, ErrNotWrapped, "topic wrapped"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &c.record
			if got := ask(New(store.Fixed(table), Config{}).ForTopic(r.Topic), r, c.n); got != -1 {
				t.Fatalf("answered %d", got)
			}
			err := Cause(r, errors.New("invalid record partitioning choice of -1"))
			var routeErr *RouteError
			if !errors.Is(err, c.want) || !errors.As(err, &routeErr) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("the reason is %v", err)
			}
		})
	}
}

func TestCauseLeavesOtherErrorsAlone(t *testing.T) {
	err := errors.New("broker said no")
	if got := Cause(&kgo.Record{}, err); got != err {
		t.Errorf("got %v", got)
	}
	r := &kgo.Record{}
	refuse(r, ErrNoTenant)
	if got := Cause(r, nil); got != nil {
		t.Errorf("success became %v", got)
	}
}

func TestRecordsWithoutATenantSpread(t *testing.T) {
	table := tableOf(t, routing.TopicSpec{Partitions: 8, Shared: []int32{2, 3, 5}})
	parts := New(store.Fixed(table), Config{OnNoTenant: SpreadNoTenant}).ForTopic("orders")
	counts := map[int]int{}
	for range 3 * spreadRun * 10 {
		counts[ask(parts, &kgo.Record{Topic: "orders"}, 8)]++
	}
	if len(counts) != 3 || counts[2] != 10*spreadRun || counts[3] != 10*spreadRun || counts[5] != 10*spreadRun {
		t.Errorf("spread as %v", counts)
	}
}

func TestRandomSpreadStaysWithinThePlacement(t *testing.T) {
	table := tableOf(t, routing.TopicSpec{Partitions: 8, Placements: map[string]routing.Placement{
		"big": {Partitions: []int32{1, 6}, Spread: routing.SpreadRandom, Epoch: 1},
	}})
	parts := New(store.Fixed(table), Config{}).ForTopic("orders")
	counts := map[int]int{}
	for range 2 * spreadRun {
		counts[ask(parts, &kgo.Record{Topic: "orders", Key: []byte("big")}, 8)]++
	}
	if len(counts) != 2 || counts[1] != spreadRun || counts[6] != spreadRun {
		t.Errorf("spread as %v", counts)
	}
}

func TestHonorPartition(t *testing.T) {
	table := tableOf(t, routing.TopicSpec{Partitions: 8})
	topic, _ := table.Topic("orders")
	parts := New(store.Fixed(table), Config{HonorPartition: true}).ForTopic("orders")
	for partition, want := range map[int32]int{3: 3, 0: 0, 8: -1, -1: int(topic.Lookup([]byte("k"), nil).Partition)} {
		r := &kgo.Record{Topic: "orders", Key: []byte("k"), Partition: partition}
		if got := ask(parts, r, 8); got != want {
			t.Errorf("Partition %d went to %d, want %d", partition, got, want)
		}
	}
}

func TestFallbackIsTheClientsOwnDefault(t *testing.T) {
	table := tableOf(t, routing.TopicSpec{Partitions: 8})
	parts := New(store.Fixed(table), Config{}).ForTopic("elsewhere")
	theirs := kgo.UniformBytesPartitioner(64<<10, true, true, nil).ForTopic("elsewhere")
	for i := range 100 {
		r := &kgo.Record{Topic: "elsewhere", Key: fmt.Append(nil, "key-", i)}
		if got, want := ask(parts, r, 12), ask(theirs, r, 12); got != want {
			t.Errorf("key %q went to %d, kgo sends it to %d", r.Key, got, want)
		}
		if !parts.RequiresConsistency(r) || parts.RequiresConsistency(&kgo.Record{Topic: "elsewhere"}) {
			t.Error("consistency is not the fallback's")
		}
	}
}

// TestFallbackKeepsItsOptionalMethods covers what kgo looks for by assertion.
func TestFallbackKeepsItsOptionalMethods(t *testing.T) {
	table := tableOf(t, routing.TopicSpec{Partitions: 8})
	for name, c := range map[string]struct {
		fallback      kgo.Partitioner
		backup, batch bool
	}{
		"uniform bytes": {kgo.UniformBytesPartitioner(1, true, true, nil), true, false},
		"sticky key":    {kgo.StickyKeyPartitioner(nil), false, true},
		"least backup":  {kgo.LeastBackupPartitioner(), true, true},
		"manual":        {kgo.ManualPartitioner(), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			parts := New(store.Fixed(table), Config{Fallback: c.fallback}).ForTopic("elsewhere")
			_, backup := parts.(kgo.TopicBackupPartitioner)
			onBatch, batch := parts.(kgo.TopicPartitionerOnNewBatch)
			if backup != c.backup || batch != c.batch {
				t.Errorf("backup %v, batch %v", backup, batch)
			}
			if batch {
				onBatch.OnNewBatch()
			}
			if got := ask(parts, &kgo.Record{Topic: "elsewhere", Partition: 1}, 2); got < 0 || got > 1 {
				t.Errorf("answered %d", got)
			}
		})
	}
}

// TestConsistencyAndPartitionGoByOneTable would send a record of a topic that
// leaves the table to an index of the wrong list: kgo takes the list of all
// partitions or of those with a leader by the first answer.
func TestConsistencyAndPartitionGoByOneTable(t *testing.T) {
	with := tableOf(t, routing.TopicSpec{Partitions: 8, Placements: map[string]routing.Placement{"k": {Partitions: []int32{7}, Epoch: 1}}})
	without := tableWith(t, map[string]routing.TopicSpec{"other": {Partitions: 1}})
	src := swapping(without)
	parts := New(src, Config{Fallback: kgo.RoundRobinPartitioner()}).ForTopic("orders")
	r := &kgo.Record{Topic: "orders", Key: []byte("k")}
	if parts.RequiresConsistency(r) {
		t.Fatal("the fallback does not require consistency")
	}
	src.set(with)
	if got := parts.Partition(r, 3); got != 0 { // of those with a leader
		t.Errorf("answered %d of the 3 with a leader, by a table that the first answer did not know", got)
	}
	if got := ask(parts, r, 8); got != 7 {
		t.Errorf("the next record went to %d", got)
	}
}

// panicky panics in the method of its name.
type panicky string

func (p panicky) ForTopic(string) kgo.TopicPartitioner {
	if p == "ForTopic" {
		panic("in ForTopic")
	}
	return panickyTopic(p)
}

type panickyTopic string

func (p panickyTopic) RequiresConsistency(*kgo.Record) bool {
	if p == "RequiresConsistency" {
		panic("in RequiresConsistency")
	}
	return false
}

func (p panickyTopic) Partition(*kgo.Record, int) int {
	if p == "Partition" || p == "RequiresConsistency" {
		panic("in Partition")
	}
	return 99
}

func (p panickyTopic) OnNewBatch() { panic("in OnNewBatch") }

func TestTrap1APanicOfTheFallbackBecomesAReason(t *testing.T) {
	table := tableOf(t, routing.TopicSpec{Partitions: 8})
	for _, where := range []panicky{"ForTopic", "RequiresConsistency", "Partition", "OnNewBatch"} {
		t.Run(string(where), func(t *testing.T) {
			parts := New(store.Fixed(table), Config{Fallback: where}).ForTopic("elsewhere")
			if b, ok := parts.(kgo.TopicPartitionerOnNewBatch); ok {
				b.OnNewBatch()
			}
			r := &kgo.Record{Topic: "elsewhere"}
			if got := ask(parts, r, 3); got != -1 {
				t.Errorf("answered %d", got)
			}
			want := ErrPanic
			if where == "OnNewBatch" {
				want = ErrOutOfRange // it chose 99
			}
			if err := Cause(r, errors.New("x")); !errors.Is(err, want) {
				t.Errorf("the reason is %v", err)
			}
		})
	}
}

func TestTenantOf(t *testing.T) {
	headers := func(pairs ...string) (list []kgo.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return list
	}
	for _, c := range []struct {
		rule   string
		record kgo.Record
		want   string
	}{
		{"key", kgo.Record{Key: []byte("acme")}, "acme"},
		{"key", kgo.Record{}, ""},
		{"header:t", kgo.Record{Key: []byte("k"), Headers: headers("t", "acme")}, "acme"},
		{"header:t", kgo.Record{Headers: headers("t", "old", "x", "y", "t", "new")}, "new"},
		{"header:t", kgo.Record{Key: []byte("k"), Headers: headers("T", "acme")}, ""},
		{"header:t", kgo.Record{Headers: headers("t", "")}, ""},
		{"prefix::", kgo.Record{Key: []byte("acme:1:2")}, "acme"},
		{"prefix::", kgo.Record{Key: []byte("acme")}, ""},
		{"prefix::", kgo.Record{Key: []byte(":1")}, ""},
		{"prefix::", kgo.Record{}, ""},
		{"prefix:--", kgo.Record{Key: []byte("a-b--c--d")}, "a-b"},
		{"prefix:--", kgo.Record{Key: []byte("a-b-")}, ""},
		{"prefix:\x00\x00", kgo.Record{Key: []byte("\xff\x00\x00")}, "\xff"},
	} {
		rule, err := routing.ParseTenantRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		tenant, ok := TenantOf(rule, &c.record)
		if string(tenant) != c.want || ok != (c.want != "") {
			t.Errorf("%s of key %q headers %v: %q, %v", c.rule, c.record.Key, c.record.Headers, tenant, ok)
		}
		if n := testing.AllocsPerRun(100, func() { TenantOf(rule, &c.record) }); n != 0 {
			t.Errorf("%s allocates %v times", c.rule, n)
		}
	}
}

// FuzzTenantOfPrefix compares the search with bytes.Cut.
func FuzzTenantOfPrefix(f *testing.F) {
	f.Add([]byte("a--b"), "--")
	f.Add([]byte("aaab"), "aab")
	f.Fuzz(func(t *testing.T, key []byte, sep string) {
		if sep == "" {
			return
		}
		want, _, found := bytes.Cut(key, []byte(sep))
		got, ok := TenantOf(routing.TenantRule{From: routing.FromPrefix, Arg: sep}, &kgo.Record{Key: key})
		if ok != (found && len(want) > 0) || ok && !bytes.Equal(got, want) {
			t.Errorf("key %q separator %q: %q, %v", key, sep, got, ok)
		}
	})
}

// BenchmarkPartition asks as kgo does, beside the partitioner that franz-go and
// Java clients use for keys. Its own time per record must not exceed theirs.
func BenchmarkPartition(b *testing.B) {
	placements := func(n int) map[string]routing.Placement {
		m := make(map[string]routing.Placement, n)
		for i := range n {
			m[fmt.Sprintf("@whale-%06d/service", i)] = routing.Placement{Partitions: []int32{int32(i % 32)}, Epoch: 1}
		}
		return m
	}
	ordinary, whales := make([]kgo.Record, 4096), make([]kgo.Record, 4096)
	for i := range ordinary {
		ordinary[i] = kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "@tenant-%06d/service", i)}
		whales[i] = kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "@whale-%06d/service", i)}
	}
	tabled := func(n int) kgo.TopicPartitioner {
		return New(store.Fixed(tableOf(b, routing.TopicSpec{Partitions: 32, Placements: placements(n)})), Config{}).ForTopic("orders")
	}
	for _, c := range []struct {
		name    string
		parts   kgo.TopicPartitioner
		records []kgo.Record
	}{
		{"sticky_key", kgo.StickyKeyPartitioner(nil).ForTopic("orders"), ordinary},
		{"placements=0", tabled(0), ordinary},
		{"placements=10000", tabled(10_000), ordinary},
		{"placements=10000/hits", tabled(10_000), whales},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			backup, byBackup := c.parts.(kgo.TopicBackupPartitioner)
			for i := 0; b.Loop(); i++ {
				r := &c.records[i&4095]
				c.parts.RequiresConsistency(r)
				if byBackup {
					backup.PartitionByBackup(r, 32, nil)
				} else {
					c.parts.Partition(r, 32)
				}
			}
		})
	}
}
