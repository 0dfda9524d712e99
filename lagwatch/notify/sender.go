package notify

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"
)

// sender brings one target to the newest published set.
type sender struct {
	target   Target
	fallback Target
	backoff  Backoff
	muted    func(*Alert) bool
	onTold   func()
	log      *zap.Logger
	metrics  *metrics
	wake     chan struct{}

	// Only the goroutine of run uses these.
	failures  int
	notBefore time.Time
	fell      book // what the fallback was told instead

	mu sync.Mutex
	// guards all below
	told    book
	firing  map[string]Alert // nil until the first Publish
	failing error
	passive bool
	ended   book          // what ended while passive, with when
	idle    chan struct{} // closed while nothing is due
}

// Backoff is how long a sender waits after a temporary failure: Min, doubled
// each time, up to Max; longer when the other side asks for it. Zero values
// are 1 s and 5 min.
type Backoff struct {
	Min, Max time.Duration
}

func (b Backoff) wait(failures int) time.Duration {
	d := b.Min
	for range failures - 1 {
		if d *= 2; d >= b.Max {
			return b.Max
		}
	}
	return d
}

// failingAfter is how many failures in a row raise notify_failing and wake the
// fallback; a refusal does so at once.
const failingAfter = 3

// lastTry bounds the delivery of what is due when the context has ended.
const lastTry = 2 * time.Second

// publish hands over the newest set.
func (s *sender) publish(firing map[string]Alert) {
	firing = wanted(s.target, firing)
	s.mu.Lock()
	s.mute(firing)
	if s.passive {
		s.assume(time.Now(), firing)
		s.mu.Unlock()
		return
	}
	s.firing = firing
	select {
	case <-s.idle:
		s.idle = make(chan struct{})
	default:
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// mute leaves out of a set what shall not be told: it begins when it is muted no
// longer. What was told stays open as it was told, and its end is told. A target
// with silences of its own decides for itself. mu is held.
func (s *sender) mute(firing map[string]Alert) {
	if silences(s.target) {
		return
	}
	for key, a := range firing {
		if !s.muted(&a) {
			continue
		}
		if e, told := s.told[key]; told {
			firing[key] = e.Alert
		} else {
			delete(firing, key)
		}
	}
}

// wanted is what a target wants of a set.
func wanted(t Target, firing map[string]Alert) map[string]Alert {
	w, choosy := t.(wanter)
	out := make(map[string]Alert, len(firing))
	for key, a := range firing {
		if (a.Name != WatchdogAlert || Watchdog(t)) && (!choosy || w.Wants(&a)) {
			out[key] = a
		}
	}
	return out
}

// run delivers until ctx ends, then tries once more what is due. A delivery
// under way is not cut off at once: it may have arrived, and would be repeated.
func (s *sender) run(ctx context.Context) {
	late, cancel := after(ctx, lastTry)
	defer cancel()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			s.notBefore = time.Time{}
			s.deliver(late)
			return
		case <-s.wake:
		case <-timer.C:
		}
		timer.Reset(s.deliver(late))
	}
}

// after returns a context that ends a while after ctx did.
func after(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var timer *time.Timer
	var mu sync.Mutex // guards timer
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		timer = time.AfterFunc(d, cancel)
	})
	return late, func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			timer.Stop()
		}
		cancel()
	}
}

// deliver sends what is due and returns how long to sleep without a wake-up.
func (s *sender) deliver(ctx context.Context) time.Duration {
	now := time.Now()
	if wait := s.notBefore.Sub(now); wait > 0 {
		return wait
	}
	due := s.due(now)
	if len(due) == 0 {
		return s.untilRenotify(now)
	}
	err := s.target.Send(ctx, due)
	if err != nil && refused(err) {
		if m, ok := s.target.(minimizer); ok {
			s.log.Warn("target refuses the alerts, sending less", zap.String("target", s.target.Name()), zap.Error(err))
			err = m.SendMinimal(ctx, due)
		}
	}
	s.checkClock()
	if err != nil {
		due = s.partly(now, due, err)
		return s.failed(ctx, due, err)
	}
	s.succeeded(now, due)
	return 0
}

// partly records what was taken before a failure and returns the rest.
func (s *sender) partly(now time.Time, due []Alert, err error) []Alert {
	var se *SendError
	if !errors.As(err, &se) || se.Done <= 0 || se.Done >= len(due) {
		return due
	}
	s.mu.Lock()
	s.told.told(now, account(s.target), due[:se.Done])
	s.mu.Unlock()
	s.onTold()
	return due[se.Done:]
}

// maxSkew is how far a target's clock may be off before it is said.
const maxSkew = 30 * time.Second

func (s *sender) checkClock() {
	t, ok := s.target.(skewed)
	if !ok {
		return
	}
	skew := t.ClockSkew()
	s.metrics.skew(s.target.Name(), skew)
	if skew > maxSkew || skew < -maxSkew {
		s.log.Warn("the target's clock and this one differ; alerts may end too early or too late",
			zap.String("target", s.target.Name()), zap.Duration("skew", skew))
	}
}

// due is what the target has to be told; when that is nothing, the sender is
// idle until the next Publish.
func (s *sender) due(now time.Time) []Alert {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []Alert
	if s.firing != nil && !s.passive {
		due = s.told.due(now, s.firing, renotify(s.target))
	}
	if len(due) == 0 {
		s.rest()
	}
	return due
}

// rest lets Settle go on; mu is held.
func (s *sender) rest() {
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

func (s *sender) succeeded(now time.Time, due []Alert) {
	s.mu.Lock()
	s.told.told(now, account(s.target), due)
	recovered := s.failing != nil
	s.failing = nil
	s.mu.Unlock()
	if recovered {
		s.log.Info("target takes alerts again", zap.String("target", s.target.Name()))
	}
	s.failures, s.notBefore = 0, time.Time{}
	clear(s.fell)
	s.metrics.delivered(s.target.Name(), len(due))
	s.onTold()
	s.metrics.failing(s.target.Name(), false)
	for _, a := range due {
		s.log.Info("alert delivered", zap.String("target", s.target.Name()), zap.String("alert", a.Name),
			zap.String("status", a.Status()), zap.String("group", a.Group), zap.String("topic", a.Topic))
	}
}

// failed decides when to try again, and whether the fallback hears of it.
func (s *sender) failed(ctx context.Context, due []Alert, err error) time.Duration {
	s.failures++
	s.metrics.failed(s.target.Name())
	s.log.Warn("alerts not delivered", zap.String("target", s.target.Name()), zap.Int("alerts", len(due)),
		zap.Int("attempt", s.failures), zap.Error(err))
	if refused(err) || s.failures >= failingAfter {
		s.mu.Lock()
		s.failing = err
		s.mu.Unlock()
		s.metrics.failing(s.target.Name(), true)
		s.fallBack(ctx, due)
	}
	if refused(err) { // the same again will not help; a new set may
		return time.Hour
	}
	wait := s.backoff.wait(s.failures)
	if se, ok := errors.AsType[*SendError](err); ok {
		wait = max(wait, se.RetryAfter)
	}
	s.notBefore = time.Now().Add(wait)
	return wait
}

// fallBack tells the fallback target what this one does not take, once.
func (s *sender) fallBack(ctx context.Context, due []Alert) {
	if s.fallback == nil {
		return
	}
	var fresh []Alert
	for _, a := range due {
		_, open := s.fell[a.Key()]
		if a.ResolvedAt.IsZero() && !silences(s.fallback) && s.muted(&a) {
			continue
		}
		if open != a.ResolvedAt.IsZero() {
			fresh = append(fresh, a)
		}
	}
	if len(fresh) == 0 {
		return
	}
	if err := s.fallback.Send(ctx, fresh); err != nil {
		s.log.Error("fallback does not take alerts either", zap.String("target", s.fallback.Name()), zap.Error(err))
		return
	}
	s.fell.told(time.Now(), "", fresh)
}

func (s *sender) untilRenotify(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.told.next(renotify(s.target)); ok {
		return max(at.Sub(now), time.Millisecond)
	}
	return time.Hour
}

// snapshot copies the book.
func (s *sender) snapshot() map[string]Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.told)
}

func renotify(t Target) time.Duration {
	if r, ok := t.(renotifier); ok {
		return r.Renotify()
	}
	return 0
}

// refused is true for an answer that repeating will not change.
func refused(err error) bool {
	var se *SendError
	return errors.As(err, &se) && !se.Temporary()
}
