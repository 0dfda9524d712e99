package deliver

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/load"
)

// Log writes one JSON line for each thing that happened to a worker, each in
// one write. An error of the file sticks: no record counts as done after it.
type Log struct {
	mu sync.Mutex
	// guards the fields below
	out      io.Writer
	line     []byte
	last     time.Time // lines do not go back in time
	err      error
	unlogged uint64
}

// NewLog begins a log of the process with the given name, which must be its
// own, also among restarts. The writer should append (O_APPEND).
func NewLog(out io.Writer, process string) (*Log, error) {
	l := &Log{out: out}
	err := l.write(func(dst []byte, now time.Time) []byte { return check.AppendProcess(dst, process, now) })
	return l, err
}

// write appends one line made by f.
func (l *Log) write(f func(dst []byte, now time.Time) []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if now := time.Now(); now.After(l.last) {
		l.last = now
	}
	l.line = f(l.line[:0], l.last)
	if _, err := l.out.Write(l.line); err != nil {
		l.err = fmt.Errorf("writing the log of handled records: %w", err)
	}
	return l.err
}

// Err is the error that ended the log, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Unlogged is how many records had no line since they are not loadgen's.
func (l *Log) Unlogged() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unlogged
}

// Handler writes a record's line after next has handled it, and before it
// counts as done.
func (l *Log) Handler(next consumer.Handler) consumer.Handler {
	return func(ctx context.Context, r *consumer.Record) error {
		if err := next(ctx, r); err != nil {
			return err
		}
		v, err := load.Decode(r.Value)
		if err != nil {
			l.mu.Lock()
			l.unlogged++
			l.mu.Unlock()
			return nil //nolint:nilerr // handled, only not to be checked
		}
		h := check.Handling{
			ID: v.ID, Seq: v.Seq, Partition: r.Partition, Offset: r.Offset,
			Attempt: r.Attempt, Assignment: r.Token.Epoch, Unordered: v.Unordered,
		}
		return l.write(func(dst []byte, now time.Time) []byte { return check.AppendHandled(dst, &h, now) })
	}
}

// Assigned writes a line for each partition that the worker was given.
func (l *Log) Assigned(assigned []consumer.Assigned) {
	for _, a := range assigned {
		_ = l.write(func(dst []byte, now time.Time) []byte {
			return check.AppendAssigned(dst, check.Assignment{Partition: a.Partition, Number: a.Epoch, Named: a.Named}, now)
		})
	}
}

// Committed writes the line of an acknowledged commit.
func (l *Log) Committed(done []consumer.Committed) {
	commits := make([]check.Commit, 0, len(done))
	for _, c := range done {
		commit := check.Commit{Partition: c.Partition, Offset: c.Offset, Frontier: c.Frontier}
		for _, l := range c.Lanes {
			commit.Lanes = append(commit.Lanes, check.Lane(l))
		}
		commits = append(commits, commit)
	}
	_ = l.write(func(dst []byte, now time.Time) []byte { return check.AppendCommit(dst, commits, now) })
}
