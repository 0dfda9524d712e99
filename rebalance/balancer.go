package rebalance

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// BalancerConfig sets up a Balancer. Table is required.
type BalancerConfig struct {
	// Table says which partitions are dedicated: those that are not shared.
	Table store.Source
	// Volume is the planned volume of a partition relative to the group's
	// others, at least 0. Default: how many slots the table sends there; of a
	// dedicated one the mean of the shared ones.
	Volume func(topic string, partition int32) float64
}

// Balancer assigns partitions to a group's members: first those that are
// dedicated to whales, so that the members' numbers of them differ by one at
// most, then the others, so that the planned volumes are level. It moves only
// what makes them more level, in two steps as the cooperative protocol wants.
//
// Its protocol is the client's cooperative-sticky, so that a group may have both
// during a rolling deploy; whoever leads the group decides. Where the table
// dedicates no partition of the group's topics, the client's own balancer does.
// Members' racks are not looked at. A changed table counts at the next
// rebalance.
type Balancer struct {
	kgo.GroupBalancer // the client's
	cfg               BalancerConfig
}

// NewBalancer returns a balancer for kgo.Balancers.
func NewBalancer(cfg BalancerConfig) *Balancer {
	return &Balancer{GroupBalancer: kgo.CooperativeStickyBalancer(), cfg: cfg}
}

// MemberBalancer balances these members.
func (b *Balancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	own, err := kgo.NewConsumerBalancer(b, members)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the client names the member
	}
	if !b.dedicates(own.MemberTopics()) {
		return b.GroupBalancer.MemberBalancer(members) //nolint:wrapcheck // it is the client's
	}
	return own, own.MemberTopics(), nil
}

// dedicates says that the table has dedicated partitions in one of the topics.
func (b *Balancer) dedicates(topics map[string]struct{}) bool {
	for topic := range topics {
		if t, ok := b.cfg.Table.Table().Topic(topic); ok && len(t.Shared()) < int(t.Partitions()) {
			return true
		}
	}
	return false
}

// Balance makes the plan of one rebalance, given each topic's partitions.
func (b *Balancer) Balance(group *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	members := seats(group)
	dedicated, shared := b.shares(topics)
	level(members, dedicated, func(share) float64 { return 1 })
	for _, m := range members {
		m.load = 0
		for _, s := range m.has {
			m.load += s.volume
		}
	}
	level(members, shared, func(s share) float64 { return s.volume })
	plan := group.NewPlan()
	for _, m := range members {
		for _, s := range m.has {
			plan.AddPartition(m.member, s.topic, s.partition)
		}
	}
	plan.AdjustCooperative(group)
	return plan
}

// shares are all partitions, those that are dedicated apart.
func (b *Balancer) shares(topics map[string]int32) (dedicated, shared []share) {
	table := b.cfg.Table.Table()
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		t, _ := table.Topic(topic)
		volume := b.volumes(topic, t, topics[topic])
		for p := range topics[topic] {
			s := share{topic: topic, partition: p, volume: volume(p)}
			if t != nil && p < t.Partitions() && !slices.Contains(t.Shared(), p) {
				dedicated = append(dedicated, s)
			} else {
				shared = append(shared, s)
			}
		}
	}
	return dedicated, shared
}

// volumes is the planned volume of a topic's partitions. Each counts a little
// at least, so that empty ones are spread too.
func (b *Balancer) volumes(topic string, t *routing.Topic, partitions int32) func(int32) float64 {
	const least = 1e-3
	if b.cfg.Volume != nil {
		return func(p int32) float64 { return max(b.cfg.Volume(topic, p), least) }
	}
	if t == nil {
		return func(int32) float64 { return 1 }
	}
	slots := make([]float64, max(partitions, t.Partitions()))
	for slot := range t.Slots() {
		slots[t.SlotPartition(slot)]++
	}
	mean := float64(t.Slots()) / float64(max(len(t.Shared()), 1))
	for p := range t.Partitions() {
		if !slices.Contains(t.Shared(), p) {
			slots[p] = mean
		}
	}
	return func(p int32) float64 { return max(slots[p]/mean, least) }
}

// seats are the members with what they own. Of two that claim a partition, the
// one of the later generation owns it: the other has missed a rebalance.
func seats(group *kgo.ConsumerBalancer) []*seat {
	type place struct {
		topic     string
		partition int32
	}
	type claim struct {
		by         *seat
		generation int32
	}
	var all []*seat
	owners := make(map[place]claim)
	group.EachMember(func(member *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		s := &seat{member: member, topics: meta.Topics, owned: make(map[string][]int32)}
		all = append(all, s)
		for _, t := range meta.OwnedPartitions {
			for _, p := range t.Partitions {
				if c, taken := owners[place{t.Topic, p}]; !taken || meta.Generation > c.generation {
					owners[place{t.Topic, p}] = claim{s, meta.Generation}
				}
			}
		}
	})
	for at, c := range owners {
		c.by.owned[at.topic] = append(c.by.owned[at.topic], at.partition)
	}
	return all
}
