package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	os.Exit(runUntilSignal())
}

// echo is how long the first signal, come again, is still the first. Some
// supervisors signal their child and then the child's whole group; timeout(1)
// does, and would end every drain that it asks for.
const echo = 100 * time.Millisecond

// runUntilSignal runs the command line, canceling it at the first SIGINT or
// SIGTERM and ending the process at the second.
func runUntilSignal() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-done:
			return
		case first := <-signals:
			cancel(stopSignal{first})
			if second(signals, first, done) {
				fmt.Fprintln(os.Stderr, "tenantlane: second signal, stopped without draining")
				os.Exit(exitInterrupted)
			}
		}
	})
	defer watcher.Wait()
	defer close(done)
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// second waits for a signal that is no echo of the first, or for done.
func second(signals <-chan os.Signal, first os.Signal, done <-chan struct{}) bool {
	for at := time.Now(); ; {
		select {
		case <-done:
			return false
		case s := <-signals:
			if s != first || time.Since(at) > echo {
				return true
			}
		}
	}
}
