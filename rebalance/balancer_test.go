package rebalance_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance"
)

// fixed is a table that does not change.
type fixed struct{ table *routing.Table }

func (f fixed) Table() *routing.Table  { return f.table }
func (fixed) Changed() <-chan struct{} { return nil }

// dedicating is a table of topic "orders" whose first partitions are dedicated,
// one to each of as many whales.
func dedicating(t rapid.TB, partitions, dedicated int32) fixed {
	t.Helper()
	spec := routing.TopicSpec{Partitions: partitions, Placements: map[string]routing.Placement{}}
	for p := range partitions {
		if p >= dedicated {
			spec.Shared = append(spec.Shared, p)
		} else {
			spec.Placements[fmt.Sprint("whale-", p)] = routing.Placement{Partitions: []int32{p}}
		}
	}
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": spec}})
	if err != nil {
		t.Fatal(err)
	}
	return fixed{table}
}

// assignment is what each member has of "orders".
type assignment map[string][]int32

// rebalanced runs one rebalance.
func rebalanced(t rapid.TB, b kgo.GroupBalancer, members []string, owned assignment, generation, partitions int32) assignment {
	t.Helper()
	var joined []kmsg.JoinGroupResponseMember
	for _, id := range slices.Sorted(slices.Values(members)) {
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID = id
		current := map[string][]int32{}
		if len(owned[id]) > 0 {
			current["orders"] = slices.Sorted(slices.Values(owned[id]))
		}
		m.ProtocolMetadata = b.JoinGroupMetadata([]string{"orders"}, current, generation)
		joined = append(joined, m)
	}
	balancer, topics, err := b.MemberBalancer(joined)
	if err != nil || len(topics) != 1 {
		t.Fatalf("topics %v: %v", topics, err)
	}
	made, err := balancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(map[string]int32{"orders": partitions})
	plan, ok := made.(*kgo.BalancePlan)
	if err != nil || !ok {
		t.Fatalf("the plan %v is not the client's: %v", made, err)
	}
	next := assignment{}
	for id, topics := range plan.AsMemberIDMap() {
		next[id] = slices.Sorted(slices.Values(topics["orders"]))
	}
	return next
}

// settled rebalances until nothing changes, as a cooperative group does.
func settled(t rapid.TB, b kgo.GroupBalancer, members []string, owned assignment, partitions int32) assignment {
	t.Helper()
	for generation := int32(1); generation <= 5; generation++ {
		next := rebalanced(t, b, members, owned, generation, partitions)
		for id, parts := range next {
			for other, had := range owned {
				if other != id && slices.Contains(members, other) && slices.ContainsFunc(parts, func(p int32) bool { return slices.Contains(had, p) }) {
					t.Fatalf("%s gets of %v what %s has not given up", id, parts, other)
				}
			}
		}
		if maps.EqualFunc(next, owned, slices.Equal) {
			return next
		}
		owned = next
	}
	t.Fatalf("%d members do not come to rest: %v", len(members), owned)
	return nil
}

func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("member-%02d", i)
	}
	return all
}

// Whatever joins and leaves: every partition has one owner, whales' partitions
// are spread by number and the rest by volume, and what is level stays.
func TestBalancerSpreadsWhalesFirstAndThenVolume(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		partitions := rapid.Int32Range(2, 40).Draw(t, "partitions")
		dedicated := rapid.Int32Range(1, partitions-1).Draw(t, "dedicated")
		volumes := rapid.SliceOfN(rapid.Float64Range(1, 10), int(partitions), int(partitions)).Draw(t, "volumes")
		cfg := rebalance.BalancerConfig{Table: dedicating(t, partitions, dedicated)}
		if rapid.Bool().Draw(t, "measured") {
			cfg.Volume = func(_ string, p int32) float64 { return volumes[p] }
		} else {
			volumes = nil
		}
		b := rebalance.NewBalancer(cfg)
		owned := assignment{}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			members := names(rapid.IntRange(1, 12).Draw(t, "members"))
			maps.DeleteFunc(owned, func(id string, _ []int32) bool { return !slices.Contains(members, id) })
			owned = settled(t, b, members, owned, partitions)
			judgeSpread(t, owned, members, partitions, dedicated, volumes)
		}
	})
}

// judgeSpread checks an assignment at rest; volumes nil: those of the slots are
// not looked at.
func judgeSpread(t *rapid.T, owned assignment, members []string, partitions, dedicated int32, volumes []float64) {
	owners := make([]int, partitions)
	var counts, loads []float64
	heaviest := 0.0
	for _, id := range members {
		count, load := 0.0, 0.0
		for _, p := range owned[id] {
			owners[p]++
			if p < dedicated {
				count++
			}
			if volumes != nil {
				load += volumes[p]
				heaviest = max(heaviest, volumes[p])
			}
		}
		counts, loads = append(counts, count), append(loads, load)
	}
	for p, n := range owners {
		if n != 1 {
			t.Fatalf("partition %d has %d owners", p, n)
		}
	}
	if slices.Max(counts)-slices.Min(counts) > 1 {
		t.Errorf("members have %v dedicated partitions", counts)
	}
	// What is shared levels the loads where there is enough of it.
	if volumes != nil && len(members) <= int(partitions-dedicated) && dedicated <= int32(len(members)) && slices.Max(loads)-slices.Min(loads) > 2*heaviest {
		t.Errorf("loads %v with the heaviest partition at %v", loads, heaviest)
	}
}

// A member that joins takes no more than its part, and from no member more than
// it has too much.
func TestBalancerMovesLittleWhenAMemberJoins(t *testing.T) {
	t.Parallel()
	b := rebalance.NewBalancer(rebalance.BalancerConfig{Table: dedicating(t, 32, 8)})
	before := settled(t, b, names(4), assignment{}, 32)
	after := settled(t, b, names(5), maps.Clone(before), 32)
	moved := 0
	for id, parts := range before {
		for _, p := range parts {
			if !slices.Contains(after[id], p) {
				moved++
			}
		}
	}
	if moved > 8 {
		t.Errorf("%d of 32 partitions moved for a fifth member", moved)
	}
}

// A table without dedicated partitions leaves all to the client's balancer.
func TestBalancerIsTheClientsOwnWithoutWhales(t *testing.T) {
	t.Parallel()
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": {Partitions: 12}}})
	if err != nil {
		t.Fatal(err)
	}
	b := rebalance.NewBalancer(rebalance.BalancerConfig{Table: fixed{table}})
	got := settled(t, b, names(5), assignment{}, 12)
	want := settled(t, kgo.CooperativeStickyBalancer(), names(5), assignment{}, 12)
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("assigned %v, the client %v", got, want)
	}
}
