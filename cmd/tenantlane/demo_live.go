package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tenantlane/tenantlane/internal/demo"
	"github.com/tenantlane/tenantlane/internal/top"
)

// liveDemo runs the demo under a screen that shows it, and prints what happened
// once the screen is gone.
func (e *env) liveDemo(ctx context.Context, cfg demo.Config) (report *demo.Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &stageScreen{feed: make(chan *top.Snapshot), gone: ctx.Done(), last: &top.Snapshot{}}
	say := cfg.Tell
	var lines []demo.Line
	cfg.Tell = func(line demo.Line) {
		lines = append(lines, line)
		s.tell(fmt.Sprintf("%5.1fs  %s", line.At.Seconds(), line.Text))
	}
	cfg.Show = s.show
	var playing sync.WaitGroup
	playing.Go(func() {
		defer close(s.feed)
		report, err = demo.Run(ctx, cfg)
	})
	_, drawn := top.Run(ctx, top.Config{In: e.stdin, Out: e.stdout, Feed: s.feed})
	cancel() // whoever quits wants no more of it
	playing.Wait()
	for _, line := range lines {
		say(line)
	}
	return report, errors.Join(err, drawn)
}

// stageScreen is what the demo's screen shows: the newest picture, with all
// that was told.
type stageScreen struct {
	feed chan *top.Snapshot
	gone <-chan struct{} // closed when nobody draws any more

	mu sync.Mutex
	// guards both
	last *top.Snapshot
	told []string
}

func (s *stageScreen) show(picture *top.Snapshot) {
	s.mu.Lock()
	s.last = picture
	s.mu.Unlock()
	s.draw()
}

func (s *stageScreen) tell(line string) {
	s.mu.Lock()
	s.told = append(s.told, line)
	s.mu.Unlock()
	s.draw()
}

// draw hands the screen what there is now.
func (s *stageScreen) draw() {
	s.mu.Lock()
	now := *s.last
	now.Notes = slices.Clone(s.told)
	s.mu.Unlock()
	select {
	case s.feed <- &now:
	case <-s.gone:
	}
}
