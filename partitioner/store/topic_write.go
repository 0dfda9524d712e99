package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// writeAttempts is how often a change is decided anew because another writer
// took over meanwhile.
const writeAttempts = 8

// Author says who changes a table and why, for the history.
type Author struct {
	// Actor is a person's or program's name.
	Actor string
	// Reason is for people.
	Reason string
}

// writer is the one transactional client. A new one is made at the first
// change, and after any error: a client that was fenced cannot recover.
type writer struct {
	turn   chan struct{} // holds one token: whoever takes it owns client, for a whole change
	client *kgo.Client
}

func newWriter() writer {
	w := writer{turn: make(chan struct{}, 1)}
	w.turn <- struct{}{}
	return w
}

// take waits for the writer's turn, unlike a mutex only as long as ctx.
func (w *writer) take(ctx context.Context) error {
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another change: %w", ctx.Err())
	}
}

func (w *writer) give() { w.turn <- struct{}{} }

func (w *writer) close() {
	<-w.turn
	w.discard()
	w.give()
}

func (w *writer) discard() {
	if w.client != nil {
		w.client.Close()
		w.client = nil
	}
}

// Update changes the table in one transaction and returns the new one, once it
// is published here too. decide gets the table that the topic holds when every
// other writer is shut out, and gives its successor, by [routing.Table.Edit] or
// [routing.Rebase]; it may be called again, with a newer table, when another
// writer was faster. When it gives the same table nothing is written.
//
// Refused with decide's error, with a [*routing.Error] when the table may not
// follow the present one, when a topic has fewer partitions than the table
// names, and when the routing topic's policy cannot be seen to be right.
// ErrFenced and ErrUnconfirmed are as their docs say.
func (t *Topic) Update(ctx context.Context, by Author, decide func(present *routing.Table) (*routing.Table, error)) (*routing.Table, error) {
	if err := t.writer.take(ctx); err != nil {
		return nil, fmt.Errorf("change of the routing table: %w", err)
	}
	defer t.writer.give()
	var fenced error
	for range writeAttempts {
		table, err := t.attempt(ctx, by, decide)
		if err == nil {
			return table, t.awaitRevision(ctx, table.Revision())
		}
		if !isFenced(err) {
			return nil, fmt.Errorf("change of the routing table: %w", err)
		}
		fenced = err
		t.cfg.Logger.Info("another writer of the routing table took over, deciding anew", zap.Error(err))
		sleep(ctx, time.Duration(rand.Int64N(int64(retryPause))))
	}
	return nil, fmt.Errorf("change of the routing table: %w: %w", ErrFenced, fenced)
}

// isFenced tells whether another writer's start ended this one's transaction.
// Where a commit meets the fence that such a start sets up, Kafka 4.3.1 fails
// on its own state (PREPARE_EPOCH_FENCE is pending) and answers
// UNKNOWN_SERVER_ERROR.
func isFenced(err error) bool {
	for _, fence := range []error{
		errOvertaken, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping,
		kerr.TransactionAbortable, kerr.UnknownServerError,
	} {
		if errors.Is(err, fence) {
			return true
		}
	}
	return false
}

// errOvertaken is another writer's change that was read before one's own was
// written.
var errOvertaken = errors.New("the table changed meanwhile")

// attempt makes one change, or finds that it may not be made.
func (t *Topic) attempt(ctx context.Context, by Author, decide func(*routing.Table) (*routing.Table, error)) (*routing.Table, error) {
	// Once this writer is open, any other that starts fences it, and any that
	// had started before is fenced: what it then reads to the end stays the
	// latest table until its transaction is committed.
	present, err := t.openAndRead(ctx)
	if err != nil {
		return nil, err
	}
	next, err := decide(present)
	if err != nil || next == present {
		return present, err
	}
	if err = t.mayWrite(ctx, present, next); err != nil {
		return nil, err
	}
	version := routing.Version{Revision: next.Revision(), Actor: by.Actor, Reason: by.Reason, At: time.Now(), ID: rand.Uint64()}
	records, err := t.transaction(present, next, version)
	if err == nil {
		err = t.commit(ctx, records, version)
	}
	if err != nil {
		t.writer.discard()
		return nil, err
	}
	return next, nil
}

// writerGrace is how long another writer's open transaction may keep this one
// from reading to the end before it is ended by force.
const writerGrace = time.Second

// openAndRead gives the table as a writer must see it. A writer that was opened
// for an earlier change does not end another's transaction by being there, so
// if it has to wait for one it is replaced.
func (t *Topic) openAndRead(ctx context.Context) (*routing.Table, error) {
	if t.writer.client != nil {
		waiting, done := context.WithTimeout(ctx, writerGrace)
		defer done()
		if table, err := t.readPresent(waiting); err == nil {
			return table, nil
		}
		t.writer.discard()
	}
	if err := t.openWriter(ctx); err != nil {
		t.writer.discard()
		return nil, err
	}
	return t.readPresent(ctx)
}

// openWriter makes the transactional client, if there is none, and lets the
// cluster give it its producer epoch, which is what shuts the others out.
func (t *Topic) openWriter(ctx context.Context) error {
	if t.writer.client != nil {
		return nil
	}
	for _, own := range []ownTopic{t.cfg.routingTopic(), t.cfg.historyTopic()} {
		if err := t.checkTopic(ctx, own, seeing); err != nil {
			return err
		}
	}
	client, err := kgo.NewClient(t.cfg.opts(
		kgo.TransactionalID(t.cfg.transactionalID()),
		kgo.TransactionTimeout(t.cfg.TransactionTimeout),
		kgo.ConcurrentTransactionsBackoff(markerPause), // the markers of the change before may be under way
		kgo.RetryBackoffFn(writerBackoff),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
	)...)
	if err != nil {
		return fmt.Errorf("Kafka client: %w", err)
	}
	t.writer.client = client
	if _, _, err := client.ProducerID(ctx); err != nil {
		return fmt.Errorf("transactional id %s: %w", t.cfg.transactionalID(), err)
	}
	return nil
}

// markerPause is about how long a broker takes to write a transaction's markers.
// The client's own pause of 20 ms would be most of what a change takes.
const markerPause = 2 * time.Millisecond

// writerBackoff doubles from markerPause to retryPause: producers hold records
// back while a move's change is under way, and the client's own first pause is
// 250 ms.
func writerBackoff(tries int) time.Duration {
	return min(markerPause<<min(tries-1, 10), retryPause)
}

// readPresent reads to the topic's end and gives its table.
func (t *Topic) readPresent(ctx context.Context) (*routing.Table, error) {
	if err := t.Sync(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	table, err := t.replay.Fold()
	if errors.Is(err, routing.ErrNoTable) && t.cfg.Empty {
		return t.Table(), nil
	}
	return table, err
}

func (t *Topic) mayWrite(ctx context.Context, present, next *routing.Table) error {
	if next.Revision() <= present.Revision() {
		return fmt.Errorf("%w: revision %d does not follow revision %d", ErrRevision, next.Revision(), present.Revision())
	}
	if err := next.MayReplace(present, func(topic string) bool { return t.hasData(ctx, topic) }); err != nil {
		return err
	}
	grown := map[string]int32{}
	for _, name := range next.TopicNames() {
		after, _ := next.Topic(name)
		before, ok := present.Topic(name)
		if !ok || before.Partitions() < after.Partitions() {
			grown[name] = after.Partitions()
		}
	}
	return t.checkPartitions(ctx, grown)
}

// transaction gives the records of a change, the history's first.
func (t *Topic) transaction(present, next *routing.Table, v routing.Version) ([]*kgo.Record, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now, err := t.replay.Fold(); t.replay.Settled() && err == nil && now != present {
		return nil, errOvertaken
	}
	entries, err := t.replay.Transaction(next, v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOvertaken, err)
	}
	var records []*kgo.Record
	for _, r := range routing.HistoryOf(v, routing.Changes(present, next)) {
		records = append(records, &kgo.Record{Topic: t.cfg.HistoryTopic(), Key: r.Key, Value: r.Value})
	}
	for _, r := range entries {
		records = append(records, &kgo.Record{Topic: t.cfg.RoutingTopic(), Key: r.Key, Value: r.Value})
	}
	return records, nil
}

// commit writes the records in one transaction.
func (t *Topic) commit(ctx context.Context, records []*kgo.Record, v routing.Version) error {
	client := t.writer.client
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	err := client.ProduceSync(ctx, records...).FirstErr()
	if err != nil {
		// Whether this succeeds or not: nothing is committed, and a new writer's
		// start ends what is open.
		aborting, done := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.TransactionTimeout)
		defer done()
		_ = client.EndTransaction(aborting, kgo.TryAbort)
		return err
	}
	if err = client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return t.resolve(ctx, v, err)
	}
	return nil
}

// resolve finds out what became of a commit that gave an error, even that of
// having been fenced: the answer to a first try may have been lost. A new
// client ends the transaction if it is still open, and then the topic tells.
func (t *Topic) resolve(ctx context.Context, v routing.Version, cause error) error {
	t.writer.discard()
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 2*t.cfg.TransactionTimeout)
	defer done()
	if err := t.openWriter(ctx); err != nil {
		return unconfirmed(cause, err)
	}
	if _, err := t.readPresent(ctx); err != nil {
		return unconfirmed(cause, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch id, seen := t.versions[v.Revision]; {
	case seen && id == v.ID:
		return nil
	case seen || t.replay.Version().Revision < v.Revision:
		return cause
	}
	return unconfirmed(cause, nil)
}

// unconfirmed drops that the writer was fenced: the change must not be decided
// anew while it may be there.
func unconfirmed(cause, finding error) error {
	if finding == nil {
		return fmt.Errorf("%w: %v", ErrUnconfirmed, cause) //nolint:errorlint // on purpose
	}
	return fmt.Errorf("%w: %v, then %v", ErrUnconfirmed, cause, finding) //nolint:errorlint // on purpose
}

// awaitRevision waits until the change is published here: a commit is visible
// a little later than it is confirmed.
func (t *Topic) awaitRevision(ctx context.Context, revision uint64) error {
	return t.await(ctx, fmt.Sprintf("seeing revision %d of the routing table, which is written,", revision), func() (bool, error) {
		if t.Table().Revision() >= revision {
			return true, nil
		}
		if t.replay.Version().Revision >= revision && t.bad != nil && !errors.Is(t.bad, errPassing) && !errors.Is(t.bad, routing.ErrTorn) {
			return false, fmt.Errorf("revision %d is written, and this view refuses it: %w", revision, t.bad)
		}
		return false, nil
	})
}
