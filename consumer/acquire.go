package consumer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// ErrUnknownResource is wrapped by the error of a Record.Acquire whose name is
// none of Config.Resources.
var ErrUnknownResource = errors.New("resource is not in consumer.Config.Resources")

// Resource limits what all handlers of one worker share, such as a database. At
// least one of Concurrency and Rate is above 0; a zero one is no limit.
type Resource struct {
	// Concurrency is how many handlings have it at once.
	Concurrency int
	// Rate and Burst limit how often it is acquired, in times a second and at
	// once. A rate without a burst has one second's.
	Rate, Burst float64
}

func (r Resource) validate(name string) error {
	bad := func(x float64) bool { return x < 0 || math.IsNaN(x) || math.IsInf(x, 0) }
	switch {
	case name == "":
		return errors.New("consumer.Config: Resources has one without a name")
	case r.Concurrency < 0 || bad(r.Rate) || bad(r.Burst):
		return fmt.Errorf("consumer.Config: Resources[%q] %+v is not from 0 up", name, r)
	case r.Concurrency == 0 && r.Rate == 0:
		return fmt.Errorf("consumer.Config: Resources[%q] limits nothing", name)
	case r.Burst > 0 && r.Rate == 0:
		return fmt.Errorf("consumer.Config: Resources[%q] has a Burst without a Rate", name)
	}
	return nil
}

// Acquire waits until the handler may use a resource of Config.Resources, which
// all handlers of the worker share. Tenants that wait take turns: each gets it
// as long as any other, or as often where only its rate is limited, however many
// of its handlers wait; a tenant's own are served as they came. release gives it
// back, once; what a handler has when it returns is given back by itself.
//
// The error is ctx's, or wraps ErrUnknownResource. Use the handler's context, or
// one made from it: the handler's deadline then ends the wait too. A wait takes a
// worker (Config.Concurrency) and counts as its tenant's handler time; it holds no
// lane but the record's own. A handler that acquires more than one must do so in
// the same order everywhere, and one that has a resource must not acquire it
// again: it would wait for itself until its deadline.
//
// A record that no Runtime hands out, and one of a Runtime without Resources, is
// not limited.
func (r *Record) Acquire(ctx context.Context, resource string) (release func(), err error) {
	if r.leases == nil {
		return func() {}, nil
	}
	return r.leases.acquire(ctx, r.Tenant, resource)
}

// resources are a worker's, by name; read only.
type resources map[string]*sharedResource

func newResources(cfg map[string]Resource, now func() time.Duration) resources {
	if len(cfg) == 0 {
		return nil
	}
	rs := make(resources, len(cfg))
	for name, limit := range cfg {
		rs[name] = &sharedResource{now: now, limits: lane.NewResource[*lease](lane.ResourceConfig(limit))}
	}
	return rs
}

// sharedResource is one resource. Whoever may have let another one go on calls
// grant; the timer does for the rate.
type sharedResource struct {
	now func() time.Duration

	mu sync.Mutex
	// guards the fields below
	limits *lane.Resource[*lease]
	timer  *time.Timer // for the rate
	given  uint64      // waits that were given up
	waits  durations   // of those that were not
}

// lease is one wait for a resource, and the right to use it.
type lease struct {
	claim   *lane.Claim[*lease]
	began   time.Duration
	granted chan struct{}
}

// take waits for the resource.
func (s *sharedResource) take(ctx context.Context, tenant []byte) (*lease, error) {
	s.mu.Lock()
	l := &lease{granted: make(chan struct{}), began: s.now()}
	l.claim = s.limits.Claim(tenant, l, l.began)
	s.grant()
	s.mu.Unlock()
	select {
	case <-l.granted:
		return l, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.claim.Granted() {
		s.limits.Release(l.claim, s.now())
	} else {
		s.limits.Cancel(l.claim)
	}
	s.given++
	s.grant()
	return nil, ctx.Err()
}

func (s *sharedResource) give(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.Release(l.claim, s.now())
	s.grant()
}

// grant lets those go on that may. The lock is held.
func (s *sharedResource) grant() {
	for {
		now := s.now()
		c, wait := s.limits.Next(now)
		if c == nil {
			s.later(wait)
			return
		}
		s.waits.observe((now - c.Value.began).Seconds(), 1)
		close(c.Value.granted)
	}
}

// later looks again when the rate allows one more.
func (s *sharedResource) later(wait time.Duration) {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if wait > 0 {
		s.timer = time.AfterFunc(wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.grant()
		})
	}
}

// leases is what the handling that a worker runs has of resources.
type leases struct {
	resources resources
	some      atomic.Bool

	mu sync.Mutex
	// guards held
	held map[*lease]*sharedResource
}

func (ls *leases) acquire(ctx context.Context, tenant []byte, name string) (release func(), err error) {
	s := ls.resources[name]
	if s == nil {
		return nil, fmt.Errorf("resource %q: %w", name, ErrUnknownResource)
	}
	if err = ctx.Err(); err != nil {
		return nil, fmt.Errorf("resource %q: %w", name, err)
	}
	l, err := s.take(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("resource %q: %w", name, err)
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.held == nil {
		ls.held = make(map[*lease]*sharedResource)
	}
	ls.held[l] = s
	ls.some.Store(true)
	return func() { ls.release(l) }, nil
}

// release gives one back, the first time.
func (ls *leases) release(l *lease) {
	ls.mu.Lock()
	s := ls.held[l]
	delete(ls.held, l)
	ls.some.Store(len(ls.held) > 0)
	ls.mu.Unlock()
	if s != nil {
		s.give(l)
	}
}

// end gives back what the handler that has returned did not.
func (ls *leases) end() {
	if ls == nil || !ls.some.Load() {
		return
	}
	ls.mu.Lock()
	held := ls.held
	ls.held = nil
	ls.some.Store(false)
	ls.mu.Unlock()
	for l, s := range held {
		s.give(l)
	}
}

// newLeases is for one worker, or a record that outlives its handler; nil where
// nothing is limited.
func newLeases(rs resources) *leases {
	if rs == nil {
		return nil
	}
	return &leases{resources: rs}
}

// detached is for a record that outlives its handler: what it acquires is given
// back by release alone.
func (ls *leases) detached() *leases {
	if ls == nil {
		return nil
	}
	return newLeases(ls.resources)
}

// collectResources reads the resources' metrics.
func (c *collector) collectResources(ch chan<- prometheus.Metric) {
	for name, s := range c.rt.engine.resources {
		s.mu.Lock()
		ch <- prometheus.MustNewConstMetric(c.resourceHeld, prometheus.GaugeValue, float64(s.limits.Held()), name)
		ch <- prometheus.MustNewConstMetric(c.resourceWaiting, prometheus.GaugeValue, float64(s.limits.Waiting()), name)
		ch <- prometheus.MustNewConstMetric(c.resourceGiven, prometheus.CounterValue, float64(s.given), name)
		ch <- s.waits.metric(c.resourceWaits, name)
		s.mu.Unlock()
	}
}
