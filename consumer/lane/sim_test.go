package lane_test

import (
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// sim runs a scheduler with workers whose time is a number, so that shares of
// handler time can be read off exactly.
type sim struct {
	t       testing.TB
	s       *lane.Scheduler[string] // R is the tenant
	p       *lane.Partition[string]
	now     time.Duration
	next    int64
	workers []simWorker
	cost    func(tenant string) time.Duration
	result  func(tenant string, it lane.Item[string]) (lane.Outcome, time.Duration)
	done    func(tenant string, it lane.Item[string])

	served map[string]time.Duration // handler time by tenant
	tries  map[string]int
	tier   map[string]lane.TierID
}

type simWorker struct {
	batch lane.Batch[string]
	at    int           // grant being run
	tried int           // records of it that are handled before it is left
	until time.Duration // when that is
	spent time.Duration
}

func newSim(t testing.TB, cfg lane.Config, workers int) *sim {
	t.Helper()
	s, err := lane.New[string](cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &sim{
		t: t, s: s, p: s.Assign("t", 0, 1), workers: make([]simWorker, workers),
		cost:   func(string) time.Duration { return time.Millisecond },
		served: map[string]time.Duration{}, tries: map[string]int{}, tier: map[string]lane.TierID{},
	}
}

func (m *sim) push(tenant string, n int) {
	m.t.Helper()
	for range n {
		id := lane.ID{Tenant: []byte(tenant), Key: []byte(tenant), Tier: m.tier[tenant]}
		if v := m.s.Push(m.p, id, lane.Item[string]{Offset: m.next, Rec: tenant, Bytes: 1}); v != lane.Queued {
			m.t.Fatalf("pushing for %s: %v", tenant, v)
		}
		m.next++
	}
}

// run lets the workers work until the given time.
func (m *sim) run(until time.Duration) {
	m.t.Helper()
	for {
		m.start()
		w, next := m.nextEnd()
		if wake, ok := m.s.NextWake(); ok && (w == nil || wake < next) {
			w, next = nil, wake
		} else if w == nil {
			m.now = until
			return
		}
		if next > until {
			m.now = until
			return
		}
		m.now = max(m.now, next)
		if w != nil {
			m.finish(w)
		}
	}
}

// start gives idle workers something to do.
func (m *sim) start() {
	for i := range m.workers {
		w := &m.workers[i]
		if w.at < len(w.batch.Grants) {
			continue
		}
		w.at = 0
		if m.s.Take(m.now, 32, &w.batch) > 0 {
			m.begin(w)
		}
	}
}

// begin works out how long the worker stays with its current grant.
func (m *sim) begin(w *simWorker) {
	w.spent, w.tried = 0, 0
	for _, it := range w.batch.Grants[w.at].Items {
		w.spent += m.cost(it.Rec)
		w.tried++
		if w.spent >= time.Millisecond {
			break // a lane is left after that
		}
	}
	w.until = m.now + w.spent
}

func (m *sim) nextEnd() (*simWorker, time.Duration) {
	var first *simWorker
	for i := range m.workers {
		w := &m.workers[i]
		if w.at < len(w.batch.Grants) && (first == nil || w.until < first.until) {
			first = w
		}
	}
	if first == nil {
		return nil, 0
	}
	return first, first.until
}

func (m *sim) finish(w *simWorker) {
	g := &w.batch.Grants[w.at]
	tenant := g.Items[0].Rec
	r := lane.Result{Done: w.tried, Busy: w.spent}
	for i, it := range g.Items[:w.tried] {
		m.tries[tenant]++
		if m.result != nil {
			if r.Outcome, r.Delay = m.result(tenant, it); r.Outcome != lane.Continue {
				r.Done = i
				break
			}
		}
	}
	m.served[tenant] += w.spent
	m.s.Release(g, r, m.now)
	if m.done != nil {
		for _, it := range g.Items[:r.Done] {
			m.done(tenant, it)
		}
	}
	if w.at++; w.at < len(w.batch.Grants) {
		m.begin(w)
	}
}

// endless keeps tenants' lanes full.
func (m *sim) endless() {
	m.done = func(tenant string, _ lane.Item[string]) { m.push(tenant, 1) }
}
