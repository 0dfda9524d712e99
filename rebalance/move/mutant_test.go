package move

import (
	"testing"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// TestEachRuleIsNeeded takes away one rule after the other. Each must break the
// invariant that it is there for, in a scope where the protocol as it is holds.
func TestEachRuleIsNeeded(t *testing.T) {
	t.Parallel()
	oneMove := scope{producers: 1, records: 2, inFlight: 2, partitions: 2, started: 1, plan: []int8{1}, faults: faults{move: 1}}
	with := func(s scope, change func(*scope)) scope {
		change(&s)
		return s
	}
	expiring := with(oneMove, func(s *scope) { s.faults.expire, s.workersLast = 1, true })
	newcomer := with(oneMove, func(s *scope) { s.started, s.records, s.workersLast, s.markers = 0, 1, true, true })
	crashing := with(oneMove, func(s *scope) { s.faults.crashWorker, s.inFlight = 1, 1 })
	zombie := with(oneMove, func(s *scope) { s.faults.expire, s.faults.crashWorker, s.inFlight, s.records = 1, 1, 1, 1 })
	thereAndBack := with(expiring, func(s *scope) { s.faults.move, s.plan, s.records = 2, []int8{1, 0}, 3 })
	aborted := with(oneMove, func(s *scope) { s.faults.abort, s.workersLast = 1, true })
	onward := with(oneMove, func(s *scope) { s.faults.move, s.plan, s.partitions = 2, []int8{1, 2}, 3 })

	for _, c := range []struct {
		name, invariant string
		scope           scope
		rules           rules
	}{
		{"wait set captured before prepare", "I1", newcomer, rules{captureEarly: true}},
		{"reading to the last stable offset", "I1", newcomer, rules{lastStable: true}},
		{"fence only in the table", "I2", zombie, rules{fenceUnread: true}},
		{"fence counted without switched", "I1", aborted, rules{fenceCounts: true}},
		{"acknowledgement passed on after the lease", "I1", expiring, rules{inTime: func(_, _ uint8, _ bool) bool { return true }}},
		{"hand-over message taken as evidence", "I2", crashing, rules{handOver: true}},
		{"only the last earlier home", "I2", onward, rules{homes: func(h []Home) []Home { return h[max(0, len(h)-1):] }}},
		{"only the last move kept", "I2", thereAndBack, rules{lastMoveKept: true}},
		{"new owner with an old table", "I2", zombie, rules{oldTable: true}},
		{"stale records forwarded", "I2", zombie, rules{forward: true}},

		{"no earlier homes", "I2", oneMove, rules{homes: func([]Home) []Home { return nil }}},
		{"table not refreshed for a higher epoch", "I2", oneMove, rules{neverRefresh: true}},
		{"table refreshed only above the topic's counter", "I2", oneMove, rules{counterOnly: true}},
		{"frontier without names", "I2", with(crashing, func(s *scope) { s.lookAhead = true }), rules{namesIgnored: true}},
		{"gate opened by a timer", "I1", oneMove, rules{timer: true}},
		{"new registration saves what was sent under the old one", "I1", expiring, rules{inTime: func(_, _ uint8, leased bool) bool { return leased }}},
		{"registration anew with records in flight", "I2", expiring, rules{lapseUnnoticed: true}},
		{"late acknowledgement judged by the table at hand", "I1", expiring, rules{judgeUnregistered: true}},
		{"late acknowledgement judged while a move is open", "I1", expiring, rules{late: func(t *routing.Topic, r Placed) LateVerdict {
			if v := Late(t, r); v != Wait {
				return v
			}
			return Acknowledge
		}}},
		{"new records before what is sent again", "I2", expiring, rules{newFirst: true}},
		{"no barrier after a failure", "I1", with(oneMove, func(s *scope) { s.faults.fail, s.workersLast = 1, true }), rules{noBarrier: true}},
		{"switched without deciding anew", "I2", aborted, rules{switchBlindly: true}},
		{
			"move forgotten by its log's start alone", "I1", with(zombie, func(s *scope) { s.truncate, s.faults.truncate = 1, 1 }),
			rules{forgettable: func(mv *routing.Move, start func(int32) (int64, bool)) bool {
				waitedForAll := *mv
				waitedForAll.Over = nil
				return Forgettable(&waitedForAll, start)
			}},
		},
		{
			"move forgotten before its log's start passes", "I2", with(crashing, func(s *scope) { s.truncate = 1 }),
			rules{forgettable: func(mv *routing.Move, _ func(int32) (int64, bool)) bool { return !mv.Open() && len(mv.Over) == 0 }},
		},
		{
			"new owner without holds", "I2", with(zombie, func(s *scope) { s.fromLatest = true }),
			rules{assign: func(*routing.Topic, int32) Partition { return Partition{} }},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.scope.limit = 600_000
			m := explore(c.scope, c.rules)
			switch {
			case m.found == nil:
				t.Errorf("nothing breaks in %d states", m.states())
			case m.found.invariant != c.invariant:
				t.Errorf("breaks %s: want %s", m.found, c.invariant)
			default:
				t.Logf("%d states: %v", m.states(), m.found)
			}
		})
	}
}
