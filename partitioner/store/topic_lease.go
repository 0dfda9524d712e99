package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Sessions lists the producers that are registered in the routing topic, up to
// where it ends now.
func (t *Topic) Sessions(ctx context.Context) ([]routing.Session, error) {
	if err := t.Sync(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.replay.Sessions(), nil
}

// AwaitSessions waits until every session that is registered now either leased
// with the given revision of the table or a later one, or its lease is over.
// The time of a lease is counted by this machine's clock from when the lease
// was read, and for one that was there before from when the sessions topic was
// read to its end: so a session is never given up before it has given itself
// up. It returns the sessions whose leases were over, after taking their
// registrations back.
//
// When ctx ends first the error names the sessions that were waited for.
func (t *Topic) AwaitSessions(ctx context.Context, revision uint64) (over []routing.Session, err error) {
	registered, err := t.Sessions(ctx)
	if err != nil || len(registered) == 0 {
		return nil, err
	}
	watch := newLeaseWatch(registered, revision, t.cfg.Lease)
	if err := t.watchLeases(ctx, watch); err != nil {
		return nil, err
	}
	for _, s := range watch.over {
		if err := t.send(ctx, t.cfg.RoutingTopic(), s.EndRecord()); err != nil {
			return nil, fmt.Errorf("end of session %s: %w", s.ID, err)
		}
		t.cfg.Logger.Info("session without a lease is over", zap.Stringer("session", s.ID), zap.String("client", s.Client))
	}
	return watch.over, nil
}

// watchLeases feeds the sessions topic to a watch until it waits for no one.
func (t *Topic) watchLeases(ctx context.Context, watch *leaseWatch) error {
	topic := t.cfg.SessionsTopic()
	end, err := t.offset(ctx, topic, latest)
	if err != nil {
		return err
	}
	reader, err := kgo.NewClient(t.cfg.opts(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(500*time.Millisecond),
	)...)
	if err != nil {
		return fmt.Errorf("Kafka client: %w", err)
	}
	defer reader.Close()
	position := int64(0)
	for {
		if position >= end {
			watch.atEnd(time.Now())
		}
		if watch.done(time.Now()) {
			return nil
		}
		fetches := t.pollUntil(ctx, reader, watch.next(time.Now()))
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for revision %d at sessions %s: %w", watch.revision, watch.names(), ctx.Err())
		}
		for _, r := range fetches.Records() {
			position = r.Offset + 1
			watch.apply(routing.Record{Key: r.Key, Value: r.Value}, time.Now())
		}
		if err := firstError(fetches); err != nil {
			return topicError(topic, err, "")
		}
	}
}

// pollUntil polls for at most d; 0 means for as long as it takes.
func (t *Topic) pollUntil(ctx context.Context, reader *kgo.Client, d time.Duration) kgo.Fetches {
	if d > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, d)
		defer done()
	}
	return reader.PollFetches(ctx)
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

// leaseWatch is the decision whom to wait for, over plain data.
type leaseWatch struct {
	revision uint64
	lease    time.Duration
	waiting  map[routing.SessionID]routing.Session
	lastSeen map[routing.SessionID]time.Time
	ended    time.Time // when the topic's end was reached; zero before
	over     []routing.Session
}

func newLeaseWatch(sessions []routing.Session, revision uint64, lease time.Duration) *leaseWatch {
	w := &leaseWatch{revision: revision, lease: lease, waiting: map[routing.SessionID]routing.Session{}, lastSeen: map[routing.SessionID]time.Time{}}
	for _, s := range sessions {
		w.waiting[s.ID] = s
	}
	return w
}

// apply takes a record of the sessions topic, read at now.
func (w *leaseWatch) apply(r routing.Record, now time.Time) {
	lease, ended, err := routing.ReadLease(r)
	if err != nil {
		return // of a later use of the topic
	}
	if ended || lease.Revision >= w.revision {
		delete(w.waiting, lease.ID)
		return
	}
	if !w.ended.IsZero() {
		w.lastSeen[lease.ID] = now
	}
}

// atEnd is called once the topic was read to the end.
func (w *leaseWatch) atEnd(now time.Time) {
	if w.ended.IsZero() {
		w.ended = now
	}
}

// done gives up on sessions whose lease is over, and tells whether none is left
// to wait for.
func (w *leaseWatch) done(now time.Time) bool {
	if w.ended.IsZero() {
		return false
	}
	for _, s := range w.sorted() {
		if now.Sub(w.seen(s.ID)) >= w.lease {
			w.over = append(w.over, s)
			delete(w.waiting, s.ID)
		}
	}
	return len(w.waiting) == 0
}

// next is the time until the next lease may be over; 0 before the end is
// reached.
func (w *leaseWatch) next(now time.Time) time.Duration {
	if w.ended.IsZero() {
		return 0
	}
	next := w.lease
	for id := range w.waiting {
		next = min(next, w.lease-now.Sub(w.seen(id)))
	}
	return max(next, time.Millisecond)
}

// seen is since when a session's lease counts.
func (w *leaseWatch) seen(id routing.SessionID) time.Time {
	if at, ok := w.lastSeen[id]; ok {
		return at
	}
	return w.ended
}

func (w *leaseWatch) sorted() []routing.Session {
	return slices.SortedFunc(maps.Values(w.waiting), func(a, b routing.Session) int {
		return strings.Compare(a.ID.String(), b.ID.String())
	})
}

func (w *leaseWatch) names() string {
	var names []string
	for _, s := range w.sorted() {
		names = append(names, strings.TrimSpace(s.ID.String()+" "+s.Client))
	}
	return strings.Join(names, ", ")
}
