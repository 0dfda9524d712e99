package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Config says who is told. The zero value tells nobody.
type Config struct {
	// Targets are the pagers; names must differ.
	Targets []Target
	// Fallback is told what a target does not take; nil: nobody is.
	Fallback Target
	// Backoff is the wait after temporary failures.
	Backoff Backoff
	// Muted is true for an alert that shall not begin at targets that have no
	// silences of their own; nil: none is. It is asked at each Publish, and must
	// be safe for concurrent use.
	Muted func(a *Alert) bool
	// OnTold is called after a target was told something, from its sender's
	// goroutine; nil: not called. State has it by then.
	OnTold func()
	// Logger takes deliveries and failures; nil: none.
	Logger *zap.Logger
	// Registerer takes the metrics; nil: none.
	Registerer prometheus.Registerer
}

func (c *Config) setDefaults() {
	if c.Backoff.Min == 0 {
		c.Backoff.Min = time.Second
	}
	if c.Backoff.Max == 0 {
		c.Backoff.Max = 5 * time.Minute
	}
	if c.Muted == nil {
		c.Muted = func(*Alert) bool { return false }
	}
	if c.OnTold == nil {
		c.OnTold = func() {}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
}

func (c *Config) validate() error {
	seen := map[string]bool{}
	for _, t := range c.Targets {
		if t == nil {
			return errors.New("Targets: contains nil")
		}
		if seen[t.Name()] {
			return fmt.Errorf("Targets: two are named %q", t.Name())
		}
		seen[t.Name()] = true
	}
	if c.Backoff.Min < 0 || c.Backoff.Max < c.Backoff.Min {
		return fmt.Errorf("Backoff: %v to %v", c.Backoff.Min, c.Backoff.Max)
	}
	return nil
}

// Notifier keeps every target up to date with the published set of alerts.
// All methods are safe for concurrent use.
type Notifier struct {
	senders []*sender
}

// State is what must be kept over a restart: by target, by dedup key, what it
// was told and has not been told the end of.
type State map[string]map[string]Entry

// New returns a notifier that has told nobody anything, except what state
// says; state may be nil.
func New(cfg Config, state State) (*Notifier, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("notify: config: %w", err)
	}
	m := newMetrics(cfg.Registerer)
	n := &Notifier{}
	for _, t := range cfg.Targets {
		told := book(maps.Clone(state[t.Name()]))
		if told == nil {
			told = book{}
		}
		maps.DeleteFunc(told, func(_ string, e Entry) bool {
			other := e.Account != account(t)
			if other {
				cfg.Logger.Warn("an alert was opened under another key: it is told anew, and has to be closed there by hand",
					zap.String("target", t.Name()), zap.String("alert", e.Alert.Name), zap.String("group", e.Alert.Group))
			}
			return other
		})
		idle := make(chan struct{})
		close(idle)
		m.failing(t.Name(), false)
		n.senders = append(n.senders, &sender{
			target: t, fallback: cfg.Fallback, backoff: cfg.Backoff, muted: cfg.Muted, onTold: cfg.OnTold, log: cfg.Logger, metrics: m,
			wake: make(chan struct{}, 1), told: told, fell: book{}, ended: book{}, idle: idle,
		})
	}
	return n, nil
}

// Run delivers until ctx ends; what is due then gets one more try of 2
// seconds. It returns nil.
func (n *Notifier) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range n.senders {
		wg.Go(func() { s.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Publish says what fires now: all of it, and nothing else. Alerts that were
// published before and are missing now have ended. It does not block.
func (n *Notifier) Publish(alerts []Alert) {
	firing := make(map[string]Alert, len(alerts))
	for _, a := range alerts {
		firing[a.Key()] = a
	}
	for _, s := range n.senders {
		s.publish(firing)
	}
}

// Settle waits until every target has been told all that was published, or
// ctx ends.
func (n *Notifier) Settle(ctx context.Context) error {
	for _, s := range n.senders {
		s.mu.Lock()
		idle := s.idle
		s.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("target %q has not been told everything: %w", s.target.Name(), ctx.Err())
		}
	}
	return nil
}

// Failing returns the targets that do not take alerts, with the last error.
func (n *Notifier) Failing() map[string]error {
	out := map[string]error{}
	for _, s := range n.senders {
		s.mu.Lock()
		if s.failing != nil {
			out[s.target.Name()] = s.failing
		}
		s.mu.Unlock()
	}
	return out
}

// State returns what each target was told, to be given to New after a restart.
func (n *Notifier) State() State {
	out := State{}
	for _, s := range n.senders {
		out[s.target.Name()] = s.snapshot()
	}
	return out
}

// TestPage sends a page that says it is a test to every target, then its end,
// beside the book. The errors of all targets are joined.
func (n *Notifier) TestPage(ctx context.Context, cluster string) error {
	now := time.Now()
	page := Alert{
		Name: "test_page", Cluster: cluster, Severity: "page", Since: now,
		Summary: "This is a test of lagwatch: if you can read it, pages arrive. Nothing is wrong.",
	}
	end := page
	end.ResolvedAt = now
	var errs []error
	for _, s := range n.senders {
		err := s.target.Send(ctx, []Alert{page})
		if err == nil {
			err = s.target.Send(ctx, []Alert{end})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("target %q: %w", s.target.Name(), err))
		}
	}
	return errors.Join(errs...)
}
