package load

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/tenantlane/tenantlane/internal/check"
)

// flushEvery bounds how old an acknowledgement may be that is not in the file
// yet, as long as others follow.
const flushEvery = time.Second

// AckLog writes a line for each acknowledged record. It belongs to one
// goroutine at a time, such as the client's promises.
type AckLog struct {
	out     *bufio.Writer
	line    []byte
	flushed time.Time
}

// NewAckLog writes to w, which stays the caller's.
func NewAckLog(w io.Writer) *AckLog {
	return &AckLog{out: bufio.NewWriterSize(w, 1<<16)}
}

// Acknowledged writes one line.
func (l *AckLog) Acknowledged(h check.Handling, at time.Time) error {
	l.line = check.AppendProduced(l.line[:0], &h, at)
	if _, err := l.out.Write(l.line); err != nil {
		return fmt.Errorf("produced log: %w", err)
	}
	if at.Sub(l.flushed) < flushEvery {
		return nil
	}
	l.flushed = at
	return l.Flush()
}

// Flush writes what is buffered.
func (l *AckLog) Flush() error {
	if err := l.out.Flush(); err != nil {
		return fmt.Errorf("produced log: %w", err)
	}
	return nil
}
