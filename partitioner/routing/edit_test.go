package routing_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func edit(t testing.TB, table *routing.Table, edits ...routing.Edit) *routing.Table {
	t.Helper()
	next, err := table.Edit(edits...)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func placement(t testing.TB, table *routing.Table, tenant string) routing.Placement {
	t.Helper()
	topic, ok := table.Topic("orders")
	if !ok {
		t.Fatal("no topic orders")
	}
	p, ok := topic.Placement(tenant)
	if !ok {
		t.Fatalf("%s has no placement", tenant)
	}
	return p
}

func TestEachChangeOfAPlacementTakesTheNextEpoch(t *testing.T) {
	table := example(t)
	steps := []struct {
		name  string
		edit  routing.Edit
		epoch uint64
		want  routing.Placement
	}{
		{"set", routing.SetPlacement("orders", "acme-corp", routing.Placement{Partitions: []int32{4}, Epoch: 99}), 13, routing.Placement{Partitions: []int32{4}, Epoch: 13}},
		{"a tier alone is no move", routing.SetPlacement("orders", "acme-corp", routing.Placement{Partitions: []int32{4}, Tier: "enterprise"}), 13, routing.Placement{Partitions: []int32{4}, Tier: "enterprise", Epoch: 13}},
		{"unset keeps the tier and the epoch's memory", routing.UnsetPlacement("orders", "acme-corp"), 14, routing.Placement{FollowSlot: true, Tier: "enterprise", Epoch: 14}},
		{"tier of a placed tenant", routing.SetTenantTier("orders", "acme-corp", "standard"), 14, routing.Placement{FollowSlot: true, Tier: "standard", Epoch: 14}},
		{"back", routing.SetPlacement("orders", "acme-corp", routing.Placement{Partitions: []int32{4}}), 15, routing.Placement{Partitions: []int32{4}, Epoch: 15}},
	}
	for i, s := range steps {
		table = edit(t, table, s.edit)
		topic, _ := table.Topic("orders")
		if topic.Epoch() != s.epoch || table.Revision() != 18+uint64(i) {
			t.Errorf("%s: epoch %d, revision %d, want %d, %d", s.name, topic.Epoch(), table.Revision(), s.epoch, 18+i)
		}
		if diff := cmp.Diff(s.want, placement(t, table, "acme-corp")); diff != "" {
			t.Errorf("%s: %s", s.name, diff)
		}
	}
}

func TestEditsInOneRevisionTakeAnEpochEach(t *testing.T) {
	table := edit(t, example(t),
		routing.SetPlacement("orders", "a", routing.Placement{Partitions: []int32{4}}),
		routing.SetSlots("orders", map[int32]int32{1: 31, 2: 30, 17: 5}),
		routing.Grow("orders", 40),
		routing.SetProducers("orders", true))
	topic, _ := table.Topic("orders")
	if table.Revision() != 18 || topic.Epoch() != 14 || topic.Partitions() != 40 || !topic.Wrapped() {
		t.Errorf("revision %d, epoch %d, partitions %d, wrapped %v", table.Revision(), topic.Epoch(), topic.Partitions(), topic.Wrapped())
	}
	want := map[int32]routing.SlotPlacement{1: {Partition: 31, Epoch: 14}, 2: {Partition: 30, Epoch: 14}, 17: {Partition: 5, Epoch: 12}}
	if diff := cmp.Diff(want, table.Spec().Topics["orders"].SlotOverrides); diff != "" {
		t.Error(diff)
	}
	if len(topic.Shared()) != 30 {
		t.Errorf("growth changed the shared partitions to %v", topic.Shared())
	}
}

func TestTenantTiers(t *testing.T) {
	table := edit(t, example(t), routing.SetTenantTier("orders", "initrode", "interactive"))
	topic, _ := table.Topic("orders")
	if got := topic.Tier([]byte("initrode")).Name; got != "interactive" {
		t.Errorf("tier is %s", got)
	}
	table = edit(t, table, routing.SetPlacement("orders", "initrode", routing.Placement{Partitions: []int32{3}, Tier: "enterprise"}))
	topic, _ = table.Topic("orders")
	if got := topic.Tier([]byte("initrode")).Name; got != "enterprise" {
		t.Errorf("tier is %s: a placement's tier takes the place of the one before", got)
	}
	table = edit(t, table, routing.ForgetTenant("orders", "initrode"), routing.SetTenantTier("orders", "hooli", ""))
	topic, _ = table.Topic("orders")
	for _, tenant := range []string{"initrode", "hooli"} {
		if got := topic.Tier([]byte(tenant)).Name; got != "standard" {
			t.Errorf("%s is still in tier %s", tenant, got)
		}
	}
	if _, ok := topic.Placement("initrode"); ok {
		t.Error("a forgotten tenant has a placement")
	}
}

func TestTopicsComeAndGo(t *testing.T) {
	table := edit(t, example(t), routing.SetTopic("payments", routing.TopicSpec{Partitions: 4}), routing.RemoveTopic("orders"))
	if diff := cmp.Diff([]string{"payments"}, table.TopicNames()); diff != "" {
		t.Error(diff)
	}
	var names []string
	for _, d := range routing.Diff(example(t), table) {
		switch {
		case d.Added:
			names = append(names, "+"+d.Topic)
		case d.Removed:
			names = append(names, "-"+d.Topic)
		}
	}
	if diff := cmp.Diff([]string{"-orders", "+payments"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestImpossibleEdits(t *testing.T) {
	for _, c := range []struct {
		name, want string
		edits      []routing.Edit
	}{
		{"unknown topic", "topics.payments: the table has no such topic", []routing.Edit{routing.Grow("payments", 40)}},
		{"removed topic", "topics.orders: the table has no such topic", []routing.Edit{routing.RemoveTopic("orders"), routing.Grow("orders", 40)}},
		{"remove twice", "topics.orders: the table has no such topic", []routing.Edit{routing.RemoveTopic("orders"), routing.RemoveTopic("orders")}},
		{"outside", "topics.orders.placements.a.partitions: partition 32 is outside", []routing.Edit{routing.SetPlacement("orders", "a", routing.Placement{Partitions: []int32{32}})}},
		{"nothing to unset", "topics.orders.placements.a: the tenant has no placement", []routing.Edit{routing.UnsetPlacement("orders", "a")}},
		{"already unset", "topics.orders.placements.wonka: the tenant has no placement", []routing.Edit{routing.UnsetPlacement("orders", "wonka")}},
		{"nothing to forget", "topics.orders.tenants.a: the table says nothing", []routing.Edit{routing.ForgetTenant("orders", "a")}},
		{"forget a placed tenant of wrapped producers", "topics.orders.placements.acme-corp: the tenant is placed", []routing.Edit{routing.SetProducers("orders", true), routing.ForgetTenant("orders", "acme-corp")}},
		{"shrink", "topics.orders.partitions: cannot shrink from 32 to 31", []routing.Edit{routing.Grow("orders", 31)}},
		{"slot outside", "topics.orders.slot_overrides.4096: slot 4096 is outside", []routing.Edit{routing.SetSlots("orders", map[int32]int32{4096: 2})}},
		{"tier in use", `no tier "enterprise"`, []routing.Edit{routing.RemoveTier("orders", "enterprise")}},
		{"no such tier", "topics.orders.tiers.gold: the topic has no such tier", []routing.Edit{routing.RemoveTier("orders", "gold")}},
		{"tier of a tenant", `topics.orders.tenants.a.tier: no tier "gold"`, []routing.Edit{routing.SetTenantTier("orders", "a", "gold")}},
		{"bad weight", "topics.orders.tiers.gold.weight: must be 1 or more, is -1", []routing.Edit{routing.SetTier("orders", "gold", routing.Tier{Weight: -1})}},
		{"bad concurrency", "topics.orders.tiers.gold.max_concurrency: must be", []routing.Edit{routing.SetTier("orders", "gold", routing.Tier{MaxConcurrency: -1})}},
		{"bad rate", "topics.orders.tiers.gold.rate: must be above 0", []routing.Edit{routing.SetTier("orders", "gold", routing.Tier{Rate: -1})}},
		{"bad burst", "topics.orders.tiers.gold.burst: must be 1 or more", []routing.Edit{routing.SetTier("orders", "gold", routing.Tier{Rate: 1, Burst: -1})}},
		{"bad reserve", "topics.orders.tiers.gold.reserved: must be from 0", []routing.Edit{routing.SetTier("orders", "gold", routing.Tier{Reserved: -0.1})}},
		{"bad tenant rule", "topics.b.tenant_of: header: is not key", []routing.Edit{routing.SetTopic("b", routing.TopicSpec{Partitions: 1, TenantOf: routing.TenantRule{From: routing.FromHeader}})}},
		{"bad hash", "topics.b.hash: unknown hash hash(9)", []routing.Edit{routing.SetTopic("b", routing.TopicSpec{Partitions: 1, Hash: 9})}},
		{"bad spread", "spread: unknown spread(9)", []routing.Edit{routing.SetPlacement("orders", "a", routing.Placement{Partitions: []int32{1}, Spread: 9})}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := example(t).Edit(c.edits...)
			var e *routing.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %s", err, c.want)
			}
		})
	}
}

func TestWhatMayReplaceATable(t *testing.T) {
	data := func(string) bool { return true }
	empty := func(string) bool { return false }
	change := func(f func(*routing.TopicSpec)) *routing.Table {
		spec := example(t).Spec()
		spec.Revision++
		topic := spec.Topics["orders"]
		f(&topic)
		spec.Topics["orders"] = topic
		return newTable(t, spec)
	}
	wrapped := func(f func(*routing.TopicSpec)) *routing.Table {
		return change(func(s *routing.TopicSpec) { s.Wrapped = true; f(s) })
	}
	same := func(*routing.TopicSpec) {}
	for _, c := range []struct {
		name     string
		old, new *routing.Table
		hasData  func(string) bool
		want     string // empty: it may
	}{
		{"the same again", example(t), change(same), data, ""},
		{"the same revision", example(t), example(t), data, "revision: must be above 17"},
		{"hash", example(t), change(func(s *routing.TopicSpec) { s.Hash = routing.Blake2b64 }), data, "topics.orders.hash: is fixed while the topic has records: was xxhash64, would be blake2b-64"},
		{"hash without data", example(t), change(func(s *routing.TopicSpec) { s.Hash = routing.Blake2b64 }), empty, ""},
		{"slots", example(t), change(func(s *routing.TopicSpec) { s.Slots = 8192 }), data, "topics.orders.slots: is fixed"},
		{"tenant_of", example(t), change(func(s *routing.TopicSpec) { s.TenantOf.Arg = "t" }), data, "topics.orders.tenant_of: is fixed"},
		{"shared", example(t), change(func(s *routing.TopicSpec) { s.Shared = s.Shared[1:] }), data, "topics.orders.shared: is fixed while the topic has records: was 2-31, would be 3-31"},
		{"fewer partitions", change(func(s *routing.TopicSpec) { s.Partitions = 40 }), edit(t, change(same)), data, "topics.orders.partitions: cannot shrink from 40 to 32"},
		{"the counter goes back", example(t), change(func(s *routing.TopicSpec) {
			s.Epoch = 11
			s.SlotOverrides = nil
		}), data, "topics.orders.epoch: the counter cannot go back from 12 to 11"},
		{"topic removed", example(t), edit(t, example(t), routing.RemoveTopic("orders")), data, "topics.orders: cannot be removed"},
		{"empty topic removed", example(t), edit(t, example(t), routing.RemoveTopic("orders")), empty, ""},
		{"old epoch, any producer", example(t), change(func(s *routing.TopicSpec) {
			s.Placements["acme-corp"] = routing.Placement{Partitions: []int32{7}, Epoch: 9}
		}), data, ""},
		{"old epoch, wrapped", wrapped(same), edit(t, wrapped(func(s *routing.TopicSpec) {
			s.Placements["acme-corp"] = routing.Placement{Partitions: []int32{7}, Epoch: 9}
		})), data, "topics.orders.placements.acme-corp: moves without an epoch above 12"},
		{"old epoch of a slot, wrapped", wrapped(same), edit(t, wrapped(func(s *routing.TopicSpec) {
			s.SlotOverrides = map[int32]routing.SlotPlacement{17: {Partition: 6, Epoch: 12}}
		})), data, "topics.orders.slot_overrides.17: goes from partition 5 to 6 without an epoch above 12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.new.MayReplace(c.old, c.hasData)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

func TestRebaseOfAnEmptyTableKeepsWhatALostOneSaid(t *testing.T) {
	empty, err := routing.NewTable(routing.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	lost := example(t)
	next, err := routing.Rebase(empty, lost.Spec())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lost.Spec(), next.Spec()); diff != "" {
		t.Error(diff)
	}
}

func TestRebaseOfAFileThatForgotATenant(t *testing.T) {
	current := example(t)
	spec := current.Spec()
	spec.Revision = 1 // whatever a hand wrote
	topic := spec.Topics["orders"]
	topic.Epoch = 40
	delete(topic.Placements, "acme-corp")
	topic.Placements["globex"] = routing.Placement{Partitions: []int32{1}, Tier: "standard", Epoch: 33}
	topic.SlotOverrides = nil
	spec.Topics["orders"] = topic
	next, err := routing.Rebase(current, spec)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := next.Topic("orders"); got.Epoch() != 13 || next.Revision() != 18 {
		t.Errorf("epoch %d, revision %d, want 13, 18", got.Epoch(), next.Revision())
	}
	if diff := cmp.Diff(routing.Placement{FollowSlot: true, Epoch: 13}, placement(t, next, "acme-corp")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(routing.Placement{Partitions: []int32{1}, Tier: "standard"}, placement(t, next, "globex")); diff != "" {
		t.Error("a change of tier is no move: ", diff)
	}
	back := map[int32]routing.SlotPlacement{17: {Partition: 19, Epoch: 13}}
	if diff := cmp.Diff(back, next.Spec().Topics["orders"].SlotOverrides); diff != "" {
		t.Error("a slot that goes back to its base does so since an epoch: ", diff)
	}
}
