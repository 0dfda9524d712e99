package lagwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// Commits carry metadata of up to 4 kB each, and kgo refuses answers above
// 100 MiB, so that requests are split by the size of the last answers.
const (
	commitsBytes   = 16 << 20 // wanted size of an answer
	commitsUnknown = 64 << 10 // assumed of a group that never answered
	commitsBase    = 40       // of a partition without metadata
	commitsAtOnce  = 4
)

// fetchCommits asks for all commits of all groups, then explicitly for those
// that were there before and are in no answer: without permission for a topic
// the broker leaves it out of the former and says so in the latter.
func (r *round) fetchCommits(ctx context.Context) {
	r.askCommits(ctx, r.chunks())
	if again := r.absentCommits(); len(again) > 0 {
		r.askCommits(ctx, [][]kmsg.OffsetFetchRequestGroup{again})
	}
}

func (r *round) askCommits(ctx context.Context, chunks [][]kmsg.OffsetFetchRequestGroup) {
	var g errgroup.Group
	g.SetLimit(commitsAtOnce)
	for _, groups := range chunks {
		g.Go(func() error {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Groups = groups
			r.shards(ctx, req, "fetching commits", func(resp kmsg.Response) {
				for i := range resp.(*kmsg.OffsetFetchResponse).Groups {
					r.takeCommits(&resp.(*kmsg.OffsetFetchResponse).Groups[i])
				}
			})
			return nil
		})
	}
	_ = g.Wait() // the functions return no errors: what fails is unknown
}

// chunks splits the groups so that each answer stays small.
func (r *round) chunks() (chunks [][]kmsg.OffsetFetchRequestGroup) {
	size := 0
	for _, name := range r.inv.groupNames() {
		bytes := r.inv.groups[name].bytes
		if bytes == 0 {
			bytes = commitsUnknown
		}
		if len(chunks) == 0 || size+bytes > commitsBytes {
			chunks, size = append(chunks, nil), 0
		}
		size += bytes
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = name
		last := len(chunks) - 1
		chunks[last] = append(chunks[last], g)
	}
	return chunks
}

// takeCommits records one group's answer.
func (r *round) takeCommits(g *kmsg.OffsetFetchResponseGroup) {
	if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
		r.fail(fmt.Sprintf("fetching commits of group %q", g.Group), err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out, asked := r.groupAt[g.Group]
	if !asked {
		return
	}
	out.CommitsKnown = true
	entry := r.inv.groups[g.Group]
	entry.bytes = 0
	for i := range g.Topics {
		t := &g.Topics[i]
		if t.Topic == "" { // an id that the cluster's metadata does not name
			out.CommitsKnown = false
			r.failLocked(fmt.Sprintf("fetching commits of group %q", g.Group), errors.New("it reads a topic whose metadata cannot be seen"))
			continue
		}
		if !r.cfg.watchesTopic(t.Topic) {
			continue
		}
		pair := r.inv.pair(g.Group, t.Topic)
		entry.bytes += r.takeTopic(out.ensure(t.Topic), pair, t.Partitions)
	}
}

// takeTopic records a topic's commits and returns the size of the answer; mu
// is held.
func (r *round) takeTopic(out *CommitsSnapshot, pair *pairEntry, partitions []kmsg.OffsetFetchResponseGroupTopicPartition) (bytes int) {
	out.answered = true
	var refusal error
	for i := range partitions {
		p := &partitions[i]
		bytes += commitsBase
		if p.Metadata != nil {
			bytes += len(*p.Metadata)
		}
		switch {
		case p.ErrorCode != 0:
			out.refused = append(out.refused, p.Partition)
			out.Commits = put(out.Commits, p.Partition, Unread)
			refusal = kerr.ErrorForCode(p.ErrorCode)
		case p.Offset < 0:
			out.Commits = put(out.Commits, p.Partition, None)
		default:
			out.Commits = put(out.Commits, p.Partition, p.Offset)
			out.claim(p)
			for int(p.Partition) >= len(pair.Committed) {
				pair.Committed = append(pair.Committed, false)
			}
			pair.Committed[p.Partition] = true
		}
	}
	if refusal != nil {
		r.failLocked(fmt.Sprintf("fetching commits of topic %q", out.Topic), refusal)
	}
	return bytes
}

// absentCommits lists, of the groups that answered, what they had committed or
// held before and what is in no answer.
func (r *round) absentCommits() (groups []kmsg.OffsetFetchRequestGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.inv.groupNames() {
		out := r.groupAt[name]
		if out == nil || !out.CommitsKnown {
			continue
		}
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = name
		for topic, pair := range r.inv.groups[name].Topics {
			if missing := r.absentOf(out.ensure(topic), pair, topic); len(missing) > 0 {
				t := kmsg.NewOffsetFetchRequestGroupTopic()
				t.Topic, t.Partitions = topic, missing
				g.Topics = append(g.Topics, t)
			}
		}
		if len(g.Topics) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// absentOf is the partitions of a topic to ask for by name: all, when the
// topic was in no answer, else those that were committed before.
func (r *round) absentOf(out *CommitsSnapshot, pair *pairEntry, topic string) (missing []int32) {
	n := max(len(pair.Committed), r.inv.topics[topic].Partitions)
	for p := range n {
		had := p < len(pair.Committed) && pair.Committed[p]
		if offsetOf(out.Commits, p) == Unread && (had || !out.answered) {
			missing = append(missing, int32(p))
		}
	}
	return missing
}

// fillNone marks what an answer about the topic left out as not committed:
// answers hold only partitions with commits. A partition that was asked for by
// name and is still Unread stays so.
func (r *round) fillNone(out *CommitsSnapshot, pair *pairEntry, topic string) {
	if !out.answered {
		return
	}
	for p := range r.inv.topics[topic].Partitions {
		had := p < len(pair.Committed) && pair.Committed[p]
		if !had && offsetOf(out.Commits, p) == Unread && !slices.Contains(out.refused, int32(p)) {
			out.Commits = put(out.Commits, int32(p), None)
		}
	}
}
