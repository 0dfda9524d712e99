package lane_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// TestResourceAgainstItsTwin: at most so many have it, at no more than its rate,
// a tenant's claims in their order, and none waits that could have it.
func TestResourceAgainstItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := lane.ResourceConfig{
			Concurrency: rapid.IntRange(0, 4).Draw(t, "concurrency"),
			Rate:        rapid.SampledFrom([]float64{0, 1, 50}).Draw(t, "rate"),
			Burst:       float64(rapid.IntRange(0, 3).Draw(t, "burst")),
		}
		r := lane.NewResource[int](cfg)
		var now time.Duration
		var waiting, held []*lane.Claim[int]
		grants, claims := 0, 0
		tenant := func(c *lane.Claim[int]) int { return c.Value % 5 }
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) {
				claims++
				k := rapid.IntRange(0, 4).Draw(t, "tenant")
				waiting = append(waiting, r.Claim(fmt.Append(nil, k), 5*claims+k, now))
			},
			"cancel": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
				r.Cancel(waiting[i])
				waiting = slices.Delete(waiting, i, i+1)
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				r.Release(held[i], now)
				held = slices.Delete(held, i, i+1)
			},
			"time": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond
			},
			"": func(t *rapid.T) {
				for {
					c, wait := r.Next(now)
					if c == nil {
						blocked := len(waiting) == 0 || cfg.Concurrency > 0 && len(held) >= cfg.Concurrency
						if blocked != (wait == 0) || wait > 0 && cfg.Rate == 0 {
							t.Fatalf("%d wait, %d have it, nobody is next for %v", len(waiting), len(held), wait)
						}
						break
					}
					i := slices.Index(waiting, c)
					if i < 0 || !c.Granted() || slices.IndexFunc(waiting, func(o *lane.Claim[int]) bool { return tenant(o) == tenant(c) }) != i {
						t.Fatalf("claim %d was granted before one of its tenant's, or twice", c.Value)
					}
					waiting, held = slices.Delete(waiting, i, i+1), append(held, c)
					grants++
				}
				most := max(cfg.Burst, 1)
				if cfg.Burst == 0 {
					most = max(cfg.Rate, 1)
				}
				switch {
				case r.Waiting() != len(waiting) || r.Held() != len(held):
					t.Fatalf("%d wait and %d have it, counted %d and %d", len(waiting), len(held), r.Waiting(), r.Held())
				case cfg.Concurrency > 0 && len(held) > cfg.Concurrency:
					t.Fatalf("%d have it", len(held))
				case cfg.Rate > 0 && float64(grants) > most+cfg.Rate*now.Seconds()+1e-6:
					t.Fatalf("%d grants in %v", grants, now)
				}
			},
		})
	})
}

// TestResourceIsSharedByTenants: one with a hundred claims, or with long ones,
// gets no more than another.
func TestResourceIsSharedByTenants(t *testing.T) {
	for _, cfg := range []lane.ResourceConfig{{Concurrency: 1}, {Concurrency: 3}, {Rate: 100, Burst: 1}} {
		r := lane.NewResource[string](cfg)
		holds := map[string]time.Duration{"flood": 10 * time.Millisecond, "quiet": 10 * time.Millisecond, "long": 30 * time.Millisecond}
		used, grants := map[string]time.Duration{}, map[string]int{}
		claim := func(name string, now time.Duration) { r.Claim([]byte(name), name, now) }
		for range 100 {
			claim("flood", 0)
		}
		for range 5 {
			claim("quiet", 0)
			claim("long", 0)
		}
		ends := map[*lane.Claim[string]]time.Duration{}
		for now := time.Duration(0); now < 30*time.Second; now += time.Millisecond {
			for c, end := range ends {
				if now >= end {
					r.Release(c, now)
					delete(ends, c)
				}
			}
			for c, _ := r.Next(now); c != nil; c, _ = r.Next(now) {
				name := c.Value
				ends[c] = now + holds[name]
				used[name] += holds[name]
				grants[name]++
				claim(name, now) // it always waits
			}
		}
		for _, name := range []string{"flood", "long"} {
			got, want := used[name].Seconds(), used["quiet"].Seconds()
			if cfg.Concurrency == 0 {
				got, want = float64(grants[name]), float64(grants["quiet"])
			}
			if got < 0.95*want || got > 1.05*want {
				t.Errorf("%+v: %s got %.2f, quiet %.2f", cfg, name, got, want)
			}
		}
	}
}

// TestResourceRemembersFewTenants: a million that come and go leave nothing.
func TestResourceRemembersFewTenants(t *testing.T) {
	r := lane.NewResource[int](lane.ResourceConfig{Concurrency: 2})
	first := r.Claim([]byte("first"), 0, 0)
	r.Next(0)
	for i := range 100_000 {
		now := time.Duration(i) * time.Millisecond
		c := r.Claim(fmt.Append(nil, i), i, now)
		if got, _ := r.Next(now); got != c {
			t.Fatal("the second slot was not given")
		}
		r.Release(c, now+time.Millisecond)
	}
	if n := r.Remembered(); n > 80 {
		t.Errorf("%d tenants are remembered", n)
	}
	r.Release(first, 0)
	if n := r.Remembered(); n != 0 {
		t.Errorf("%d tenants are remembered of a resource that nobody has", n)
	}
}
