package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

const (
	// expiryJitter spreads the followers that find a move past its deadline, so
	// that as a rule the first of them aborts it and the others see that.
	expiryJitter = 2 * time.Second
	// expiryTimeout bounds one try to abort, and expiryRetry is the pause before
	// the next.
	expiryTimeout = 15 * time.Second
	expiryRetry   = 5 * time.Second
)

// errNoneExpired ends an abort that someone else was faster at.
var errNoneExpired = errors.New("no move is past its deadline")

// abortExpired aborts moves that are open past their deadline, until ctx ends:
// their coordinator is gone, and producers hold their units back. It is for
// liveness alone; deadlines are compared with this machine's wall clock, and a
// clock that is wrong costs a move, no record.
func (t *Topic) abortExpired(ctx context.Context) {
	for ctx.Err() == nil {
		changed := t.Changed()
		due, open := earliestDeadline(t.Table())
		if !open {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		wait := time.NewTimer(time.Until(due) + rand.N(expiryJitter))
		select {
		case <-changed:
		case <-ctx.Done():
		case <-wait.C:
			if t.abortNow(ctx) {
				break
			}
			select { // it is for others to abort
			case <-changed:
			case <-ctx.Done():
			}
		}
		wait.Stop()
	}
}

// earliestDeadline is that of the open moves.
func earliestDeadline(table *routing.Table) (due time.Time, open bool) {
	eachOpen(table, func(_ string, m *routing.Move) {
		if !open || m.Deadline.Before(due) {
			due, open = m.Deadline, true
		}
	})
	return due, open
}

func eachOpen(table *routing.Table, visit func(topic string, m *routing.Move)) {
	for _, name := range table.TopicNames() {
		topic, _ := table.Topic(name)
		if !topic.Moving() {
			continue
		}
		for _, m := range topic.Moves() {
			if m.Open() {
				visit(name, m)
			}
		}
	}
}

// abortNow aborts what is past its deadline. It is false for a client that may
// not change the table, which says so once.
func (t *Topic) abortNow(ctx context.Context) (may bool) {
	trying, done := context.WithTimeout(ctx, expiryTimeout)
	defer done()
	reading, enough := context.WithTimeout(trying, writerGrace) // behind a killed coordinator's transaction there is no end
	defer enough()
	if err := t.Sync(reading); err == nil {
		if _, err := abortPast(t.Table(), time.Now()); errors.Is(err, errNoneExpired) {
			return true // and no writer is shut out for nothing
		}
	}
	by := Author{Actor: "tenantlane", Reason: "a move was open past its deadline"}
	_, err := t.Update(trying, by, func(present *routing.Table) (*routing.Table, error) {
		return abortPast(present, time.Now())
	})
	switch {
	case err == nil:
		return true
	case errors.Is(err, errNoneExpired) || ctx.Err() != nil:
	case isForbidden(err):
		t.forbidden.Do(func() {
			t.cfg.Logger.Info("a move is open past its deadline, and this client may not abort it", zap.Error(err))
		})
		return false
	default:
		t.cfg.Logger.Warn("a move that is open past its deadline could not be aborted", zap.Error(err))
	}
	sleep(ctx, expiryRetry)
	return true
}

// abortPast gives the table without the moves that are open past their deadline.
func abortPast(present *routing.Table, now time.Time) (*routing.Table, error) {
	var aborts []routing.Edit
	eachOpen(present, func(topic string, m *routing.Move) {
		if now.Round(0).After(m.Deadline) {
			aborts = append(aborts, routing.AbortMove(topic, m.ID))
		}
	})
	if len(aborts) == 0 {
		return nil, errNoneExpired
	}
	next, err := present.Edit(aborts...)
	if err != nil {
		return nil, fmt.Errorf("abort: %w", err)
	}
	return next, nil
}

// isForbidden tells whether a client lacks a right.
func isForbidden(err error) bool {
	for _, refusal := range []error{kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
