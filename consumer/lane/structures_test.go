package lane

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTableIsAMap compares with a map, with few hashes so that most collide.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var tab table[int]
		twin := map[*int]uint64{}
		var all []*int
		for range rapid.IntRange(1, 300).Draw(rt, "steps") {
			if len(all) == 0 || rapid.IntRange(0, 2).Draw(rt, "insert") > 0 {
				e, hash := new(int), rapid.Uint64Range(0, 40).Draw(rt, "hash")
				tab.insert(hash, e)
				twin[e], all = hash, append(all, e)
				continue
			}
			i := rapid.IntRange(0, len(all)-1).Draw(rt, "which")
			tab.remove(twin[all[i]], all[i])
			delete(twin, all[i])
			all = slices.Delete(all, i, i+1)
		}
		if tab.used != len(twin) {
			rt.Fatalf("%d entries, want %d", tab.used, len(twin))
		}
		for e, hash := range twin {
			found, i := tab.seek(hash, hash)
			for found != nil && found != e {
				found, i = tab.seek(hash, i+1)
			}
			if found != e {
				rt.Fatalf("an entry of hash %d is lost", hash)
			}
		}
		n := 0
		tab.each(func(e *int) bool { _, ok := twin[e]; n++; return ok })
		if n != len(twin) {
			rt.Fatalf("each saw %d entries, want %d", n, len(twin))
		}
	})
}

func TestTableGivesMemoryBack(t *testing.T) {
	var tab table[int]
	var all []*int
	for i := range uint64(100_000) {
		e := new(int)
		tab.insert(i*0x9e3779b97f4a7c15, e)
		all = append(all, e)
	}
	for i, e := range all {
		tab.remove(uint64(i)*0x9e3779b97f4a7c15, e)
	}
	if tab.used != 0 || len(tab.slots) > tableKeep {
		t.Errorf("%d entries, %d slots are left", tab.used, len(tab.slots))
	}
}

// TestTimersAreASortedList compares with a list that is sorted each time.
func TestTimersAreASortedList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var h timers
		alarms := make([]alarm, 8)
		twin := map[int]time.Duration{}
		for range rapid.IntRange(1, 100).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(alarms)-1).Draw(rt, "which")
			at := time.Duration(rapid.IntRange(0, 50).Draw(rt, "time"))
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0, 1:
				h.set(&alarms[i], at, i)
				twin[i] = at
			case 2:
				h.stop(&alarms[i])
				delete(twin, i)
			case 3:
				first := time.Duration(math.MaxInt64)
				for _, due := range twin {
					first = min(first, due)
				}
				of := h.expired(at)
				if (of != nil) != (first <= at) {
					rt.Fatalf("at %v: %v, the first is due at %v", at, of, first)
				}
				if of != nil {
					if twin[of.(int)] != first {
						rt.Fatalf("%v came, due %v before it", of, first)
					}
					delete(twin, of.(int))
				}
			}
			for i := range alarms {
				if _, ok := twin[i]; ok != alarms[i].set() {
					rt.Fatalf("alarm %d set: %v, want %v", i, alarms[i].set(), ok)
				}
			}
		}
	})
}

func TestHistogramKnowsTheP90(t *testing.T) {
	for _, c := range []struct {
		name       string
		fast, slow time.Duration
		share      int // of a hundred are slow
		want       time.Duration
	}{
		{"one in five is slow", time.Millisecond, 50 * time.Millisecond, 20, 50 * time.Millisecond},
		{"one in twenty is slow", time.Millisecond, 50 * time.Millisecond, 5, time.Millisecond},
		{"nanoseconds", 20 * time.Nanosecond, 20 * time.Nanosecond, 0, 20 * time.Nanosecond},
		{"an hour", time.Hour, time.Hour, 0, time.Hour},
	} {
		var h histogram
		for i := range 10_000 {
			d := c.fast
			if i%100 < c.share {
				d = c.slow
			}
			h.add(d.Seconds(), 1)
		}
		if got := h.p90 / c.want.Seconds(); got < 1 || got > 1.25 {
			t.Errorf("%s: %.3g s, want %v, up to a quarter more", c.name, h.p90, c.want)
		}
	}
}

func TestHistogramForgets(t *testing.T) {
	var h histogram
	for range 10_000 {
		h.add(1, 1)
	}
	for range 30_000 {
		h.add(1e-3, 1)
	}
	if h.p90 > 2e-3 {
		t.Errorf("p90 is %.3g s long after handlers became fast", h.p90)
	}
}

func TestAveragesKeepTheLastUsed(t *testing.T) {
	a := newAverages(8) // two sets of four
	hash := func(i uint64) uint64 { return i<<32 | 1 }
	for i := range uint64(4) {
		a.put(hash(i), float64(i+1))
	}
	a.put(hash(0), 10) // used again
	a.put(hash(9), 9)
	for i, want := range map[uint64]float64{0: 10, 1: 0, 2: 3, 3: 4, 9: 9, 7: 0} {
		if got := a.get(hash(i)); got != want {
			t.Errorf("mean of %d is %v, want %v", i, got, want)
		}
	}
}

func TestBucketFillsOverTime(t *testing.T) {
	b := (*bucket)(nil).with(10, 0, 0)
	if b.burst != 10 {
		t.Errorf("burst %v, want a second's worth", b.burst)
	}
	b.spend(10)
	if got := b.wait(1, 0); got < 99*time.Millisecond || got > 101*time.Millisecond {
		t.Errorf("wait for one token is %v, want 100ms", got)
	}
	if got := b.wait(1, time.Second); got != 0 {
		t.Errorf("wait after a second is %v", got)
	}
	if got := b.wait(1, 500*time.Millisecond); got != 0 {
		t.Errorf("time that goes back takes tokens away: wait %v", got)
	}
	b = b.with(1e-12, 1, time.Second)
	b.spend(1)
	if got := b.wait(1, time.Second); got < 24*time.Hour || got+time.Second < 0 {
		t.Errorf("a tiny rate waits %v", got)
	}
	if b = b.with(0, 5, 0); b.wait(1e9, 0) != 0 {
		t.Error("no rate is no limit")
	}
}
