package partitioner

import (
	"context"
	"sync"
	"sync/atomic"
)

// lifecycle owns the goroutines of a Producer.
type lifecycle struct {
	running sync.WaitGroup

	mu sync.Mutex
	// guards both, and that none starts after stopped
	closed  bool
	stopped bool
}

// start runs f until it returns, unless the end has come.
func (l *lifecycle) start(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.running.Go(f)
	}
}

// close closes the channel and is true the first time.
func (l *lifecycle) close(closing chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	close(closing)
	return true
}

// stop lets nothing start any more and waits for what runs.
func (l *lifecycle) stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.running.Wait()
}

// pending counts the records whose promise is still to be called.
type pending struct {
	count atomic.Int64

	mu sync.Mutex
	// guards none
	none chan struct{} // closed when count is next 0; nil while nobody waits
}

func (p *pending) add() { p.count.Add(1) }

func (p *pending) done() {
	if p.count.Add(-1) > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.none != nil {
		close(p.none)
		p.none = nil
	}
}

// wait returns when no record is pending, or ctx ends.
func (p *pending) wait(ctx context.Context) error {
	none := p.watch()
	if none == nil {
		return nil
	}
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pending) watch() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count.Load() == 0 {
		return nil
	}
	if p.none == nil {
		p.none = make(chan struct{})
	}
	return p.none
}

// maxAnswers is how many records may wait for their promise. Beyond it whoever
// produces what is refused waits, else a loop that ignores errors would fill
// memory.
const maxAnswers = 8192

// answerQueue holds records whose outcome does not come from kgo, refused ones
// above all, until their promises are called. Produce never calls a promise
// itself: its caller may hold a lock that the promise takes.
type answerQueue struct {
	delivered sync.WaitGroup

	mu sync.Mutex
	// guards queue and closed
	queue  []answer
	closed bool
	change *sync.Cond
}

type answer struct {
	f   *flight
	err error
}

func newAnswerQueue() *answerQueue {
	q := &answerQueue{}
	q.change = sync.NewCond(&q.mu)
	return q
}

// start calls deliver for each answer until close.
func (q *answerQueue) start(deliver func(*flight, error)) {
	q.delivered.Go(func() {
		for batch := q.next(); batch != nil; batch = q.next() {
			for _, r := range batch {
				deliver(r.f, r.err)
			}
		}
	})
}

// put is false once the queue is closed.
func (q *answerQueue) put(f *flight, err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) >= maxAnswers && !q.closed {
		q.change.Wait()
	}
	if q.closed {
		return false
	}
	q.queue = append(q.queue, answer{f, err})
	q.change.Broadcast()
	return true
}

// next waits for answers and takes all. It is nil at the end.
func (q *answerQueue) next() []answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) == 0 && !q.closed {
		q.change.Wait()
	}
	batch := q.queue
	q.queue = nil
	q.change.Broadcast()
	return batch
}

// close delivers what is left and ends.
func (q *answerQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.change.Broadcast()
	q.mu.Unlock()
	q.delivered.Wait()
}
