package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	progressEvery = 100 * time.Millisecond
	progressWidth = 30
)

// progress is a bar on a terminal; elsewhere it prints nothing. Its methods
// may be called from several goroutines.
type progress struct {
	out   io.Writer // nil: not a terminal
	label string
	total int64 // 0: unknown, only the count is shown
	begun time.Time

	mu    sync.Mutex
	drawn time.Time // guards drawn and width
	width int
}

// newProgress starts a bar on the environment's stderr.
func (e *env) newProgress(label string, total int64) *progress {
	p := &progress{label: label, total: total, begun: time.Now()}
	if isTerminal(e.stderr) {
		p.out = e.stderr
	}
	return p
}

// set draws the bar at n of the total, at most ten times a second.
func (p *progress) set(n int64) {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.drawn) < progressEvery {
		return
	}
	p.drawn = now
	p.draw(p.line(n, now.Sub(p.begun)))
}

// end clears the bar, so that what follows starts on a clean line.
func (p *progress) end() {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw("")
	fmt.Fprint(p.out, "\r")
}

func (p *progress) draw(line string) {
	fmt.Fprintf(p.out, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = len(line)
}

func (p *progress) line(n int64, elapsed time.Duration) string {
	rate := float64(n) / max(elapsed.Seconds(), 1e-3)
	if p.total <= 0 {
		return fmt.Sprintf("%s %d (%.0f/s)", p.label, n, rate)
	}
	part := min(1, float64(n)/float64(p.total))
	filled := int(part * progressWidth)
	bar := strings.Repeat("#", filled) + strings.Repeat(".", progressWidth-filled)
	return fmt.Sprintf("%s [%s] %3.0f%% %d of %d (%.0f/s)", p.label, bar, part*100, n, p.total, rate)
}
