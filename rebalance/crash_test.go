package rebalance

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// TestACrashBetweenStepsLeavesAUsableState stops a move for good at each step,
// as the end of its process would, and lets the next process go on.
func TestACrashBetweenStepsLeavesAUsableState(t *testing.T) {
	crash := errors.New("crash")
	for step, c := range map[string]struct {
		stop func(*world) (TableStore, Pauser)
		home int32
	}{
		"after the pause":   {func(w *world) (TableStore, Pauser) { return w.file, &dyingPauser{w.producer} }, 0},
		"before the switch": {func(w *world) (TableStore, Pauser) { return &dyingStore{File: w.file, err: crash}, w.producer }, 0},
		"after the switch": {func(w *world) (TableStore, Pauser) {
			return &dyingStore{File: w.file, write: true, err: crash}, w.producer
		}, 3},
	} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			w.produce(1, 2, 3)
			w.commit("g", 0, 3)
			table, pauser := c.stop(w)
			died := make(chan struct{})
			var process sync.WaitGroup
			process.Go(func() {
				defer close(died)
				defer func() { _ = recover() }()
				_, _ = w.coordinator(table, pauser).MoveStopped(patient(t), acmeStopped)
			})
			<-died
			process.Wait()
			w.restart()
			w.home(c.home)
			if c.home == 0 { // and the move can be run again
				w.commit("g", 0, 4)
				if _, err := w.coordinator(w.file).MoveStopped(patient(t), acmeStopped); err != nil {
					t.Error(err)
				}
			}
			w.home(3)
		})
	}
}

type dyingStore struct {
	*store.File
	write bool
	err   error
}

type dyingPauser struct{ *partitioner.Producer }

func (p *dyingPauser) Settle(context.Context, string, []byte) error { panic("crash") }
