package rebalance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// errNoAnswer is the reason for a commit that the answer left out.
var errNoAnswer = errors.New("no answer for this partition")

// span is what a partition holds: records from start up to, not including, end.
type span struct{ start, end int64 }

// commit is what is known of a group's progress in one partition.
type commit struct {
	at  int64 // -1: none
	err error // why it is not known
}

// lagging gives a group's first partition that it has not drained, or nil. A
// partition without records needs no commit. What is not known is not drained.
func lagging(group, topic string, spans map[int32]span, commits map[int32]commit) *NotDrainedError {
	for _, p := range sortedPartitions(spans) {
		s := spans[p]
		if s.start == s.end {
			continue
		}
		c, known := commits[p]
		if !known {
			c = commit{at: -1, err: errNoAnswer}
		}
		if c.err != nil || c.at < s.end {
			return &NotDrainedError{Group: group, Topic: topic, Partition: p, End: s.end, Committed: c.at, Err: c.err}
		}
	}
	return nil
}

func sortedPartitions(spans map[int32]span) []int32 {
	list := make([]int32, 0, len(spans))
	for p := range spans {
		list = append(list, p)
	}
	slices.Sort(list)
	return list
}

// spans reads what the partitions hold now. All must be known.
func (c *Coordinator) spans(ctx context.Context, topic string, partitions []int32) (map[int32]span, error) {
	starts, err := c.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("start offsets of topic %s: %w", topic, err)
	}
	ends, err := c.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("end offsets of topic %s: %w", topic, err)
	}
	spans := make(map[int32]span, len(partitions))
	for _, p := range partitions {
		start, err := listed(starts, topic, p)
		if err != nil {
			return nil, fmt.Errorf("start offset of topic %s partition %d: %w", topic, p, err)
		}
		end, err := listed(ends, topic, p)
		if err != nil {
			return nil, fmt.Errorf("end offset of topic %s partition %d: %w", topic, p, err)
		}
		spans[p] = span{start, end}
	}
	return spans, nil
}

func listed(offsets kadm.ListedOffsets, topic string, partition int32) (int64, error) {
	o, ok := offsets.Lookup(topic, partition)
	if !ok {
		return 0, errNoAnswer
	}
	return o.Offset, o.Err
}

// commits reads a group's commits. What cannot be read is left out, or has an
// error of its own.
func (c *Coordinator) commits(ctx context.Context, group, topic string, partitions []int32) map[int32]commit {
	got, err := c.admin.FetchOffsets(kadm.RequireStable(ctx), group)
	commits := make(map[int32]commit, len(partitions))
	for _, p := range partitions {
		o, ok := got.Lookup(topic, p)
		switch {
		case err != nil:
			commits[p] = commit{at: -1, err: err}
		case !ok:
			commits[p] = commit{at: -1} // Kafka answers what there is
		default:
			commits[p] = commit{at: o.At, err: o.Err}
		}
	}
	return commits
}

// drain waits until every group has committed up to the ends of the spans. Once
// it has, it is not asked again.
func (c *Coordinator) drain(ctx context.Context, groups []string, topic string, spans map[int32]span) error {
	for _, group := range groups {
		if err := c.drainGroup(ctx, group, topic, spans); err != nil {
			return err
		}
	}
	return nil
}

func (c *Coordinator) drainGroup(ctx context.Context, group, topic string, spans map[int32]span) error {
	poll := time.NewTicker(c.cfg.Poll)
	defer poll.Stop()
	partitions := sortedPartitions(spans)
	var last *NotDrainedError
	for {
		behind := lagging(group, topic, spans, c.commits(ctx, group, topic, partitions))
		if behind == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // an answer cut short says less than the one before
			last = behind
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", last, ctx.Err())
		}
	}
}

// groupsOf lists the groups that have a commit in the topic. A broker or group
// that cannot be asked fails it: there could be one more.
func (c *Coordinator) groupsOf(ctx context.Context, topic string) ([]string, error) {
	listed, err := c.admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("groups of topic %s: %w", topic, err)
	}
	var groups []string
	for _, group := range listed.Groups() {
		commits, err := c.admin.FetchOffsets(ctx, group)
		if err != nil {
			return nil, fmt.Errorf("groups of topic %s: commits of group %q: %w", topic, group, err)
		}
		if len(commits[topic]) > 0 {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups, nil
}
