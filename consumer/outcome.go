package consumer

import (
	"errors"
	"fmt"
	"time"
)

// Skip returns an error that ends the record without success: it counts as
// done, is never retried, and the reason is logged and counted. For a record
// that can never be handled and that nobody needs to see again.
func Skip(reason string) error { return &skipError{reason} }

// RetryAfter returns an error that has the record handled again no sooner
// than d from now, for a handler that was told to come back later (HTTP 429
// or 503 with Retry-After). It does not count as a failed attempt, so a
// record can wait as long as it is told to. Only the record's lane waits.
func RetryAfter(d time.Duration) error { return &retryAfterError{d} }

// Permanent wraps err so that the record is not retried: the policy for a
// record whose attempts are used up (Retry.Exhausted) applies at once.
func Permanent(err error) error { return &permanentError{err} }

// PanicError is the error that a panic of a handler becomes.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the goroutine that panicked
}

// Error names the value, not the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

type skipError struct{ reason string }

func (e *skipError) Error() string { return "record skipped: " + e.reason }

type retryAfterError struct{ after time.Duration }

func (e *retryAfterError) Error() string { return fmt.Sprintf("retry after %v", e.after) }

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// outcome is what a handler's answer means for its record and lane.
type outcome struct {
	verdict verdict
	after   time.Duration // verdictRetryAfter only
	err     error         // as the handler returned it; nil only when done
}

type verdict uint8

const (
	verdictDone       verdict = iota // the next record may run
	verdictSkip                      // counts as done; logged
	verdictRetry                     // a failed attempt: back off, or exhausted
	verdictRetryAfter                // not a failure: come back later
	verdictPermanent                 // exhausted at once
	verdictDeadLetter                // to the dead-letter topic at once
	verdictQuarantine                // stale: to the quarantine topic; no handler got it
	verdictForeign                   // its lane is parked; no handler got it
	verdictAborted                   // the runtime stopped it: not an attempt
)

// judge sorts a handler's error. The hot path is err == nil.
func judge(err error) outcome {
	if err == nil {
		return outcome{}
	}
	if _, ok := errors.AsType[*skipError](err); ok {
		return outcome{verdict: verdictSkip, err: err}
	}
	if e, ok := errors.AsType[*retryAfterError](err); ok {
		return outcome{verdict: verdictRetryAfter, after: max(e.after, 0), err: err}
	}
	if _, ok := errors.AsType[*permanentError](err); ok {
		return outcome{verdict: verdictPermanent, err: err}
	}
	return outcome{verdict: verdictRetry, err: err}
}
