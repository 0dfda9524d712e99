package main

import (
	"context"
	"io"
	"sync"
)

// interruptible reads in, which may be a terminal, until ctx ends; then reads
// fail with the context's error. A read of stdin itself cannot be interrupted:
// it is left behind, since the process is about to end.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	out, feed := io.Pipe()
	context.AfterFunc(ctx, func() { feed.CloseWithError(ctx.Err()) })
	var reader sync.WaitGroup
	reader.Go(func() {
		_, err := io.Copy(feed, in)
		feed.CloseWithError(err)
	})
	return out
}
