package partitioner

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// line is where callers wait for room in one place: a tenant's, a partition's,
// or the Producer's as a whole. Each record that leaves the place lets the
// first in line try again, so a crowd costs one wake-up for each record.
//
// A caller stands in line first and then tries once more, else it would miss
// the record that left in between. A caller whose turn has come and that then
// finds another obstacle passes its turn on, else the next one would sleep
// beside free room.
type line struct {
	full    error // why those in line wait, for callers that do not wait
	waiting atomic.Int64

	mu sync.Mutex
	// guards places
	places list.List // of *place
}

// place is a place in a line. turn is closed when it is worth a try.
type place struct {
	line *line
	turn chan struct{}
	at   *list.Element
}

func (l *line) stand() *place {
	p := &place{line: l, turn: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	p.at = l.places.PushBack(p)
	l.waiting.Add(1)
	return p
}

// wake lets the first in line try. It costs an atomic load when nobody waits.
func (l *line) wake() {
	if l.waiting.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lockedWake()
}

func (l *line) lockedWake() {
	if first := l.places.Front(); first != nil {
		l.remove(first.Value.(*place))
		close(first.Value.(*place).turn)
	}
}

func (l *line) remove(p *place) {
	l.places.Remove(p.at)
	l.waiting.Add(-1)
	p.at = nil
}

// turned tells whether the turn has come.
func (p *place) turned() bool {
	select {
	case <-p.turn:
		return true
	default:
		return false
	}
}

// leave gives the place up, and its turn to the next if it had come.
func (p *place) leave() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	if p.at != nil {
		p.line.remove(p)
	} else {
		p.line.lockedWake()
	}
}
