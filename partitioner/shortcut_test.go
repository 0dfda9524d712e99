package partitioner

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// TestTheShortcutAgreesWithTheTable compares both ways for tables that it
// serves and tables that it does not.
func TestTheShortcutAgreesWithTheTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		partitions := rapid.Int32Range(1, 40).Draw(rt, "partitions")
		slots := rapid.SampledFrom([]int32{1, 2, 8, 60, 64, 4096}).Filter(func(n int32) bool { return n >= partitions || n == 4096 }).Draw(rt, "slots")
		partition := rapid.Int32Range(0, partitions-1)
		tenants := rapid.SliceOfNDistinct(rapid.StringN(1, 8, 40), 1, 30, rapid.ID).Draw(rt, "tenants")
		spec := routing.TopicSpec{
			Partitions: partitions, Slots: slots, Epoch: 9,
			Hash:          rapid.SampledFrom([]routing.Hash{routing.XXHash64, routing.XXHash64, routing.Murmur2Kafka}).Draw(rt, "hash"),
			Placements:    map[string]routing.Placement{},
			SlotOverrides: map[int32]routing.SlotPlacement{},
		}
		for i, tenant := range tenants {
			switch i % 4 {
			case 0:
				spec.Placements[tenant] = routing.Placement{Partitions: []int32{partition.Draw(rt, "home")}, Epoch: 1}
			case 1:
				spec.Placements[tenant] = routing.Placement{FollowSlot: true, Epoch: 2}
			case 2:
				spec.SlotOverrides[rapid.Int32Range(0, slots-1).Draw(rt, "slot")] = routing.SlotPlacement{Partition: partition.Draw(rt, "override"), Epoch: 3}
			}
		}
		table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": spec}})
		if err != nil {
			rt.Fatal(err)
		}
		topic, _ := table.Topic("orders")
		parts := New(store.Fixed(table), Config{}).ForTopic("orders")
		for _, tenant := range tenants {
			r := &kgo.Record{Topic: "orders", Key: []byte(tenant)}
			for range 2 { // before and after the table is read
				if got, want := ask(parts, r, int(partitions)), topic.Lookup(r.Key, nil).Partition; got != int(want) {
					rt.Fatalf("tenant %q went to %d, the table says %d", tenant, got, want)
				}
			}
		}
	})
}

func TestTheShortcutIsTakenAndDroppedWithItsTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routing.yaml")
	content := "version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, slots: 64}\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	src, err := store.OpenFile(t.Context(), path, store.FileConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	parts := New(src, Config{}).ForTopic("orders")
	taken := func() bool { return parts.(byBackup).short.of == src.Table() }
	for i := range 20 {
		tenant, home := fmt.Sprint("tenant-", i), i%8
		next, err := src.Table().Edit(routing.SetPlacement("orders", tenant, routing.Placement{Partitions: []int32{int32(home)}}))
		if err != nil {
			t.Fatal(err)
		}
		ask(parts, &kgo.Record{Topic: "orders", Key: []byte("another")}, 8)
		if !taken() {
			t.Fatal("not taken")
		}
		if err := src.Write(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if got := ask(parts, &kgo.Record{Topic: "orders", Key: []byte(tenant)}, 8); got != home {
			t.Errorf("%s went to %d right after it was placed on %d", tenant, got, home)
		}
	}
	for name, spec := range map[string]routing.TopicSpec{
		"another hash":        {Partitions: 8, Hash: routing.Murmur2Kafka},
		"slots by remainder":  {Partitions: 8, Slots: 60},
		"the tenant's header": {Partitions: 8, TenantOf: routing.TenantRule{From: routing.FromHeader, Arg: "t"}},
		"a crowd":             pinned(8, crowded(8*crowd+1)),
	} {
		if name == "a crowd" {
			spec.Slots = 8
		}
		table := tableOf(t, spec)
		parts := New(store.Fixed(table), Config{}).ForTopic("orders").(byBackup)
		ask(parts, &kgo.Record{Topic: "orders", Key: []byte("k")}, 8)
		if parts.short.of == table {
			t.Errorf("%s: taken", name)
		}
	}
}

func crowded(n int) map[string]int32 {
	m := make(map[string]int32, n)
	for i := range n {
		m[fmt.Sprint("tenant-", i)] = int32(i % 8)
	}
	return m
}
