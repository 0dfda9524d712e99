package routing_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// parse reads a table that the test knows to be right.
func parse(t testing.TB, text string) *routing.Table {
	t.Helper()
	table, err := routing.Parse("table.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func example(t testing.TB) *routing.Table {
	t.Helper()
	text, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

func exampleTopic(t testing.TB) *routing.Topic {
	t.Helper()
	topic, ok := example(t).Topic("orders")
	if !ok {
		t.Fatal("no topic orders")
	}
	return topic
}

func TestExampleSaysWhatItSays(t *testing.T) {
	want := routing.Spec{Revision: 17, Topics: map[string]routing.TopicSpec{"orders": {
		Partitions: 32, Hash: routing.XXHash64, Slots: 4096, Epoch: 12,
		Shared:        []int32{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
		TenantOf:      routing.TenantRule{From: routing.FromHeader, Arg: "tenant"},
		SlotOverrides: map[int32]routing.SlotPlacement{17: {Partition: 5, Epoch: 12}},
		Placements: map[string]routing.Placement{
			"acme-corp": {Partitions: []int32{0}, Epoch: 9},
			"globex":    {Partitions: []int32{1}, Tier: "enterprise"},
			"initech":   {Partitions: []int32{28, 29, 30}, Spread: routing.SpreadKey},
			"soylent":   {Partitions: []int32{30, 31}, Spread: routing.SpreadRandom},
			"umbrella":  {Topic: "orders-interactive"},
			"wonka":     {FollowSlot: true, Epoch: 11},
			"\x00\xff":  {Partitions: []int32{3}},
		},
		Tiers: map[string]routing.Tier{
			"enterprise":  {Name: "enterprise", Weight: 50, MaxConcurrency: 8, Rate: 500, Burst: 1000},
			"standard":    {Name: "standard", Weight: 10},
			"interactive": {Name: "interactive", Weight: 10, Reserved: 0.2},
		},
		Tenants: map[string]routing.TenantSpec{"hooli": {Tier: "enterprise"}},
	}}}
	if diff := cmp.Diff(want, example(t).Spec(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestLookupFollowsTheTable(t *testing.T) {
	topic := exampleTopic(t)
	var moved []byte // a tenant in the slot that has an override
	for n := 0; moved == nil; n++ {
		tenant := []byte{byte(n), byte(n >> 8), 't'}
		if topic.Lookup(tenant, nil).Slot == 17 {
			moved = tenant
		}
	}
	cases := []struct {
		name   string
		tenant string
		key    []byte
		want   routing.Route
	}{
		{"pinned", "acme-corp", nil, routing.Route{Partition: 0, Partitions: []int32{0}, Epoch: 9, Rule: routing.RulePinned, Kind: routing.KindTenant}},
		{"pinned with a tier", "globex", nil, routing.Route{Partition: 1, Partitions: []int32{1}, Rule: routing.RulePinned, Kind: routing.KindTenant, Tier: "enterprise"}},
		{"spread by key without a key", "initech", nil, routing.Route{Partition: -1, Partitions: []int32{28, 29, 30}, Rule: routing.RuleSpread, Kind: routing.KindSpreadKey}},
		{"spread at random", "soylent", []byte("k"), routing.Route{Partition: -1, Partitions: []int32{30, 31}, Rule: routing.RuleSpread, Kind: routing.KindSpreadRandom}},
		{"another topic", "umbrella", nil, routing.Route{Partition: -1, Rule: routing.RulePinned, Kind: routing.KindTenant, Topic: "orders-interactive"}},
		{"not text", "\x00\xff", nil, routing.Route{Partition: 3, Partitions: []int32{3}, Rule: routing.RulePinned, Kind: routing.KindTenant}},
		{"slot override", string(moved), nil, routing.Route{Partition: 5, Partitions: []int32{5}, Epoch: 12, Rule: routing.RuleSlotOverride}},
		{"slot", "hooli", nil, routing.Route{Partition: base(topic, "hooli"), Partitions: []int32{base(topic, "hooli")}}},
		{"slot since an epoch", "wonka", nil, routing.Route{Partition: base(topic, "wonka"), Partitions: []int32{base(topic, "wonka")}, Epoch: 11}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.want.Hash = topic.Hash().Sum([]byte(c.tenant))
			c.want.Slot = topic.Hash().Slot(c.want.Hash, topic.Slots())
			got := topic.Lookup([]byte(c.tenant), c.key)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if p := topic.Partition([]byte(c.tenant), c.key); p != got.Partition {
				t.Errorf("Partition gives %d, Lookup %d", p, got.Partition)
			}
		})
	}
}

// base is where the slot rule alone sends a tenant.
func base(topic *routing.Topic, tenant string) int32 {
	shared := topic.Shared()
	slot := topic.Hash().Slot(topic.Hash().Sum([]byte(tenant)), topic.Slots())
	return shared[int(slot)%len(shared)]
}

func TestSpreadByKeyPicksByTheKeysHash(t *testing.T) {
	topic := exampleTopic(t)
	seen := map[int32]bool{}
	for i := range 256 {
		key := []byte{byte(i)}
		want := []int32{28, 29, 30}[topic.Hash().Sum(key)%3]
		if got := topic.Lookup([]byte("initech"), key).Partition; got != want {
			t.Fatalf("key %d goes to %d, want %d", i, got, want)
		}
		seen[want] = true
	}
	if len(seen) != 3 {
		t.Errorf("256 keys reached %d of 3 partitions", len(seen))
	}
	if topic.Lookup([]byte("initech"), []byte{}).Partition < 0 {
		t.Error("an empty key is a key")
	}
}

func TestTiers(t *testing.T) {
	topic := exampleTopic(t)
	for tenant, want := range map[string]string{
		"globex": "enterprise", "hooli": "enterprise", "acme-corp": "standard", "nobody": "standard",
	} {
		if got := topic.Tier([]byte(tenant)).Name; got != want {
			t.Errorf("%s is in tier %s, want %s", tenant, got, want)
		}
	}
	if diff := cmp.Diff([]string{"enterprise", "interactive", "standard"}, topic.TierNames()); diff != "" {
		t.Error(diff)
	}
	none := parse(t, "{version: 1, topics: {orders: {partitions: 4}}}")
	bare, _ := none.Topic("orders")
	want := routing.Tier{Name: "standard", Weight: 10}
	if got := bare.Tier([]byte("anyone")); got != want {
		t.Errorf("without tiers the standard one is %+v, want %+v", got, want)
	}
	if got, ok := bare.TierNamed("standard"); !ok || got != want {
		t.Errorf("TierNamed(standard) = %+v, %v", got, ok)
	}
	if _, ok := bare.TierNamed("gold"); ok {
		t.Error("a tier that the table lacks was found")
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	topic, _ := parse(t, "{version: 1, topics: {orders: {partitions: 3, tiers: {slow: {rate: 30/m}}}}}").Topic("orders")
	if topic.Slots() != routing.DefaultSlots || topic.Hash() != routing.XXHash64 || topic.Wrapped() {
		t.Errorf("slots %d, hash %s, wrapped %v", topic.Slots(), topic.Hash(), topic.Wrapped())
	}
	if diff := cmp.Diff([]int32{0, 1, 2}, topic.Shared()); diff != "" {
		t.Error(diff)
	}
	slow, _ := topic.TierNamed("slow")
	if want := (routing.Tier{Name: "slow", Weight: 10, Rate: 0.5, Burst: 1}); slow != want {
		t.Errorf("tier is %+v, want %+v", slow, want)
	}
}

func TestRouteFollowsAPlacementIntoAnotherTopic(t *testing.T) {
	table := parse(t, `
version: 1
topics:
  orders: {partitions: 8, placements: {acme: {topic: fast}, globex: {topic: elsewhere}}}
  fast: {partitions: 2, shared: "1", placements: {acme: {partitions: [0]}}}
`)
	for _, c := range []struct {
		topic, tenant, want string
		partition           int32
		ok                  bool
	}{
		{"orders", "acme", "fast", 0, true},
		{"orders", "globex", "elsewhere", -1, true},
		{"fast", "initech", "fast", 1, true},
		{"payments", "acme", "payments", 0, false},
	} {
		r, name, ok := table.Route(c.topic, []byte(c.tenant), nil)
		if r.Partition != c.partition || name != c.want || ok != c.ok {
			t.Errorf("Route(%s, %s) = partition %d of %s, %v", c.topic, c.tenant, r.Partition, name, ok)
		}
	}
}

func TestLookupsAllocateNothing(t *testing.T) {
	topic := exampleTopic(t)
	for _, tenant := range []string{"acme-corp", "initech", "nobody", "wonka", "hooli"} {
		tenant, key := []byte(tenant), []byte("key")
		sink := int32(0)
		if n := testing.AllocsPerRun(100, func() {
			sink += topic.Lookup(tenant, key).Partition + topic.Partition(tenant, key)
			sink += int32(topic.Tier(tenant).Weight)
		}); n != 0 {
			t.Errorf("%s: %v allocations", tenant, n)
		}
	}
}

func TestWhatATableGivesAwayIsACopy(t *testing.T) {
	table := example(t)
	before, err := table.YAML()
	if err != nil {
		t.Fatal(err)
	}
	spec := table.Spec()
	spec.Topics["orders"].Placements["acme-corp"].Partitions[0] = 9
	spec.Topics["orders"].Shared[0] = 9
	spec.Topics["orders"].SlotOverrides[17] = routing.SlotPlacement{}
	topic, _ := table.Topic("orders")
	topic.Shared()[0] = 9
	p, _ := topic.Placement("acme-corp")
	p.Partitions[0] = 9
	table.TopicNames()[0] = "x"
	after, err := table.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Error(diff)
	}
}

func TestATableKeepsNothingOfItsSpec(t *testing.T) {
	spec := example(t).Spec()
	table, err := routing.NewTable(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Topics["orders"].Placements["acme-corp"].Partitions[0] = 9
	topic, _ := table.Topic("orders")
	if got := topic.Partition([]byte("acme-corp"), nil); got != 0 {
		t.Errorf("acme-corp went to %d after the spec was changed", got)
	}
}
