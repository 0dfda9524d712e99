package lane_test

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

func TestSmallTenantBehindAWhaleIsHandledSecond(t *testing.T) {
	m := newSim(t, lane.Config{}, 1)
	var order []string
	m.done = func(tenant string, _ lane.Item[string]) { order = append(order, tenant) }
	m.push("whale", 1000)
	m.push("small", 1)
	m.run(10 * time.Millisecond)
	if len(order) < 2 || order[0] != "whale" || order[1] != "small" {
		t.Fatalf("handled %v first, want whale, small", order[:min(len(order), 5)])
	}
}

// It also holds in the middle of a backlog, when the whale has been served for
// long, and when the whale's records are cheap and its grants long.
func TestSmallTenantNeverWaitsForMoreThanTheGrantInHand(t *testing.T) {
	for _, cost := range []time.Duration{time.Microsecond, 50 * time.Microsecond, 3 * time.Millisecond} {
		m := newSim(t, lane.Config{}, 1)
		m.cost = func(string) time.Duration { return cost }
		m.push("whale", 20_000)
		m.run(10 * time.Millisecond)
		for i := range 20 {
			small := fmt.Sprint("small-", i)
			begun := m.now
			m.push(small, 1)
			handled := time.Duration(0)
			m.done = func(tenant string, _ lane.Item[string]) {
				if tenant == small {
					handled = m.now
				}
			}
			m.run(m.now + 10*time.Millisecond)
			// A lane's grant is 1 ms or one record; the small tenant's own record comes after it.
			if most := max(time.Millisecond, cost) + cost; handled == 0 || handled-begun > most {
				t.Fatalf("handler %v: %s waited %v, want at most %v", cost, small, handled-begun, most)
			}
		}
	}
}

func TestTiersShareHandlerTimeByWeightWhateverTheirTenants(t *testing.T) {
	for _, c := range []struct{ gold, bronze, workers int }{
		{1, 1, 1},
		{1, 1000, 1},
		{1000, 1, 1},
		{40, 3, 1},
		{20, 500, 8},
		{500, 20, 8},
	} {
		m := newSim(t, lane.Config{}, c.workers)
		gold := m.s.SetTier("gold", lane.Tier{Weight: 50}, 0)
		bronze := m.s.SetTier("bronze", lane.Tier{Weight: 10}, 0)
		m.cost = func(tenant string) time.Duration {
			return time.Duration(1+len(tenant)%3) * time.Millisecond
		}
		m.endless()
		for i := range c.gold {
			name := fmt.Sprint("gold-", i)
			m.tier[name] = gold
			m.push(name, 5)
		}
		for i := range c.bronze {
			name := fmt.Sprint("bronze-", i)
			m.tier[name] = bronze
			m.push(name, 5)
		}
		m.run(5 * time.Second)
		var sum [2]time.Duration
		for tenant, d := range m.served {
			if strings.HasPrefix(tenant, "gold") {
				sum[0] += d
			} else {
				sum[1] += d
			}
		}
		if ratio := sum[0].Seconds() / sum[1].Seconds(); math.Abs(ratio-5) > 0.25 {
			t.Errorf("%+v: shares are %.3f to 1, want 5 to 1", c, ratio)
		}
	}
}

// TestTenantsShareByWeight compares with the ideal of a fluid server: of two
// tenants that always have work, neither gets ahead of the other by more than
// their longest grants, per unit of weight.
func TestTenantsShareByWeight(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(rt, "tenants")
		m := newSim(t, lane.Config{Quantum: rapid.IntRange(1, 64).Draw(rt, "quantum")}, 1)
		m.endless()
		weights, costs := map[string]float64{}, map[string]time.Duration{}
		longest := map[string]time.Duration{}
		for i := range n {
			name := fmt.Sprint("tenant-", i)
			weights[name] = float64(rapid.IntRange(1, 20).Draw(rt, "weight"))
			costs[name] = time.Duration(rapid.IntRange(20, 5000).Draw(rt, "µs")) * time.Microsecond
			longest[name] = max(time.Millisecond, costs[name])
			m.s.SetTenant([]byte(name), lane.Tenant{Weight: weights[name]}, 0)
			m.push(name, 200)
		}
		m.cost = func(tenant string) time.Duration { return costs[tenant] }
		m.run(100 * time.Millisecond) // estimates settle
		base := map[string]time.Duration{}
		maps.Copy(base, m.served)
		for range 5 {
			m.run(m.now + 40*time.Millisecond)
			for a := range weights {
				for b := range weights {
					got := (m.served[a]-base[a]).Seconds()/weights[a] - (m.served[b]-base[b]).Seconds()/weights[b]
					bound := 2*longest[a].Seconds()/weights[a] + 2*longest[b].Seconds()/weights[b]
					if math.Abs(got) > bound {
						rt.Fatalf("%s of weight %v is %.4f s per weight ahead of %s of %v, bound %.4f",
							a, weights[a], got, b, weights[b], bound)
					}
				}
			}
		}
	})
}

// An idle tenant collects no credit, and one that ran up a debt and fell idle
// still has it.
func TestIdlingEarnsNothingAndForgivesNothing(t *testing.T) {
	m := newSim(t, lane.Config{}, 1)
	m.endless()
	m.push("steady", 50)
	m.push("other", 50)
	m.run(time.Second)
	m.push("sleeper", 50) // it could claim half a second if idling counted
	before := m.served["steady"]
	m.run(m.now + 300*time.Millisecond)
	if got := m.served["sleeper"]; got > 110*time.Millisecond {
		t.Errorf("a tenant that had slept got %v of 300ms, its share is 100ms", got)
	}
	if got := m.served["steady"] - before; got < 90*time.Millisecond {
		t.Errorf("a steady tenant got %v of 300ms beside it, its share is 100ms", got)
	}

	m = newSim(t, lane.Config{}, 1)
	m.cost = func(tenant string) time.Duration {
		if tenant == "slow" {
			return 50 * time.Millisecond
		}
		return time.Millisecond
	}
	m.done = func(tenant string, _ lane.Item[string]) {
		if tenant != "slow" {
			m.push(tenant, 1)
		}
	}
	m.push("steady", 50)
	m.push("slow", 1)
	m.run(60 * time.Millisecond) // slow has had 50 ms and is idle
	m.push("slow", 1)
	before = m.served["steady"]
	m.run(m.now + 30*time.Millisecond)
	if got := m.served["slow"]; got > 50*time.Millisecond {
		t.Errorf("a tenant in debt had its second record run after %v", got)
	}
	if got := m.served["steady"] - before; got < 28*time.Millisecond {
		t.Errorf("the tenant that it owed to got %v of 30ms", got)
	}
}

// A stream of ever new tenants must not starve one that was there before: the
// clock has to move although each newcomer starts at it.
func TestNewcomersDoNotStarveOldTenants(t *testing.T) {
	m := newSim(t, lane.Config{}, 1)
	n := 0
	newcomer := func() { n++; m.push(fmt.Sprint("new-", n), 1) }
	m.done = func(tenant string, _ lane.Item[string]) {
		if strings.HasPrefix(tenant, "new") {
			newcomer()
		} else {
			m.push(tenant, 1)
		}
	}
	m.push("old", 5)
	newcomer()
	newcomer()
	m.run(time.Second)
	// Each of the 800 newcomers has the same right as the old one, which still
	// gets half of what it would if there were two of them.
	if got := m.served["old"]; got < 160*time.Millisecond {
		t.Errorf("the old tenant got %v of 1s beside two newcomers at any time", got)
	}
	if got := m.s.Tenants(); got > 50 {
		t.Errorf("%d tenants are remembered, 3 have work", got)
	}
}

func TestReservedShareIsKeptAndLent(t *testing.T) {
	m := newSim(t, lane.Config{}, 4)
	interactive := m.s.SetTier("interactive", lane.Tier{Weight: 1, Reserved: 0.2}, 0)
	m.endless()
	for i := range 20 {
		m.push(fmt.Sprint("bulk-", i), 5)
	}
	m.s.SetTier("", lane.Tier{Weight: 99}, 0)
	m.run(time.Second)
	sum := func(prefix string) (d time.Duration) {
		for k, v := range m.served {
			if strings.HasPrefix(k, prefix) {
				d += v
			}
		}
		return d
	}
	if got := sum("bulk"); got < 3990*time.Millisecond {
		t.Errorf("bulk got %v of 4s while the reserve was idle", got)
	}
	for i := range 20 {
		name := fmt.Sprint("inter-", i)
		m.tier[name] = interactive
		m.push(name, 5)
	}
	before := sum("bulk")
	m.run(2 * time.Second)
	share := sum("inter").Seconds() / (sum("inter") + sum("bulk") - before).Seconds()
	if math.Abs(share-0.2) > 0.01 {
		t.Errorf("interactive got %.3f, its reserve is 0.2", share)
	}
}

// A tier that cannot use its share, because its one lane is slow, must not save
// it up and shut the others out later.
func TestUnusedShareIsNotSavedUp(t *testing.T) {
	m := newSim(t, lane.Config{}, 4)
	gold := m.s.SetTier("gold", lane.Tier{Weight: 50}, 0)
	m.endless()
	m.tier["gold-0"] = gold
	m.push("gold-0", 5)
	for i := range 20 {
		m.push(fmt.Sprint("bulk-", i), 5)
	}
	m.s.SetTier("", lane.Tier{Weight: 10}, 0)
	m.run(10 * time.Second) // gold could have had 33 s of 40 and had 10
	for i := range 20 {
		name := fmt.Sprint("gold-", i)
		m.tier[name] = gold
		m.push(name, 5)
	}
	bulk := func() (d time.Duration) {
		for k, v := range m.served {
			if strings.HasPrefix(k, "bulk") {
				d += v
			}
		}
		return d
	}
	before := bulk()
	m.run(m.now + time.Second)
	if got := bulk() - before; got < 580*time.Millisecond {
		t.Errorf("bulk got %v of 4s, its share is 667ms", got)
	}
}

// A whale that is given a better tier in the middle of its backlog gets that
// tier's share at once, and is let go of a limit that its old tier had.
func TestATierChangedInTheMiddleOfABacklogHoldsAtOnce(t *testing.T) {
	m := newSim(t, lane.Config{}, 1)
	slow := m.s.SetTier("slow", lane.Tier{Weight: 10, Tenant: lane.Tenant{Rate: 1.0 / 3600, Burst: 1}}, 0)
	gold := m.s.SetTier("gold", lane.Tier{Weight: 50}, 0)
	bronze := m.s.SetTier("bronze", lane.Tier{Weight: 10}, 0)
	m.tier["whale"], m.tier["other"] = slow, bronze
	m.push("whale", 50_000)
	m.push("other", 50_000)
	m.run(time.Second)
	if got := m.served["whale"]; got > 2*time.Millisecond {
		t.Fatalf("whale served %v at one record an hour", got)
	}
	m.s.Retier(m.p, func(tenant []byte) lane.TierID {
		if string(tenant) == "whale" {
			return gold
		}
		return bronze
	}, m.now)
	clear(m.served)
	m.run(m.now + 6*time.Second)
	if ratio := m.served["whale"].Seconds() / m.served["other"].Seconds(); math.Abs(ratio-5) > 0.25 {
		t.Errorf("handler time %v to %v after the change, want 5 to 1", m.served["whale"], m.served["other"])
	}
}
