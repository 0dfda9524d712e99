package consumer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

var errNothingToCommit = errors.New("nothing is owned any more")

// commitLoop commits at every interval, and at once when kicked. It is a
// goroutine of its own since a commit waits for a join under way.
func (rt *Runtime) commitLoop(ctx context.Context) {
	ticker := time.NewTicker(rt.cfg.CommitInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-rt.kick:
		}
		limited, cancel := context.WithTimeout(ctx, commitTimeout)
		rt.commit(limited, rt.engine.owned(nil))
		cancel()
		rt.engine.reportStalls()
	}
}

func (rt *Runtime) kickCommit() {
	select {
	case rt.kick <- struct{}{}:
	default:
	}
}

// pendingCommit is what one commit says of one partition.
type pendingCommit struct {
	p *partition
	offset.Commit
}

// told is what the application learns of it: no more names than fit into a
// commit for sure, so that a later one does not say less.
func (c pendingCommit) told() Committed {
	said, sure := c.State, c.p.names()
	done := Committed{Topic: c.p.topic, Partition: c.p.id, Offset: c.Offset, Frontier: said.Frontier}
	if sure < len(said.Lanes) {
		done.Frontier, said.Lanes = said.Lanes[sure].Offset, said.Lanes[:sure]
	}
	for _, l := range said.Lanes {
		if l.Offset < done.Frontier { // lanes whose next record is not known may have one offset
			done.Lanes = append(done.Lanes, CommittedLane{Name: l.Name, Offset: l.Offset})
		}
	}
	return done
}

// commit commits the partitions whose watermark has moved. One commit runs at
// a time, from its snapshot to its answer, so that offsets never go back. Its
// errors are logged and counted; the next one tries again.
func (rt *Runtime) commit(ctx context.Context, parts []*partition) {
	select {
	case rt.turn <- struct{}{}:
		defer func() { <-rt.turn }()
	case <-ctx.Done():
		return
	}
	pending := rt.engine.pendingCommits(parts)
	if len(pending) == 0 {
		return
	}
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for tp, c := range pending {
		if offsets[tp.topic] == nil {
			offsets[tp.topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[tp.topic][tp.id] = kgo.EpochOffset{Epoch: c.LeaderEpoch, Offset: c.Offset}
	}
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error { return complete(req, pending) })
	rt.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		rt.committed(pending, req, resp, err)
	})
}

// commitPause is the wait before a last commit is tried again.
const commitPause = 100 * time.Millisecond

// commitUntilAcknowledged commits until nothing of these partitions is left to
// commit, or ctx ends. No later commit makes up for one that is refused before
// partitions change hands: all that was done since the one before would repeat.
func (rt *Runtime) commitUntilAcknowledged(ctx context.Context, parts []*partition) {
	for rt.commit(ctx, parts); ctx.Err() == nil && len(rt.engine.pendingCommits(parts)) > 0; rt.commit(ctx, parts) {
		pause(ctx, commitPause)
	}
}

// complete writes the metadata into a commit that is about to be sent, and
// takes partitions out that were taken away since its snapshot: the commit may
// have waited for a rebalance, and would then speak for their new owner.
func complete(req *kmsg.OffsetCommitRequest, pending map[topicPartition]pendingCommit) error {
	for i := range req.Topics {
		t := &req.Topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.OffsetCommitRequestTopicPartition) bool {
			return pending[topicPartition{t.Topic, p.Partition}].p.gone.Load()
		})
		for j := range t.Partitions {
			c := pending[topicPartition{t.Topic, t.Partitions[j].Partition}]
			t.Partitions[j].Metadata = new(metadataText(c))
		}
	}
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.OffsetCommitRequestTopic) bool { return len(t.Partitions) == 0 })
	if len(req.Topics) == 0 {
		return errNothingToCommit
	}
	return nil
}

// metadataText is the text of a commit: space-separated parts, each by one
// mechanism.
func metadataText(c pendingCommit) string {
	parts := make([]string, 0, 2)
	if c.Metadata != "" {
		parts = append(parts, c.Metadata)
	}
	if !c.p.instant.IsZero() {
		parts = append(parts, formatInstant(c.p.instant))
	}
	return strings.Join(parts, " ")
}

// committed notes a commit's answer.
func (rt *Runtime) committed(pending map[topicPartition]pendingCommit, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
	if err != nil {
		if !errors.Is(err, errNothingToCommit) && !errors.Is(err, context.Canceled) {
			rt.metrics.commitErrs.WithLabelValues(errorLabel(err)).Add(float64(len(pending)))
			rt.engine.sampled.Error("committing offsets", zap.Error(err))
		}
		return
	}
	names := topicNames(req)
	var done []Committed
	for i := range resp.Topics {
		t := &resp.Topics[i]
		topic := t.Topic
		if topic == "" {
			topic = names[t.TopicID]
		}
		for _, p := range t.Partitions {
			c, ok := pending[topicPartition{topic, p.Partition}]
			if !ok {
				continue
			}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				rt.commitFailed(c, err)
				continue
			}
			done = append(done, c.told())
			rt.engine.acknowledged(c)
		}
	}
	if len(done) == 0 {
		return
	}
	rt.metrics.commits.Inc()
	if rt.cfg.OnCommit != nil {
		rt.cfg.OnCommit(done)
	}
}

func (rt *Runtime) commitFailed(c pendingCommit, err error) {
	if errors.Is(err, kerr.OffsetMetadataTooLarge) {
		rt.engine.tooLong(c)
	}
	rt.metrics.commitErrs.WithLabelValues(errorLabel(err)).Inc()
	rt.engine.sampled.Error("committing an offset", zap.String("topic", c.p.topic), zap.Int32("partition", c.p.id),
		zap.Int64("offset", c.Offset), zap.Error(err))
}

// topicNames resolves topic ids, which newer brokers answer with instead of
// names.
func topicNames(req *kmsg.OffsetCommitRequest) map[[16]byte]string {
	names := make(map[[16]byte]string, len(req.Topics))
	for i := range req.Topics {
		names[req.Topics[i].TopicID] = req.Topics[i].Topic
	}
	return names
}
