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

// checkScan holds the quick reader of placements to encoding/json.
func checkScan(t interface{ Fatalf(string, ...any) }, value []byte, mustScan bool) {
	slow, err := decode(value, func(v *placementValue) (Placement, error) { return v.placement() })
	fast, ok := scanPlacement(value)
	if mustScan && !ok {
		t.Fatalf("%s was not scanned", value)
	}
	if ok && (err != nil || !slow.equal(fast)) {
		t.Fatalf("%s scans to %+v, JSON says %+v, %v", value, fast, slow, err)
	}
}

func FuzzScanPlacement(f *testing.F) {
	f.Add([]byte(`{"v":1,"partitions":[0,31],"spread":"key","tier":"gold","epoch":12}`))
	f.Add([]byte(`{"v":1,"topic":"orders-interactive","follow":"slot"}`))
	f.Fuzz(func(t *testing.T, value []byte) { checkScan(t, value, false) })
}

func TestScannedPlacementsAreThoseOfJSON(t *testing.T) {
	for _, value := range []string{
		``, `{`, `{"v":1}`, `{"v":2}`, `{"v":1,"partitions":[]}`, `{"v":1,"partitions":[1}`, `{"v":1,"partitions":[01]}`, `{"v":1,"partitions":[-1]}`,
		`{"v":1,"partitions":[1,2],"spread":"even"}`, `{"v":1,"partitions":[4294967297]}`, `{"v":1,"epoch":18446744073709551615}`,
		`{"v":1,"epoch":99999999999999999999}`, `{"v":1,"tier":"a\u0041"}`, `{"v":1,"tier":"é"}`, `{"v":1,"tier":"a`, `{"v":1,"epoch":1.5}`, `{"v":1,"epoch":1}x`,
		`{"v":1,"epoch":1,"later":2}`, `{"v":1,"tier":"a","topic":"b"}`, `{"v":1,"partitions":[2147483648]}`, `{"v":1,"partitions":[2147483647]}`,
	} {
		checkScan(t, []byte(value), false)
	}
	p := parts{name: "orders"}
	rapid.Check(t, func(t *rapid.T) {
		place := Placement{
			Partitions: rapid.SliceOf(rapid.Int32Range(0, 1<<31-1)).Draw(t, "partitions"),
			Spread:     Spread(rapid.Uint8Range(0, 2).Draw(t, "spread")), FollowSlot: rapid.Bool().Draw(t, "follow"),
			Tier: rapid.StringMatching(`[a-zA-Z0-9 /_.-]*`).Draw(t, "tier"), Topic: rapid.StringMatching(`[a-z.]*`).Draw(t, "topic"),
			Epoch: rapid.Uint64Range(0, 1<<40).Draw(t, "epoch"),
		}
		checkScan(t, p.placementRecord(&entry{place: place}).Value, true)
	})
}
