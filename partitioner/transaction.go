package partitioner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Transactions begins and ends the transactions of a transactional client. A
// *kgo.GroupTransactSession is one.
type Transactions interface {
	Begin() error
	// End aborts where it cannot commit, and says whether it did commit.
	End(ctx context.Context, commit kgo.TransactionEndTry) (committed bool, err error)
}

// clientTransactions are the client's own.
type clientTransactions struct{ client *kgo.Client }

func (c clientTransactions) Begin() error { return c.client.BeginTransaction() }

func (c clientTransactions) End(ctx context.Context, commit kgo.TransactionEndTry) (committed bool, err error) {
	if commit {
		err = c.client.Flush(ctx)
	} else {
		err = c.client.AbortBufferedRecords(ctx)
	}
	if err != nil {
		return false, err
	}
	err = c.client.EndTransaction(ctx, commit)
	if bool(commit) && (errors.Is(err, kerr.OperationNotAttempted) || errors.Is(err, kerr.TransactionAbortable)) {
		return false, c.client.EndTransaction(ctx, kgo.TryAbort) // a record failed, as its promise said
	}
	return bool(commit) && err == nil, err
}

// transaction is the Producer's open transaction, if any.
type transaction struct {
	possible bool                          // the client is transactional
	table    atomic.Pointer[routing.Table] // that it goes by; nil while none is open
	ended    signal

	mu sync.Mutex
	// guards spoiled
	spoiled error // why it must not be committed
}

// spoil lets the transaction end without a commit.
func (t *transaction) spoil(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spoiled == nil {
		t.spoiled = why
	}
}

func (t *transaction) cause() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spoiled
}

func (t *transaction) begin(table *routing.Table) {
	t.mu.Lock()
	t.spoiled = nil
	t.mu.Unlock()
	t.table.Store(table)
}

func (t *transaction) end() {
	t.table.Store(nil)
	t.ended.fire()
}

func transactional(client *kgo.Client) bool {
	switch id := client.OptValue(kgo.TransactionalID).(type) {
	case string:
		return id != ""
	case *string:
		return id != nil
	}
	return false
}

// BeginTransaction begins a transaction of a transactional client, in place of
// the client's or the GroupTransactSession's own method: records of topics with
// producers: wrapped fail with ErrNoTransaction otherwise.
//
// A transaction goes by the table of its begin to its end, and a move of a
// tenant waits for transactions that began before it. So that none begins that
// could not go on, this waits while a tenant that the Producer knows is held
// back, by a move or by Pause, until ctx ends. A record of a tenant that is held
// back all the same fails with ErrTenantMoving at once: end the transaction with
// kgo.TryAbort and begin again.
//
// As with kgo, transactions are begun and ended one after the other and never
// while Produce is running.
func (p *Producer) BeginTransaction(ctx context.Context) error {
	if !p.txn.possible {
		return errors.New("producer: begin transaction: the client has no TransactionalID")
	}
	if p.txn.table.Load() != nil {
		return errors.New("producer: begin transaction: one is open")
	}
	if err := p.pin(ctx); err != nil {
		return fmt.Errorf("producer: begin transaction while tenants are held back: %w", err)
	}
	if err := p.cfg.Transactions.Begin(); err != nil {
		p.txn.end()
		return fmt.Errorf("producer: begin transaction: %w", err)
	}
	return nil
}

// pin takes the present table for a transaction, once it holds nobody back. The
// table is read again after it was taken: whoever drains a move looks the other
// way round.
func (p *Producer) pin(ctx context.Context) error {
	for {
		opened, changed := p.moves.opened.wait(), p.src.Changed()
		table := p.src.Table()
		p.txn.begin(table)
		current := p.src.Table() == table
		if current && !p.holding(table) {
			return nil
		}
		if p.txn.end(); !current {
			continue
		}
		select {
		case <-opened:
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.closing:
			return ErrClosed
		}
	}
}

// holding tells whether any tenant that the Producer knows is held back.
func (p *Producer) holding(table *routing.Table) bool {
	for name, state := range p.topics.Range {
		topic, _ := table.Topic(name.(string))
		for i := range state.(*topicState).gates.shards {
			if state.(*topicState).gates.shards[i].holding(topic) {
				return true
			}
		}
	}
	return false
}

func (s *shard) holding(topic *routing.Topic) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gates {
		if g.held != 0 || covers(topic, g) {
			return true
		}
	}
	return false
}

// EndTransaction ends what BeginTransaction began. With kgo.TryCommit it flushes
// first; a transaction of which a record was acknowledged after the lease had
// ended (see package store) is aborted then, with an error that wraps
// store.ErrStaleTable: a move may have ended its tenant's partition before it.
// A transaction that could not be committed for another reason is aborted as
// kgo does, with committed false and no error.
//
// After any other error the transaction is still open: end it with kgo.TryAbort.
func (p *Producer) EndTransaction(ctx context.Context, commit kgo.TransactionEndTry) (committed bool, err error) {
	if p.txn.table.Load() == nil {
		return false, errors.New("producer: end transaction: none is open")
	}
	if commit {
		if err = p.Flush(ctx); err != nil {
			return false, err
		}
		if p.txn.cause() != nil {
			commit = kgo.TryAbort
		}
	}
	committed, err = p.cfg.Transactions.End(ctx, commit)
	if err == nil {
		err = p.pending.wait(ctx)
	}
	if err != nil {
		return committed, fmt.Errorf("producer: end transaction: %w", err)
	}
	cause := p.txn.cause()
	p.settleDoubts()
	p.txn.end()
	if cause != nil {
		return committed, fmt.Errorf("producer: transaction aborted: %w", cause)
	}
	return committed, nil
}

// settleDoubts notes that a transaction has ended and nothing is in flight: what
// failed in it is a part of no transaction that will be committed.
func (p *Producer) settleDoubts() {
	for _, d := range p.dests.Range {
		for _, part := range *d.(*dest).parts.Load() {
			part.confirmed(part.doubts())
		}
	}
}

// awaitTransaction returns when no transaction is open that goes by a table
// before revision.
func (p *Producer) awaitTransaction(ctx context.Context, revision uint64) error {
	for {
		ended := p.txn.ended.wait()
		if table := p.txn.table.Load(); table == nil || table.Revision() >= revision {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("a transaction is open: %w", ctx.Err())
		}
	}
}
