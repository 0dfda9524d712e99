package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// leases follow the sessions topic, from the first time that someone asks and
// for as long as the store is open, so that a wait for sessions takes no longer
// than their answers take.
type leases struct {
	mu sync.Mutex
	// guards everything below; taken after Topic.mu, if both are
	leasesRead

	following bool
	closed    bool
	moved     chan struct{} // closed and replaced when anything here changes
	err       error         // why the topic cannot be read; nil if it is, or may be soon
}

// leasesRead is what is known of the sessions topic, as plain data.
type leasesRead struct {
	seen     map[routing.SessionID]seenLease
	position int64
	reached  time.Time // when an end of the topic was first reached; zero before
	asOf     time.Time // everything written before is read; zero before
}

// seenLease is the latest lease of a session.
type seenLease struct {
	lease routing.Lease
	at    time.Time // when it was read
}

func newLeases() leases {
	return leases{leasesRead: newLeasesRead(), moved: make(chan struct{})}
}

func newLeasesRead() leasesRead {
	return leasesRead{seen: map[routing.SessionID]seenLease{}}
}

// apply takes a record of the topic, read at now.
func (r *leasesRead) apply(rec routing.Record, offset int64, now time.Time) {
	r.position = offset + 1
	lease, ended, err := routing.ReadLease(rec)
	switch {
	case err != nil: // of a later use of the topic
	case ended:
		delete(r.seen, lease.ID)
	default:
		r.seen[lease.ID] = seenLease{lease, now}
	}
}

// since is when the time of a lease began at the latest: when it was read, and
// of those that were there before, when the end was reached.
func (r *leasesRead) since(s seenLease) time.Time {
	if s.at.Before(r.reached) {
		return r.reached
	}
	return s.at
}

// knows tells whether everything is read that was written before at.
func (r *leasesRead) knows(at time.Time) bool { return !r.asOf.IsZero() && !r.asOf.Before(at) }

// reach takes note that everything written before at is read, as of now.
func (r *leasesRead) reach(at, now time.Time) {
	if r.reached.IsZero() {
		r.reached = now
	}
	if at.After(r.asOf) {
		r.asOf = at
	}
}

// changed wakes whoever waits; mu is held.
func (l *leases) changed() {
	close(l.moved)
	l.moved = make(chan struct{})
}

// FollowSessions begins to follow the sessions' leases, if that has not begun,
// and returns once it has read them up to now. AwaitSessions and AwaitDrained do
// that too; whoever is about to make moves does it before, since the first time
// takes a client of its own and a read of the whole topic.
func (t *Topic) FollowSessions(ctx context.Context) error {
	if !t.leases.begin(t) {
		return fmt.Errorf("topic %s: the store is closed", t.cfg.SessionsTopic())
	}
	t.leases.mu.Lock()
	current := !t.leases.reached.IsZero() && t.leases.err == nil
	t.leases.mu.Unlock()
	if current {
		return nil
	}
	return t.leases.sync(ctx, t)
}

// begin starts the follower once; it is false when the store is closed.
func (l *leases) begin(t *Topic) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if !l.following {
		l.following = true
		t.running.Go(func() { t.followLeases(t.life) })
	}
	return true
}

// end keeps the follower from being started any more.
func (l *leases) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// sync reads to where the topic ends now.
func (l *leases) sync(ctx context.Context, t *Topic) error {
	at := time.Now()
	end, err := t.offset(ctx, t.cfg.SessionsTopic(), latest)
	if err != nil {
		return err
	}
	for {
		l.mu.Lock()
		moved, position, err := l.moved, l.position, l.err
		if position >= end {
			l.reach(at, time.Now())
			l.mu.Unlock()
			return nil
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("reading topic %s up to offset %d, now at offset %d: %w", t.cfg.SessionsTopic(), end, position, ctx.Err())
		}
	}
}

// followLeases reads the sessions topic until ctx ends.
func (t *Topic) followLeases(ctx context.Context) {
	for ctx.Err() == nil {
		err := t.readLeases(ctx)
		if ctx.Err() == nil {
			t.cfg.Logger.Warn("sessions are read again from the start", zap.Error(err))
			sleep(ctx, retryPause)
		}
	}
}

// readLeases reads from the start until ctx ends or the topic was made anew.
func (t *Topic) readLeases(ctx context.Context) error {
	topic := t.cfg.SessionsTopic()
	reader, err := kgo.NewClient(t.cfg.opts(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(500*time.Millisecond),
	)...)
	if err != nil {
		return t.leases.fail(fmt.Errorf("Kafka client: %w", err))
	}
	defer reader.Close()
	t.leases.restart()
	for {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := firstError(fetches); err != nil {
			failed := t.leases.fail(topicError(topic, err, ""))
			if isLost(err) {
				return failed
			}
			sleep(ctx, retryPause)
		}
		t.leases.take(fetches.Records())
	}
}

func (l *leases) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leasesRead = newLeasesRead()
}

func (l *leases) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	l.changed()
	return err
}

func (l *leases) take(records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		l.apply(routing.Record{Key: r.Key, Value: r.Value}, r.Offset, now)
	}
	l.err = nil
	l.changed()
}
