package main

import (
	"context"
	"errors"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// tableStore is a home of the table: a file or a topic.
type tableStore interface {
	store.Source
	// update changes the table as decide says, given the present one.
	update(ctx context.Context, by store.Author, decide func(*routing.Table) (*routing.Table, error)) (*routing.Table, error)
	// settled waits until every producer has a revision: those that say so by
	// their word, all others for as long as settle.
	settled(ctx context.Context, revision uint64, settle time.Duration) error
	Close() error
}

type fileStore struct{ *store.File }

func (f fileStore) update(ctx context.Context, _ store.Author, decide func(*routing.Table) (*routing.Table, error)) (*routing.Table, error) {
	next, err := decide(f.Table())
	if err != nil {
		return nil, err
	}
	return next, f.Write(ctx, next)
}

func (f fileStore) settled(ctx context.Context, _ uint64, settle time.Duration) error {
	return wait(ctx, settle)
}

type topicStore struct{ *store.Topic }

func (t topicStore) update(ctx context.Context, by store.Author, decide func(*routing.Table) (*routing.Table, error)) (*routing.Table, error) {
	next, err := t.Update(ctx, by, decide)
	if errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrUnconfirmed) || errors.Is(err, store.ErrTopicPolicy) {
		return next, kafkaError("routing table", err)
	}
	return next, err
}

func (t topicStore) settled(ctx context.Context, revision uint64, settle time.Duration) error {
	if _, err := t.AwaitSessions(ctx, revision); err != nil {
		return kafkaError("waiting for the producers' sessions", err)
	}
	return wait(ctx, settle)
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
