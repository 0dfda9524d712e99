package consumer

import (
	"context"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// The group's callbacks run one at a time, in the client's goroutine that
// manages the group; it waits for them, and heartbeats meanwhile. They must not
// leave the group or close the client: that would wait for them.
//
//	assigned:  barrier                                    then the commits are fetched
//	fetched:   metadata is kept
//	adjust:    where each partition begins is decided ─▶ open
//	revoked:   barrier ─▶ drain (only these) ─▶ commit ─▶ close
//	lost:      barrier ─▶ close; never a commit

func (rt *Runtime) onAssigned(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
	<-rt.connected // the client joins the group before NewClient has returned
	rt.barrier.wait()
	rt.engine.slabs.forget()
	rt.metrics.rebalances.WithLabelValues("assigned").Inc()
	rt.log.Info("partitions assigned", zap.Any("partitions", assigned))
	if len(assigned) == 0 {
		rt.tellAssigned(nil)
	}
}

func (rt *Runtime) tellAssigned(assigned []Assigned) {
	rt.joined.Store(true)
	if rt.cfg.OnAssign != nil {
		rt.cfg.OnAssign(assigned)
	}
}

func (rt *Runtime) onRevoked(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
	<-rt.connected
	rt.barrier.wait()
	rt.engine.slabs.forget()
	parts := rt.engine.owned(revoked)
	if len(revoked) == 0 || len(parts) == 0 {
		return
	}
	rt.metrics.rebalances.WithLabelValues("revoked").Inc()
	rt.handOver(parts)
	rt.engine.close(parts)
	rt.log.Info("partitions revoked", zap.Any("partitions", revoked))
}

// handOver finishes what it can of partitions that others take over, and
// commits it. A worker that ends has drained, and once its last commit is made
// there is nothing to say: the client revokes all when it leaves the group.
func (rt *Runtime) handOver(parts []*partition) {
	if rt.final.Load() {
		return
	}
	if !rt.stopped.Load() {
		ctx, cancel := rt.drainContext()
		rt.engine.drain(ctx, parts)
		cancel()
	}
	ctx, cancel := rt.lastContext()
	defer cancel()
	rt.commitUntilAcknowledged(ctx, parts)
}

func (rt *Runtime) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	rt.barrier.wait()
	if len(lost) == 0 {
		return
	}
	rt.metrics.rebalances.WithLabelValues("lost").Inc()
	rt.engine.close(rt.engine.owned(lost))
	rt.log.Warn("partitions lost", zap.Any("partitions", lost))
}

// onOffsetsFetched keeps the metadata of the commits, which adjustOffsets does
// not get.
func (rt *Runtime) onOffsetsFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for i := range resp.Groups {
		for j := range resp.Groups[i].Topics {
			t := &resp.Groups[i].Topics[j]
			for k := range t.Partitions {
				p := &t.Partitions[k]
				tp := topicPartition{t.Topic, p.Partition}
				delete(rt.metadata, tp)
				if p.Metadata != nil && p.Offset >= 0 {
					rt.metadata[tp] = *p.Metadata
				}
			}
		}
	}
	return nil
}

// adjustOffsets decides where newly assigned partitions begin, and opens them.
// The client may call it again for the same partitions when a rebalance comes
// in between: they are then opened anew, with nothing admitted so far.
func (rt *Runtime) adjustOffsets(ctx context.Context, fetched map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	rt.mu.Lock()
	metadata := maps.Clone(rt.metadata)
	rt.mu.Unlock()
	begins, err := rt.begins.resolve(ctx, fetched, metadata, rt.engine.ruleOf)
	if err != nil {
		return nil, fmt.Errorf("deciding where partitions begin: %w", err)
	}
	behind := rt.readTable(ctx, fetched)
	_, generation := rt.client.GroupMetadata()
	assigned := make([]Assigned, 0, len(begins))
	for tp, at := range begins {
		at.behindTable = behind[tp.topic]
		token := rt.openAt(tp, at, generation)
		assigned = append(assigned, Assigned{Topic: tp.topic, Token: token, Named: at.checkpoint != nil})
		if next := at.cursor(); next != unknownOffset {
			fetched[tp.topic][tp.id] = kgo.NewOffset().At(next).WithEpoch(at.epoch)
		}
	}
	rt.knowCommits(ctx, fetched)
	rt.tellAssigned(assigned)
	rt.kickCommit()
	return fetched, nil
}

func (rt *Runtime) openAt(tp topicPartition, at begin, generation int32) Token {
	p := rt.engine.open(tp, at, generation)
	if at.lost > 0 {
		rt.metrics.lost.WithLabelValues(tp.topic, tp.label()).Add(float64(at.lost))
		rt.log.Error("records were deleted by retention before they were handled",
			zap.String("topic", tp.topic), zap.Int32("partition", tp.id),
			zap.Int64("offset", at.offset), zap.Int64("records", at.lost))
	}
	return p.token
}
