package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

func main() {
	os.Exit(runUntilSignal())
}

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
		for count := 0; ; count++ {
			select {
			case <-done:
				return
			case s := <-signals:
				if count > 0 {
					fmt.Fprintln(os.Stderr, "tenantlane: second signal, stopped without draining")
					os.Exit(exitInterrupted)
				}
				cancel(stopSignal{s})
			}
		}
	})
	defer watcher.Wait()
	defer close(done)
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
