package consumer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// handlerContext is the context that one worker's handlers get, one after the
// other. A timer and a context per record would cost more than a cheap handler,
// so the deadline is a number that the watchdog looks at, and the context is
// made anew only after it has ended.
//
// Children attach to the embedded context directly, since Done and Value are
// its own.
type handlerContext struct {
	context.Context
	cancel context.CancelCauseFunc
	until  atomic.Int64 // deadline in Unix nanoseconds; 0: none
}

func newHandlerContext(parent context.Context) *handlerContext {
	ctx, cancel := context.WithCancelCause(parent)
	return &handlerContext{Context: ctx, cancel: cancel}
}

// Deadline is that of the record being handled.
func (c *handlerContext) Deadline() (time.Time, bool) {
	until := c.until.Load()
	return time.Unix(0, until), until != 0
}

// Err tells a missed deadline from a stop.
func (c *handlerContext) Err() error {
	err := c.Context.Err()
	if err != nil && errors.Is(context.Cause(c.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}
