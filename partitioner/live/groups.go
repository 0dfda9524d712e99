package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Group is a consumer group that reads a topic.
type Group struct {
	Name string
	// Commits are its committed offsets by partition; a partition without one
	// has none.
	Commits map[int32]int64
}

// Groups lists the groups that read a topic, by name: those with a commit in
// it, and those with a member that subscribes to it or holds a part of it.
func Groups(ctx context.Context, client *kgo.Client, topic string) ([]Group, error) {
	admin := kadm.NewClient(client)
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing groups: %w", err)
	}
	var names []string
	for name, g := range listed {
		if !strings.EqualFold(g.GroupType, "share") && g.ProtocolType != "share" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var groups []Group
	var idle []string // without a commit in the topic
	for name, resp := range admin.FetchManyOffsets(ctx, names...) {
		commits, failed := commitsOf(resp, topic)
		if failed != nil {
			return nil, fmt.Errorf("commits of group %q: %w", name, failed)
		}
		if len(commits) == 0 {
			idle = append(idle, name)
			continue
		}
		groups = append(groups, Group{name, commits})
	}
	members, err := subscribed(ctx, admin, listed, idle, topic)
	if err != nil {
		return nil, err
	}
	groups = append(groups, members...)
	slices.SortFunc(groups, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return groups, nil
}

func commitsOf(resp kadm.FetchOffsetsResponse, topic string) (map[int32]int64, error) {
	// A group that ended since it was listed has no commits any more.
	if errors.Is(resp.Err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if resp.Err != nil {
		return nil, resp.Err
	}
	commits := map[int32]int64{}
	for partition, o := range resp.Fetched[topic] {
		if o.Err != nil {
			return nil, fmt.Errorf("partition %d: %w", partition, o.Err)
		}
		if o.At >= 0 {
			commits[partition] = o.At
		}
	}
	return commits, nil
}

// subscribed are those of the named groups that have a member on the topic.
func subscribed(ctx context.Context, admin *kadm.Client, listed kadm.ListedGroups, names []string, topic string) ([]Group, error) {
	var classic, consumer []string
	for _, name := range names {
		if strings.EqualFold(listed[name].GroupType, "consumer") {
			consumer = append(consumer, name)
		} else {
			classic = append(classic, name)
		}
	}
	var groups []Group
	take := func(name string, err error, topics []string, held kadm.TopicsSet) error {
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("describing group %q: %w", name, err)
		}
		if _, holds := held[topic]; holds || slices.Contains(topics, topic) {
			groups = append(groups, Group{Name: name})
		}
		return nil
	}
	if len(classic) > 0 {
		described, err := admin.DescribeGroups(ctx, classic...)
		if err != nil {
			return nil, fmt.Errorf("describing groups: %w", err)
		}
		for name, g := range described {
			if err := take(name, g.Err, g.JoinTopics(), g.AssignedPartitions()); err != nil {
				return nil, err
			}
		}
	}
	if len(consumer) > 0 {
		described, err := admin.DescribeConsumerGroups(ctx, consumer...)
		if err != nil {
			return nil, fmt.Errorf("describing groups: %w", err)
		}
		for name, g := range described {
			if err := take(name, g.Err, g.SubscribedTopics(), g.AssignedPartitions()); err != nil {
				return nil, err
			}
		}
	}
	return groups, nil
}

// lowest is the lowest commit of a partition, and whose it is; a group without
// a commit there stands at start. So does the group that is yet to come, where
// there is none.
func lowest(groups []Group, partition int32, start int64) (at int64, group string) {
	if len(groups) == 0 {
		return start, ""
	}
	at = math.MaxInt64
	for _, g := range groups {
		committed, has := g.Commits[partition]
		if !has {
			committed = start
		}
		if committed < at {
			at, group = committed, g.Name
		}
	}
	return max(at, start), group
}
