package rebalance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// assignedPoll is how often groups that rebalance are looked at.
const assignedPoll = 200 * time.Millisecond

// member is a consumer group as far as a move cares.
type member struct {
	group string
	// consumes: a member of the group subscribes to the topic, or holds some of it.
	consumes bool
	// settled: what its members hold is known.
	settled bool
	holds   kadm.TopicsSet
}

// unassigned gives the reason why a group that consumes the topic would not
// read one of the partitions, or nil.
func unassigned(groups []member, topic string, partitions []int32) *RefusedError {
	for _, g := range groups {
		if !g.consumes {
			continue
		}
		for _, p := range partitions {
			switch {
			case g.holds.Lookup(topic, p):
			case !g.settled:
				return &RefusedError{
					Reason: fmt.Sprintf("group %q rebalances, so it cannot be seen who reads partition %d of topic %s", g.group, p, topic),
					Remedy: "wait until it is stable", Passing: true,
				}
			default:
				return &RefusedError{
					Reason: fmt.Sprintf("group %q reads topic %s, and none of its members is assigned partition %d", g.group, topic, p),
					Remedy: "after a growth its members see new partitions within their metadata.max.age; a group that is not used any more can be deleted", Passing: true,
				}
			}
		}
	}
	return nil
}

// checkGroups wants every active group of the topic to read the partitions that
// a unit goes to. Groups without members are not active: what they find later,
// they read from their commits on.
func (c *LiveCoordinator) checkGroups(ctx context.Context, topic string, partitions []int32) error {
	end := time.Now().Add(c.cfg.Patience)
	for {
		groups, err := c.activeGroups(ctx, topic)
		if err != nil {
			return err
		}
		missing := unassigned(groups, topic, partitions)
		if missing == nil {
			return nil
		}
		if time.Now().Add(assignedPoll).After(end) {
			return missing
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(assignedPoll):
		}
	}
}

// activeGroups are the groups with members, by the classic protocol or by
// KIP-848.
func (c *LiveCoordinator) activeGroups(ctx context.Context, topic string) ([]member, error) {
	listed, err := c.admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("groups of topic %s: %w", topic, err)
	}
	var classic, consumer []string
	for _, g := range listed.Sorted() {
		switch {
		case g.State == "Empty" || g.State == "Dead" || strings.EqualFold(g.GroupType, "share") || g.ProtocolType == "share":
		case strings.EqualFold(g.GroupType, "consumer"):
			consumer = append(consumer, g.Group)
		case g.ProtocolType == "consumer":
			classic = append(classic, g.Group)
		}
	}
	groups, err := c.classicGroups(ctx, topic, classic)
	if err != nil {
		return nil, err
	}
	modern, err := c.consumerGroups(ctx, topic, consumer)
	return append(groups, modern...), err
}

func (c *LiveCoordinator) classicGroups(ctx context.Context, topic string, names []string) ([]member, error) {
	if len(names) == 0 {
		return nil, nil
	}
	described, err := c.admin.DescribeGroups(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describing groups: %w", err)
	}
	var groups []member
	for _, g := range described.Sorted() {
		if errors.Is(g.Err, kerr.GroupIDNotFound) {
			continue
		}
		if g.Err != nil {
			return nil, fmt.Errorf("describing group %q: %w", g.Group, g.Err)
		}
		held := g.AssignedPartitions()
		m := member{group: g.Group, settled: g.State == "Stable", holds: held}
		_, holds := held[topic]
		m.consumes = holds || slices.Contains(g.JoinTopics(), topic)
		if !m.settled && !m.consumes && len(g.Members) > 0 { // brokers tell nothing while it joins
			m.consumes, err = c.commitsIn(ctx, g.Group, topic)
		}
		if err != nil {
			return nil, err
		}
		groups = append(groups, m)
	}
	return groups, nil
}

// commitsIn tells whether a group has ever committed in a topic.
func (c *LiveCoordinator) commitsIn(ctx context.Context, group, topic string) (bool, error) {
	commits, err := c.admin.FetchOffsets(ctx, group)
	if err != nil {
		return false, fmt.Errorf("commits of group %q: %w", group, err)
	}
	return len(commits[topic]) > 0, nil
}

func (c *LiveCoordinator) consumerGroups(ctx context.Context, topic string, names []string) ([]member, error) {
	if len(names) == 0 {
		return nil, nil
	}
	described, err := c.admin.DescribeConsumerGroups(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describing groups: %w", err)
	}
	var groups []member
	for _, g := range described.Sorted() {
		if errors.Is(g.Err, kerr.GroupIDNotFound) {
			continue
		}
		if g.Err != nil {
			return nil, fmt.Errorf("describing group %q: %w", g.Group, g.Err)
		}
		held := g.AssignedPartitions()
		for p := range held[""] { // the embedded broker names topics by their ids alone
			held.Add(topic, p)
		}
		_, holds := held[topic]
		groups = append(groups, member{
			group: g.Group, settled: g.State == "Stable", holds: held,
			consumes: len(g.Members) > 0 && (holds || slices.Contains(g.SubscribedTopics(), topic)),
		})
	}
	return groups, nil
}
