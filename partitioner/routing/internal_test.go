package routing

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestFilterNeverLies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hash := Hash(rapid.IntRange(0, hashCount-1).Draw(t, "hash"))
		names := rapid.SliceOfNDistinct(rapid.StringN(1, 8, -1), 0, 200, rapid.ID[string]).Draw(t, "names")
		entries := make([]*entry, len(names))
		held := map[string]*entry{}
		for i, name := range names {
			entries[i] = newEntry(hash, name, Placement{})
			held[name] = entries[i]
		}
		x := newIndex(entries)
		for _, name := range append(names, rapid.SliceOfN(rapid.StringN(1, 8, -1), 0, 50).Draw(t, "others")...) {
			sum := hash.Sum([]byte(name))
			if held[name] != nil && !x.mayHold(sum) {
				t.Fatalf("the filter denies %q, which is there", name)
			}
			if got := x.find(sum, []byte(name)); got != held[name] {
				t.Fatalf("find(%q) = %v, want %v", name, got, held[name])
			}
		}
	})
}

func TestIndexHoldsTenantsOfOneSum(t *testing.T) {
	entries := make([]*entry, 50)
	for i := range entries {
		entries[i] = &entry{tenant: fmt.Sprint(i), sum: 0xdeadbeef}
	}
	x := newIndex(entries)
	for _, e := range entries {
		if x.find(e.sum, []byte(e.tenant)) != e {
			t.Errorf("%s is lost among tenants of the same hash", e.tenant)
		}
	}
	if x.find(0xdeadbeef, []byte("50")) != nil {
		t.Error("a tenant of the same hash without an entry was found")
	}
}

func TestFilterPassesFewOthers(t *testing.T) {
	for _, hash := range []Hash{XXHash64, Murmur2Kafka, FNV1aSarama, CRC32Librdkafka} {
		for _, n := range []int{10, 1000, 10_000} {
			entries := make([]*entry, n)
			for i := range entries {
				entries[i] = newEntry(hash, fmt.Sprintf("whale-%d", i), Placement{})
			}
			x := newIndex(entries)
			passed := 0
			for i := range 20_000 {
				if x.mayHold(hash.Sum(fmt.Appendf(nil, "tenant-%d", i))) {
					passed++
				}
			}
			if share := float64(passed) / 20_000; share > 0.03 {
				t.Errorf("%s, %d entries: %.1f %% of other tenants pass the filter", hash, n, share*100)
			}
		}
	}
}

func TestSlotWithoutDivisionEqualsTheRemainder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hash := Hash(rapid.IntRange(0, hashCount-1).Draw(t, "hash"))
		slots := rapid.OneOf(rapid.Int32Range(1, MaxSlots), rapid.SampledFrom([]int32{1, 2, 3, 4096, MaxSlots - 1, MaxSlots})).Draw(t, "slots")
		sum := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 1<<32-1), rapid.Uint64Range(1<<64-1<<17, 1<<64-1)).Draw(t, "sum")
		topic, err := compile(partsOf("orders", TopicSpec{Partitions: 1, Hash: hash, Slots: slots}))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := int32(topic.slot(sum)), hash.Slot(sum, slots); got != want {
			t.Fatalf("%d mod %d = %d, want %d", sum, slots, got, want)
		}
	})
}
