package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// ErrNoHistory says that the history topic no longer holds a change that is
// needed: it keeps 90 days.
var ErrNoHistory = errors.New("the history does not go back that far")

// History lists the changes of the table that the history topic still holds,
// oldest first, each in one piece.
func (t *Topic) History(ctx context.Context) ([]routing.History, error) {
	topic := t.cfg.HistoryTopic()
	end, err := t.offset(ctx, topic, latest)
	if err != nil {
		return nil, err
	}
	var changes []routing.History
	err = t.readTo(ctx, topic, end, func(r *kgo.Record) error {
		h, unreadable := routing.ReadHistory(routing.Record{Key: r.Key, Value: r.Value})
		if unreadable != nil {
			return topicError(topic, fmt.Errorf("offset %d: %w", r.Offset, unreadable), "")
		}
		if last := len(changes) - 1; h.Part > 1 && last >= 0 && changes[last].Revision == h.Revision {
			changes[last].Changes = append(changes[last].Changes, h.Changes...)
			changes[last].Part = h.Part
			return nil
		}
		changes = append(changes, h)
		return nil
	})
	// What retention cut in the middle has no first part: it is of no use.
	return slices.DeleteFunc(changes, func(h routing.History) bool { return h.Part != h.Parts }), err
}

// readTo visits a topic's committed records from its start to an end. It reads
// to the high watermark, waiting where the last stable offset is behind it.
func (t *Topic) readTo(ctx context.Context, topic string, end int64, visit func(*kgo.Record) error) error {
	start, err := t.offset(ctx, topic, earliest)
	if err != nil || start >= end {
		return err
	}
	reader, err := kgo.NewClient(t.cfg.opts(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(start)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(500*time.Millisecond),
	)...)
	if err != nil {
		return fmt.Errorf("Kafka client: %w", err)
	}
	defer reader.Close()
	for position := start; position < end; {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return topicError(topic, fmt.Errorf("at offset %d of %d: %w", position, end, ctx.Err()), "")
		}
		if err := firstError(fetches); err != nil {
			return topicError(topic, err, "")
		}
		for _, r := range fetches.Records() {
			position = r.Offset + 1
			if r.Attrs.IsControl() {
				continue
			}
			if err := visit(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rollback makes the table say again what it said at a revision, as a new
// revision: what moves back does so since the topic's next epoch. The history
// must reach back to that revision.
func (t *Topic) Rollback(ctx context.Context, by Author, revision uint64) (*routing.Table, error) {
	return t.Update(ctx, by, func(present *routing.Table) (*routing.Table, error) {
		then, err := t.TableAt(ctx, present, revision)
		if err != nil {
			return nil, err
		}
		return routing.Rebase(present, then.Spec())
	})
}

// TableAt gives the table of an earlier revision, by taking the changes since
// then back from present.
func (t *Topic) TableAt(ctx context.Context, present *routing.Table, revision uint64) (*routing.Table, error) {
	if revision == present.Revision() {
		return present, nil
	}
	if revision > present.Revision() {
		return nil, fmt.Errorf("revision %d is yet to come, the present one is %d", revision, present.Revision())
	}
	history, err := t.History(ctx)
	if err != nil {
		return nil, err
	}
	var newestFirst []routing.EntryChange
	at := present.Revision()
	for _, h := range slices.Backward(history) {
		if h.Revision == at && at > revision {
			newestFirst = append(newestFirst, h.Changes...)
			at--
		}
	}
	if at > revision {
		return nil, fmt.Errorf("revision %d: %w: the change that made revision %s is not in it", revision, ErrNoHistory, strconv.FormatUint(at, 10))
	}
	return routing.Revert(present, newestFirst, revision)
}

// firstError is a fetch's error, apart from that of a poll that ended in time.
func firstError(fetches kgo.Fetches) (first error) {
	fetches.EachError(func(_ string, _ int32, err error) {
		if first == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			first = err
		}
	})
	return first
}
