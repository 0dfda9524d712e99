package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
// with the given revision of the table or a later one, or ended, or its lease is
// over. It returns the sessions whose leases were over, after taking their
// registrations back.
//
// The time of a lease is counted by this machine's clock from when the lease
// was read, and for one that was there before from when the sessions topic was
// read to its end; and it is over only if the topic, read to its end after that
// time, holds no later one. So a session is never given up before it has given
// itself up.
//
// When ctx ends first the error names the sessions that were waited for.
func (t *Topic) AwaitSessions(ctx context.Context, revision uint64) (over []routing.Session, err error) {
	registered, err := t.Sessions(ctx)
	if err != nil || len(registered) == 0 {
		return nil, err
	}
	watch := newLeaseWatch(registered, time.Now(), t.cfg.Lease, func(l routing.Lease) bool { return l.Revision >= revision })
	return t.awaitLeases(ctx, leaseWait{watch: watch, what: fmt.Sprintf("revision %d", revision)})
}

// leaseWait is a wait for sessions.
type leaseWait struct {
	watch *leaseWatch
	what  string // is waited for
	// progress is told whom the wait is for, at first and whenever it changes; or
	// nil.
	progress func(waiting []routing.Session)
	// over tells that the wait has become pointless, with mu held; or nil.
	over func() error
}

// awaitLeases waits until a watch waits for no one. It returns the sessions
// whose leases are over, with their registrations taken back.
func (t *Topic) awaitLeases(ctx context.Context, w leaseWait) ([]routing.Session, error) {
	if err := t.FollowSessions(ctx); err != nil {
		return nil, err
	}
	told := -1
	for {
		leased, changed, err := t.lookAt(&w)
		if err != nil {
			return nil, err
		}
		if n := len(w.watch.waiting); n != told && w.progress != nil {
			w.progress(w.watch.sorted())
			told = n
		}
		if w.watch.done() {
			return w.watch.over, t.endSessions(ctx, w.watch.over)
		}
		if err := t.awaitLease(ctx, w.watch, leased, changed); err != nil {
			return nil, fmt.Errorf("waiting for %s at sessions %s: %w", w.what, w.watch.names(), err)
		}
	}
}

// lookAt lets a watch see the leases and registrations of now. The channels are
// closed at the next ones.
func (t *Topic) lookAt(w *leaseWait) (leased, changed <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.over != nil {
		if err := w.over(); err != nil {
			return nil, nil, err
		}
	}
	if !t.loading { // else the registrations are not read yet
		w.watch.keep(func(id routing.SessionID) bool { _, is := t.replay.Session(id); return is })
	}
	t.leases.mu.Lock()
	defer t.leases.mu.Unlock()
	w.watch.look(&t.leases.leasesRead)
	return t.leases.moved, t.moved, t.leases.err
}

// awaitLease waits for news. Where a lease may be over it reads to the topic's
// end first, which is what tells.
func (t *Topic) awaitLease(ctx context.Context, watch *leaseWatch, leased, changed <-chan struct{}) error {
	pause := watch.next(time.Now())
	if pause <= 0 {
		return t.leases.sync(ctx, t)
	}
	due := time.NewTimer(pause)
	defer due.Stop()
	select {
	case <-leased:
	case <-changed:
	case <-due.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// endSessions takes back the registrations of sessions whose leases are over.
// One that registered anew meanwhile has another.
func (t *Topic) endSessions(ctx context.Context, over []routing.Session) error {
	for _, s := range over {
		if err := t.send(ctx, t.cfg.RoutingTopic(), s.EndRecord()); err != nil {
			return fmt.Errorf("end of session %s: %w", s.ID, err)
		}
		t.cfg.Logger.Info("session without a lease is over", zap.Stringer("session", s.ID), zap.String("client", s.Client))
	}
	return nil
}

// leaseWatch is the decision whom to wait for, over plain data.
type leaseWatch struct {
	lease     time.Duration
	satisfied func(routing.Lease) bool
	waiting   map[routing.SessionID]*watched
	over      []routing.Session
}

// watched is a session that is waited for.
type watched struct {
	routing.Session

	expires time.Time // when its lease may be over; of one without a lease, a lease after the wait began
}

func newLeaseWatch(sessions []routing.Session, now time.Time, lease time.Duration, satisfied func(routing.Lease) bool) *leaseWatch {
	w := &leaseWatch{lease: lease, satisfied: satisfied, waiting: make(map[routing.SessionID]*watched, len(sessions))}
	for _, s := range sessions {
		w.waiting[s.ID] = &watched{Session: s, expires: now.Add(lease)}
	}
	return w
}

// keep drops the sessions that are not registered any more: they ended cleanly,
// or someone else found their leases to be over.
func (w *leaseWatch) keep(registered func(routing.SessionID) bool) {
	maps.DeleteFunc(w.waiting, func(id routing.SessionID, _ *watched) bool { return !registered(id) })
}

// look drops the sessions that leased as is wanted, and those whose leases are
// over as of the latest time up to which everything is read.
func (w *leaseWatch) look(read *leasesRead) {
	for _, s := range w.sorted() {
		watched := w.waiting[s.ID]
		if seen, ok := read.seen[s.ID]; ok {
			if w.satisfied(seen.lease) {
				delete(w.waiting, s.ID)
				continue
			}
			watched.expires = read.since(seen).Add(w.lease)
		}
		if read.knows(watched.expires) {
			w.over = append(w.over, s)
			delete(w.waiting, s.ID)
		}
	}
}

func (w *leaseWatch) done() bool { return len(w.waiting) == 0 }

// next is the time until a lease may be over.
func (w *leaseWatch) next(now time.Time) time.Duration {
	next := w.lease
	for _, s := range w.waiting {
		next = min(next, s.expires.Sub(now))
	}
	return next
}

func (w *leaseWatch) sorted() []routing.Session {
	sessions := make([]routing.Session, 0, len(w.waiting))
	for _, s := range w.waiting {
		sessions = append(sessions, s.Session)
	}
	slices.SortFunc(sessions, func(a, b routing.Session) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return sessions
}

func (w *leaseWatch) names() string {
	var names []string
	for _, s := range w.sorted() {
		names = append(names, strings.TrimSpace(s.ID.String()+" "+s.Client))
	}
	return strings.Join(names, ", ")
}
