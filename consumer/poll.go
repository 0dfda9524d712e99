package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// pollPause is how long the loop waits after a poll that brought errors only:
// the client returns some of them as fast as it is polled.
const pollPause = 200 * time.Millisecond

// poll fetches and admits until ctx ends or the runtime is hurried. It never
// waits for a worker: at a bound it admits and polls no more, and nothing that
// was fetched under an assignment that goes on is thrown away. The client
// heartbeats by itself meanwhile.
func (rt *Runtime) poll(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(rt.hurry, cancel)()
	var a admission
	paused := make(map[topicPartition]bool)
	for ctx.Err() == nil {
		rt.polled.Store(time.Now().UnixNano())
		if a.stage.empty() {
			rt.attend(paused) // moves the cursor: nothing of before may be admitted later
		}
		if rt.engine.free() == 0 {
			rt.awaitRoom(ctx)
			continue
		}
		recreated, errs, records := rt.round(ctx, &a)
		if len(recreated) > 0 {
			rt.readd(recreated)
		}
		if errs > 0 && records == 0 {
			pause(ctx, pollPause)
		}
	}
}

// attend sends the cursor back where a checkpoint was of another log, and lets
// it wait where a lane is too far behind it. A pause outlives an assignment in
// the client, so one that is not wanted any more is taken back.
func (rt *Runtime) attend(paused map[topicPartition]bool) {
	if back := rt.engine.takeRewinds(); len(back) > 0 {
		offsets := make(map[string]map[int32]kgo.EpochOffset)
		for tp, at := range back {
			if offsets[tp.topic] == nil {
				offsets[tp.topic] = make(map[int32]kgo.EpochOffset)
			}
			offsets[tp.topic][tp.id] = kgo.EpochOffset{Epoch: -1, Offset: at}
		}
		rt.client.SetOffsets(offsets)
	}
	far := rt.engine.far()
	for tp := range far {
		if !paused[tp] {
			paused[tp] = true
			rt.paused.Add(1)
			rt.log.Warn("a lane is too far behind: its partition is not read on", zap.String("topic", tp.topic), zap.Int32("partition", tp.id))
			rt.client.PauseFetchPartitions(map[string][]int32{tp.topic: {tp.id}})
		}
	}
	for tp := range paused {
		if !far[tp] {
			delete(paused, tp)
			rt.paused.Add(-1)
			rt.client.ResumeFetchPartitions(map[string][]int32{tp.topic: {tp.id}})
		}
	}
}

// awaitRoom waits until there may be room again. It looks again after a while
// in any case, since the engine makes room when it stays full.
func (rt *Runtime) awaitRoom(ctx context.Context) {
	timer := time.NewTimer(fullPatience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-rt.engine.room:
	case <-rt.engine.attention:
	case <-timer.C:
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// round polls, unless something of the last poll is left, and admits what there
// is room for. Callbacks of the group wait for its end.
func (rt *Runtime) round(ctx context.Context, a *admission) (recreated []string, errs, records int) {
	poll := rt.barrier.enter(ctx)
	defer rt.barrier.leave()
	if a.stage.empty() {
		recreated, errs = rt.fetch(poll, &a.stage)
	}
	return recreated, errs, rt.engine.admitStaged(a)
}

// fetch polls all that the client has.
func (rt *Runtime) fetch(ctx context.Context, into *stage) (recreated []string, errs int) {
	fetches := rt.client.PollFetches(ctx)
	for i := range fetches {
		for j := range fetches[i].Topics {
			topic := &fetches[i].Topics[j]
			for k := range topic.Partitions {
				fp := &topic.Partitions[k]
				if fp.Err != nil && ctx.Err() == nil {
					errs++
					if rt.fetchError(topic.Topic, fp) {
						recreated = append(recreated, topic.Topic)
					}
				}
				into.fill(topic.Topic, rt.engine.opened(topicPartition{topic.Topic, fp.Partition}), fp)
			}
		}
	}
	return recreated, errs
}

// fetchError notes an error of a poll. It is true when the topic was deleted
// and made again, which the client does not get over by itself.
func (rt *Runtime) fetchError(topic string, fp *kgo.FetchPartition) (recreated bool) {
	if errors.Is(fp.Err, kgo.ErrClientClosed) || errors.Is(fp.Err, context.Canceled) {
		return false
	}
	rt.metrics.fetchErrs.WithLabelValues(errorLabel(fp.Err)).Inc()
	rt.engine.sampled.Error("fetching", zap.String("topic", topic), zap.Int32("partition", fp.Partition), zap.Error(fp.Err))
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](fp.Err); ok {
		rt.engine.reset(topicPartition{loss.Topic, loss.Partition}, loss.ResetTo)
	}
	return errors.Is(fp.Err, kerr.UnknownTopicID)
}

// readd makes the client forget topics that were deleted and made again, and
// consume them anew. The group rebalances.
func (rt *Runtime) readd(topics []string) {
	rt.log.Warn("topics were made again: consuming them anew", zap.Strings("topics", topics))
	rt.client.PurgeTopicsFromConsuming(topics...)
	rt.client.AddConsumeTopics(topics...)
}

// errorLabel is a bounded name of an error.
func errorLabel(err error) string {
	if ke, ok := errors.AsType[*kerr.Error](err); ok {
		return ke.Message
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case isType[*kgo.ErrDataLoss](err):
		return "data_loss"
	case isType[*kgo.ErrGroupSession](err):
		return "group_session"
	}
	return "other"
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
