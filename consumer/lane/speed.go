package lane

import "time"

// speedWindow is over how long a tenant's rate is taken.
const speedWindow = 10 * time.Second

// speed counts events in two windows side by side, so that a rate over the
// last one costs two numbers and no timer.
type speed struct {
	since     time.Duration // when counting began; the zero speed has not begun
	window    int64         // number of the current window
	last, now uint32        // counts of the window before, and of the current one
	begun     bool
}

// finished notes that n of t's records are done.
func (t *tenant) finished(n int, now time.Duration) {
	if n > 0 {
		t.handled += uint64(n)
		t.speed.add(uint32(n), now)
	}
}

func (s *speed) add(n uint32, at time.Duration) {
	if !s.begun {
		s.begun, s.since, s.window = true, at, int64(at/speedWindow)
	}
	s.turn(at)
	s.now += n
}

// turn moves on to the window of a time.
func (s *speed) turn(at time.Duration) {
	switch w := int64(at / speedWindow); {
	case w <= s.window:
	case w == s.window+1:
		s.window, s.last, s.now = w, s.now, 0
	default:
		s.window, s.last, s.now = w, 0, 0
	}
}

// rate is how many events a second there were in the window that ends at a
// time, the one before the current counted in part. It is taken over no less
// than a second, so that the first event is no burst.
func (s speed) rate(at time.Duration) float64 {
	if !s.begun {
		return 0
	}
	s.turn(at)
	n := float64(s.now)
	if end := time.Duration(s.window) * speedWindow; s.last > 0 {
		begin := max(s.since, end-speedWindow) // of what last counts
		n += float64(s.last) * (end - max(begin, at-speedWindow)).Seconds() / (end - begin).Seconds()
	}
	return n / min(max(at-s.since, time.Second), speedWindow).Seconds()
}
