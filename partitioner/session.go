package partitioner

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/store"
)

// registrar is a table's source that keeps account of the producers that use
// it, so that a move can wait for them.
type registrar interface {
	register(ctx context.Context, cfg store.SessionConfig) (registration, error)
}

// registration is a store.Session.
type registration interface {
	Err() error
	Registrations() uint64
	Announce()
	Close(ctx context.Context) error
}

// topicRegistrar is the registrar in a store.Topic.
type topicRegistrar struct {
	topic interface {
		Register(ctx context.Context, cfg store.SessionConfig) (*store.Session, error)
	}
}

func (r topicRegistrar) register(ctx context.Context, cfg store.SessionConfig) (registration, error) {
	return r.topic.Register(ctx, cfg)
}

func registrarOf(src store.Source) registrar {
	if r, ok := src.(registrar); ok {
		return r
	}
	if t, ok := src.(interface {
		Register(ctx context.Context, cfg store.SessionConfig) (*store.Session, error)
	}); ok {
		return topicRegistrar{t}
	}
	return nil
}

// registerAgain is the pause after a registration that failed.
const registerAgain = time.Second

// membership is a Producer's registration with its table's source. Without a
// registrar it is empty, and nothing depends on it.
//
//	joining ──registered──▶ member ──Err()──▶ stale ──registers anew──▶ member
//	   │                                        │
//	   └ records of wrapped topics wait         └ new ones fail with store.ErrStaleTable,
//	                                              those that were sent are decided after it
//
// A term is the time of one registration. A record that is answered while the
// lease of the term holds in which it was sent, lies before every fence: a move
// that was prepared in that term waits for the record, and the table by which
// it was routed knows those of before.
type membership struct {
	with    registrar
	joined  chan struct{} // closed once session is set
	session registration  // read it after joined
	routed  revisions
}

func newMembership(src store.Source) *membership {
	m := &membership{joined: make(chan struct{}), with: registrarOf(src)}
	m.routed.newest.Store(&revision{})
	return m
}

// present gives the registration, or nil before there is one.
func (m *membership) present() registration {
	select {
	case <-m.joined:
		return m.session
	default:
		return nil
	}
}

// join registers the Producer and returns once that is done, or the Producer
// ends. Topics with producers: any do not wait for it.
func (p *Producer) join() {
	cfg := store.SessionConfig{
		ID: p.session, Topics: p.src.Table().TopicNames(), Revision: p.oldestRevision, Drained: p.moves.drained,
	}
	cfg.Client, _ = p.client.OptValue(kgo.ClientID).(string)
	logged := ""
	for {
		session, err := p.member.with.register(p.ctx, cfg)
		if err == nil {
			p.member.session = session
			close(p.member.joined)
			session.Announce() // what was drained before there was one to tell
			return
		}
		if p.ctx.Err() == nil && err.Error() != logged {
			logged = err.Error()
			p.cfg.Logger.Warn("producer could not be registered, topics with producers: wrapped wait for it", zap.Error(err))
		}
		select {
		case <-time.After(registerAgain):
		case <-p.ctx.Done():
			return
		}
	}
}

// mayRoute tells why a record of a wrapped topic must not be routed by the
// present table, and notes the term in which it is. It waits for the first
// registration, and a record that is in a queue already for a lease too.
func (p *Producer) mayRoute(f *flight, from *gate) error {
	if f.term = 0; !f.wrapped || p.member.with == nil {
		return nil
	}
	if p.txn.possible && p.txn.table.Load() == nil {
		return ErrNoTransaction
	}
	session := p.member.present()
	if session == nil {
		f.waited = true
		select {
		case <-p.member.joined:
			session = p.member.session
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-p.end(from):
			return ErrClosed
		}
	}
	f.term = session.Registrations()
	err := session.Err()
	for err != nil && from != nil {
		select {
		case <-time.After(lookAgain):
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-p.end(from):
			return ErrClosed
		}
		f.term, err = session.Registrations(), session.Err()
	}
	return err
}

// leaveSession ends the registration. Only a Producer that has answered every
// record may say that it is gone; the lease of any other runs out.
func (p *Producer) leaveSession(ctx context.Context, clean bool) error {
	session := p.member.present()
	if session == nil {
		return nil
	}
	if !clean {
		over, cancel := context.WithCancel(ctx)
		cancel()
		_ = session.Close(over) // stops renewing, and says nothing
		return nil
	}
	return session.Close(ctx)
}

// oldestRevision is that of the oldest table by which a record was routed that
// is in flight, or of the present one. The table is read before the records are
// looked at, and they are counted before they read it again, so none is missed.
//
// An open transaction routes by its own table, so that counts as well.
func (p *Producer) oldestRevision() uint64 { return p.member.routed.oldest(p.table().Revision()) }

// revisions counts records in flight by the table that routed them. Few tables
// have any at a time.
type revisions struct {
	newest atomic.Pointer[revision]

	mu sync.Mutex
	// guards replacing newest, and older
	older []*revision // with records in flight, or nearly so
}

type revision struct {
	number   uint64
	inFlight atomic.Int64
}

// enter counts a record that a table of that revision routes.
func (r *revisions) enter(number uint64) *revision {
	at := r.newest.Load()
	if at.number != number {
		at = r.find(number)
	}
	at.inFlight.Add(1)
	return at
}

func (r *revisions) find(number uint64) *revision {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := r.newest.Load()
	if number == newest.number {
		return newest
	}
	for _, at := range r.older {
		if at.number == number {
			return at
		}
	}
	at := &revision{number: number}
	if number < newest.number { // by a table that has just been replaced
		r.older = append(r.older, at)
		return at
	}
	r.older = append(r.older, newest)
	r.newest.Store(at)
	return at
}

// oldest gives the lowest revision with a record in flight, or now.
func (r *revisions) oldest(now uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.older = slices.DeleteFunc(r.older, func(at *revision) bool { return at.inFlight.Load() == 0 })
	for _, at := range r.older {
		now = min(now, at.number)
	}
	if newest := r.newest.Load(); newest.inFlight.Load() > 0 {
		now = min(now, newest.number)
	}
	return now
}
