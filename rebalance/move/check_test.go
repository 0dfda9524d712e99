package move

import (
	"flag"
	"sync/atomic"
	"testing"
)

var (
	deep = flag.Bool("explore.deep", false, "explore the scopes that take gigabytes and many minutes instead")
	most = flag.Int("explore.most", 20_000_000, "states after which a scope is left, at about 600 bytes each while it grows")
)

// exploration is a scope in which the protocol must hold.
type exploration struct {
	name   string
	faults faults
	change func(*scope)
}

// explorations are what every run explores: each party and each fault is in some,
// with the others that it matters to.
var explorations = []exploration{
	{"two producers, one of them comes late", faults{move: 1}, func(s *scope) {
		s.producers, s.workersLast, s.markers = 2, true, true
	}},
	{"two producers, a lease ends", faults{move: 1, expire: 1}, func(s *scope) {
		s.producers, s.records, s.inFlight, s.workersLast = 2, 1, 1, true
	}},
	{"leases end twice", faults{move: 1, expire: 2}, func(s *scope) { s.workersLast = true }},
	{"a lease ends beside the workers", faults{move: 1, expire: 1}, nil},
	{"produces fail", faults{move: 1, fail: 2}, func(s *scope) { s.workersLast = true }},
	{"crashes of a producer and a coordinator", faults{move: 1, crashProducer: 1, crashCoordinator: 1}, func(s *scope) {
		s.producers, s.records, s.inFlight, s.workersLast = 2, 1, 1, true
	}},
	{"two coordinators, lost answers, a crash", faults{move: 2, lose: 1, crashCoordinator: 1}, func(s *scope) { s.workersLast = true }},
	{"two coordinators, an abort, a lease ends", faults{move: 2, abort: 1, expire: 1}, func(s *scope) {
		s.records, s.inFlight, s.workersLast = 1, 1, true
	}},
	{"two coordinators, an abort, a lost answer", faults{move: 2, abort: 1, lose: 1}, func(s *scope) {
		s.records, s.inFlight, s.workersLast = 1, 1, true
	}},
	{"a coordinator gives up", faults{move: 2, giveUp: 1, lose: 1}, func(s *scope) { s.workersLast = true }},
	{"workers crash twice, look-ahead", faults{move: 1, crashWorker: 2}, func(s *scope) { s.inFlight, s.lookAhead = 1, true }},
	{"workers crash beside another lane", faults{move: 1, crashWorker: 2}, func(s *scope) { s.inFlight, s.beside = 1, true }},
	{"a worker crashes, an abort", faults{move: 1, crashWorker: 1, abort: 1}, func(s *scope) { s.inFlight = 1 }},
	{"two producers, a worker crashes", faults{move: 1, crashWorker: 1}, func(s *scope) { s.producers, s.records, s.inFlight = 2, 1, 1 }},
	{"a worker crashes, a lease ends", faults{move: 1, crashWorker: 1, expire: 1}, func(s *scope) { s.inFlight = 1 }},
	{"a group begins at the latest", faults{move: 1, expire: 1}, func(s *scope) { s.inFlight, s.fromLatest = 1, true }},
	{"there and back", faults{move: 2, crashWorker: 1}, func(s *scope) { s.inFlight, s.plan = 1, []int8{1, 0} }},
	{"there and on, a lease ends", faults{move: 2, expire: 1}, func(s *scope) {
		s.inFlight, s.partitions, s.plan, s.workersLast = 1, 3, []int8{1, 2}, true
	}},
	{"there and on", faults{move: 2}, func(s *scope) { s.inFlight, s.partitions, s.plan = 1, 3, []int8{1, 2} }},
	{"moves are forgotten", faults{move: 1, expire: 1, truncate: 1}, func(s *scope) { s.inFlight, s.truncate = 1, 1 }},
}

// deepExplorations are for hours to spare.
var deepExplorations = []exploration{
	{"two coordinators, an abort, a lost answer, a lease ends", faults{move: 2, abort: 1, lose: 1, expire: 1}, func(s *scope) {
		s.records, s.inFlight, s.workersLast = 1, 1, true
	}},
	{"everything, workers last", faults{move: 2, expire: 1, crashProducer: 1, crashCoordinator: 1, lose: 1, abort: 1, fail: 1, giveUp: 1}, func(s *scope) {
		s.producers, s.records, s.inFlight, s.workersLast = 2, 1, 1, true
	}},
	{"everything beside the workers", faults{move: 1, expire: 1, crashProducer: 1, crashCoordinator: 1, crashWorker: 1, abort: 1, lose: 1}, func(s *scope) {
		s.producers, s.records, s.inFlight = 2, 1, 1
	}},
	{"two producers, two records, a lease ends", faults{move: 1, expire: 1, crashWorker: 1}, func(s *scope) {
		s.producers = 2
	}},
	{"there and back, a lease ends, a worker crashes", faults{move: 2, expire: 1, crashWorker: 1}, func(s *scope) {
		s.records, s.inFlight, s.plan = 3, 1, []int8{1, 0}
	}},
}

func (e exploration) scope() scope {
	s := scope{producers: 1, records: 2, inFlight: 2, partitions: 2, started: 1, plan: []int8{1}, faults: e.faults}
	if e.change != nil {
		e.change(&s)
	}
	return s
}

// TestExplore explores the protocol in each scope, and prints how many states
// that are.
func TestExplore(t *testing.T) {
	all := explorations
	if *deep {
		all = deepExplorations
	}
	var states atomic.Int64
	t.Run("in", func(t *testing.T) {
		for _, e := range all {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				s := e.scope()
				s.limit = *most
				m := explore(s, rules{})
				states.Add(int64(m.states()))
				if m.found != nil {
					t.Fatal(m.found)
				}
				what := "all of them"
				if m.states() > *most {
					what = "not all of them: see -explore.most"
				}
				t.Logf("%d states, %s, up to %d steps, %d tables", m.states(), what, m.deepest, len(m.tables.made))
			})
		}
	})
	t.Logf("%d states in %d scopes", states.Load(), len(all))
}
