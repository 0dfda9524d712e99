package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// SessionConfig describes a producer that takes part in moves.
type SessionConfig struct {
	// ID of the session, which its records' headers carry; a random one if it is
	// zero.
	ID routing.SessionID
	// Client is what the producer calls itself, for people.
	Client string
	// Topics that it routes.
	Topics []string
	// Revision tells by which revision of the table or a later one every record
	// was routed that is in flight or still to come. Nil means that of the
	// store's table, for a producer that has nothing in flight when it takes a
	// new one.
	Revision func() uint64
	// Drained lists the open moves of whose units this producer has nothing in
	// flight and holds everything back, until each has ended. It is asked for
	// each lease; nil means none, ever.
	Drained func() []string
}

// Session is a producer's registration and its lease. While Err is nil, no
// move that this producer has not seen can have gone on without it. Create one
// with [Topic.Register].
//
//	Register ─▶ lease, registration, its own record seen ─▶ Err() == nil
//	                                                           │ lease over, or view too old
//	                registered anew, own record seen ◀── ErrStaleTable
type Session struct {
	store   *Topic
	cfg     SessionConfig
	stop    context.CancelFunc
	running sync.WaitGroup
	renewed atomic.Pointer[time.Time] // when the latest lease that was confirmed was sent; nil when over
	held    atomic.Uint64             // registrations that were seen in the topic
	log     atomic.Uint64             // the store's, when the last of them was sent
	news    chan struct{}             // makes the next lease come at once

	// Of Register, then of the goroutine that renews, then of Close:
	renewal       uint64
	registrations uint64 // that were tried
	ended         uint64 // registrations below it are taken back
}

// Register announces a producer in the routing topic and returns once its own
// record was read there: from then on the producer has seen every move that
// does not wait for it. The lease is renewed until Close.
func (t *Topic) Register(ctx context.Context, cfg SessionConfig) (*Session, error) {
	if cfg.ID == (routing.SessionID{}) {
		if _, err := rand.Read(cfg.ID[:]); err != nil {
			return nil, fmt.Errorf("session id: %w", err)
		}
	}
	if cfg.Revision == nil {
		cfg.Revision = func() uint64 { return t.Table().Revision() }
	}
	if err := t.checkTopic(ctx, t.cfg.sessionsTopic(), trusting); err != nil {
		return nil, err
	}
	s := &Session{store: t, cfg: cfg, news: make(chan struct{}, 1)}
	for s.Err() != nil { // a lease that ran out meanwhile may have been given up
		if err := s.register(ctx); err != nil {
			return nil, fmt.Errorf("session %s: %w", cfg.ID, err)
		}
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.running.Go(func() { s.keep(life) })
	return s, nil
}

// ID of the session.
func (s *Session) ID() routing.SessionID { return s.cfg.ID }

// Err is nil while the lease surely holds by this machine's own clocks, and
// the view of the table is younger than a lease; else it is ErrStaleTable. Ask
// before a record is routed, and before its acknowledgement is passed on.
func (s *Session) Err() error {
	renewed, asOf := s.renewed.Load(), s.store.fresh.Load()
	if s.log.Load() != s.store.logs.Load() || renewed == nil || asOf == nil || passed(*renewed) >= s.store.cfg.Lease || passed(*asOf) >= s.store.cfg.Lease {
		return ErrStaleTable
	}
	return nil
}

// Registrations counts how often the session was registered and saw that, from
// 1. It rises before Err turns to nil again. What was sent under one
// registration and is answered under another may have been passed over by a move
// in between: see move.InTime. Ask Err first and this second.
func (s *Session) Registrations() uint64 { return s.held.Load() }

// Announce sends a lease at once, since what Drained says has changed. It does
// not block: calls that come while a lease is being sent are answered by one
// more.
func (s *Session) Announce() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Close ends the session: nobody waits for it any more. Only a producer that
// has nothing in flight may call it; any other lets its lease run out.
func (s *Session) Close(ctx context.Context) error {
	s.stop()
	s.running.Wait()
	s.renewed.Store(nil)
	lease := routing.Record{Key: routing.Lease{ID: s.cfg.ID}.Record().Key}
	err := s.endBefore(ctx, routing.Session{Registration: s.registrations})
	if err == nil {
		err = s.store.send(ctx, s.store.cfg.SessionsTopic(), lease)
	}
	if err != nil {
		return fmt.Errorf("end of session %s: %w", s.cfg.ID, err)
	}
	return nil
}

// send writes one record outside of any transaction.
func (t *Topic) send(ctx context.Context, topic string, r routing.Record) error {
	_, err := t.sendAt(ctx, topic, r)
	return err
}

func (t *Topic) sendAt(ctx context.Context, topic string, r routing.Record) (offset int64, err error) {
	sent, err := t.client.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value}).First()
	if err != nil {
		if isAnother(err) {
			t.client.PurgeTopicsFromProducing(topic) // else it fails for good
		}
		return 0, topicError(topic, err, "")
	}
	return sent.Offset, nil
}

// register leases first, so that whoever sees the registration sees a lease. A
// session that registers anew does so by another record, so that nobody who
// found the lease of before to be over takes the new registration back.
func (s *Session) register(ctx context.Context) error {
	sent, log := time.Now(), s.store.logs.Load()
	if err := s.lease(ctx); err != nil {
		return err
	}
	registration := routing.Session{ID: s.cfg.ID, Registration: s.registrations, Client: s.cfg.Client, Topics: s.cfg.Topics, At: time.Now()}
	s.registrations++
	offset, err := s.store.sendAt(ctx, s.store.cfg.RoutingTopic(), registration.Record())
	if err != nil {
		return err
	}
	if err := s.store.awaitPosition(ctx, offset+1); err != nil {
		return err
	}
	s.held.Add(1)
	s.log.Store(log)
	s.renewed.Store(&sent)
	return s.endBefore(ctx, registration)
}

// endBefore takes the registrations before the present one back.
func (s *Session) endBefore(ctx context.Context, present routing.Session) error {
	for ; s.ended < present.Registration; s.ended++ {
		before := routing.Session{ID: s.cfg.ID, Registration: s.ended}
		if err := s.store.send(ctx, s.store.cfg.RoutingTopic(), before.EndRecord()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) lease(ctx context.Context) error {
	s.renewal++
	lease := routing.Lease{ID: s.cfg.ID, Revision: s.cfg.Revision(), Renewal: s.renewal}
	if s.cfg.Drained != nil {
		lease.Drained = s.cfg.Drained()
	}
	return s.store.send(ctx, s.store.cfg.SessionsTopic(), lease.Record())
}

// lookAgain is the pause between two looks at what keeps the revision back.
const lookAgain = 50 * time.Millisecond

// keep renews the lease until ctx ends: in time, soon after the table changed,
// since whoever changed it waits to see the new revision in the lease, and at
// once when there is news.
func (s *Session) keep(ctx context.Context) {
	leased, due := s.cfg.Revision(), time.Now().Add(s.store.cfg.Renewal)
	for {
		news, ok := s.pause(ctx, leased, due)
		if !ok {
			return
		}
		revision := s.cfg.Revision()
		if !news && revision <= leased && time.Now().Before(due) {
			continue
		}
		due = time.Now().Add(s.store.cfg.Renewal)
		if err := s.renew(ctx); err == nil {
			leased = revision
		} else if ctx.Err() == nil {
			s.store.cfg.Logger.Warn("session could not be renewed", zap.Stringer("session", s.cfg.ID), zap.Error(err))
			due = time.Now().Add(min(retryPause, s.store.cfg.Renewal))
		}
	}
}

// pause waits for the next look whether a lease is to be sent, or for news. ok
// is false once ctx has ended.
func (s *Session) pause(ctx context.Context, leased uint64, due time.Time) (news, ok bool) {
	for {
		changed := s.store.Changed()
		pause := time.Until(due)
		if leased < s.store.Table().Revision() {
			pause = min(pause, lookAgain)
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-s.news:
			return true, true
		case <-changed:
		case <-time.After(max(pause, 0)):
			return false, true
		}
	}
}

// renew sends a lease, or registers anew if the one before may be over.
func (s *Session) renew(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, s.store.cfg.Renewal)
	defer done()
	if errors.Is(s.Err(), ErrStaleTable) {
		s.renewed.Store(nil)
		return s.register(ctx)
	}
	sent := time.Now()
	if err := s.lease(ctx); err != nil {
		return err
	}
	if s.Err() != nil { // it ended while the renewal was under way
		s.renewed.Store(nil)
		return s.register(ctx)
	}
	s.renewed.Store(&sent)
	return nil
}
