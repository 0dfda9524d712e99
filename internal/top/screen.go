package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	tea "charm.land/bubbletea/v2"
)

// Config says where a screen is and what it shows.
type Config struct {
	// In and Out are the terminal.
	In  io.Reader
	Out io.Writer
	// Feed gives the snapshots to draw. When it is closed the screen ends, with
	// the last one left on it.
	Feed <-chan *Snapshot
}

// Run draws until somebody presses q, the feed is closed, or ctx ends, which is
// no error: whoever ended it knows. It returns true if a person asked to quit.
func Run(ctx context.Context, cfg Config) (quit bool, err error) {
	program := tea.NewProgram(screen{snapshot: &Snapshot{}},
		tea.WithInput(cfg.In), tea.WithOutput(cfg.Out), tea.WithContext(ctx), tea.WithoutSignalHandler())
	var feeding sync.WaitGroup
	ended := make(chan struct{})
	feeding.Go(func() { feed(program, cfg.Feed, ended) })
	last, err := program.Run()
	close(ended)
	feeding.Wait()
	if err != nil && !errors.Is(err, tea.ErrProgramKilled) {
		return false, fmt.Errorf("terminal: %w", err)
	}
	end, ok := last.(screen)
	return ok && end.asked, nil
}

// feed hands snapshots on until there are no more or the program has ended.
func feed(program *tea.Program, from <-chan *Snapshot, ended <-chan struct{}) {
	for {
		select {
		case s, ok := <-from:
			if !ok {
				program.Quit()
				return
			}
			program.Send(s)
		case <-ended:
			return
		}
	}
}

// screen is bubbletea's model: the newest snapshot and how it is looked at.
type screen struct {
	snapshot *Snapshot
	view     View
	held     bool
	asked    bool // to quit
}

// Init needs nothing.
func (s screen) Init() tea.Cmd { return nil }

// Update takes a snapshot, a key, or the terminal's new size.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case *Snapshot:
		if !s.held {
			s.snapshot = msg
		}
	case tea.WindowSizeMsg:
		s.view.Width, s.view.Height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return s.key(msg.String())
	}
	return s, nil
}

func (s screen) key(name string) (tea.Model, tea.Cmd) {
	switch name {
	case "q", "esc", "ctrl+c":
		s.asked = true
		return s, tea.Quit
	case "right", "tab", "l":
		s.view.Pool++
	case "left", "shift+tab", "h":
		s.view.Pool--
	case "s":
		s.view.Order = (s.view.Order + 1) % (ByNumber + 1)
	case "space":
		s.held = !s.held
	}
	return s, nil
}

// View draws.
func (s screen) View() tea.View {
	look := s.view
	look.Keys = true
	v := tea.NewView("")
	if look.Width > 0 {
		v.SetContent(Render(s.snapshot, look))
	}
	v.AltScreen = true
	v.WindowTitle = "tenantlane"
	return v
}
