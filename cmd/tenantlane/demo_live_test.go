package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/tenantlane/tenantlane/internal/demo"
	"github.com/tenantlane/tenantlane/internal/top"
)

// TestLiveDemoEndsWhenAPersonQuits: q ends the demo, with no report.
func TestLiveDemoEndsWhenAPersonQuits(t *testing.T) {
	in, typed := io.Pipe()
	var typing sync.WaitGroup
	defer func() {
		_ = typed.Close()
		typing.Wait()
	}()
	typing.Go(func() { _, _ = io.WriteString(typed, "q") })
	e := &env{stdin: in, stdout: &strings.Builder{}, stderr: io.Discard}
	report, err := e.liveDemo(t.Context(), demo.Config{Tell: func(demo.Line) {}})
	if report != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("report %v, error %v, want none and a cancellation", report, err)
	}
}

// TestStageScreenShowsTheStoryBesideThePicture: a picture and a line come in
// any order, and when nobody draws any more neither waits.
func TestStageScreenShowsTheStoryBesideThePicture(t *testing.T) {
	gone := make(chan struct{})
	s := &stageScreen{feed: make(chan *top.Snapshot, 2), gone: gone, last: &top.Snapshot{}}
	s.tell("one")
	s.show(&top.Snapshot{Workers: 2})
	if first := <-s.feed; first.Workers != 0 || len(first.Notes) != 1 {
		t.Errorf("first %+v", first)
	}
	if second := <-s.feed; second.Workers != 2 || len(second.Notes) != 1 {
		t.Errorf("second %+v", second)
	}
	close(gone)
	for range 5 {
		s.tell("late")
	}
}
