package move

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// scope bounds an exploration.
type scope struct {
	producers, records, inFlight                        int
	partitions                                          int
	started                                             int    // producers that are registered at the start
	plan                                                []int8 // homes that the moves go to, one after the other
	faults                                              faults
	truncate                                            int
	lookAhead, beside, fromLatest, markers, workersLast bool
	limit                                               int // states
}

// rules are what mutants take away. The zero value with standard filled in is
// the protocol.
type rules struct {
	captureEarly, lastStable, fenceUnread, fenceCounts, oldTable bool
	forward, handOver, namesIgnored, neverRefresh, timer         bool
	lapseUnnoticed, judgeUnregistered, switchBlindly             bool
	fencePassed, lastMoveKept, newFirst, noBarrier, counterOnly  bool

	inTime      func(sent, now uint8, leased bool) bool
	late        func(*routing.Topic, Placed) LateVerdict
	homes       func([]Home) []Home
	assign      func(*routing.Topic, int32) Partition
	forgettable func(mv *routing.Move, start func(int32) (int64, bool)) bool
}

func (r rules) withStandard() rules {
	if r.inTime == nil {
		r.inTime = func(sent, now uint8, leased bool) bool { return InTime(uint64(sent), uint64(now), leased) }
	}
	if r.late == nil {
		r.late = Late
	}
	if r.homes == nil {
		r.homes = func(homes []Home) []Home { return homes }
	}
	if r.assign == nil {
		r.assign = Assign
	}
	if r.forgettable == nil {
		r.forgettable = Forgettable
	}
	return r
}

type stepKind uint8

const (
	stNone stepKind = iota
	stRegister
	stRegistered
	stView
	stSend
	stLand
	stAnswer
	stFail
	stExpire
	stCrashProducer
	stConfirm
	stAnnounce
	stDecide
	stStart
	stPrepare
	stCapture
	stPassOver
	stDrained
	stFence
	stEnd
	stLook
	stGiveUp
	stCrashCoordinator
	stMarker
	stAbort
	stTruncate
	stForget
	stRead
	stCrashWorker
	stAssign
	stCursor
	stHead
	stSync
	stAside
	stHandle
	stBeside
	stCommit
	stBegin
)

var stepNames = [...]string{
	"none", "register", "registered", "sees a table", "send", "land", "answer", "fail", "lease ends", "producer crashes",
	"barrier", "announce drained", "judge late", "coordinator starts", "prepare",
	"take the wait set", "pass over", "drained", "fence", "end the move", "look", "give up", "coordinator crashes",
	"marker", "abort", "log start moves", "forget", "worker sees a table", "worker crashes", "assign", "admit",
	"pass control record", "read table to its end", "set aside", "handle", "other lane done", "commit", "group begins at the latest",
}

type step struct {
	kind stepKind
	a, b uint8
}

func (s step) String() string { return fmt.Sprintf("%s %d %d", stepNames[s.kind], s.a, s.b) }

// violation is a broken invariant and the steps to it.
type violation struct {
	invariant, why string
	trace          []step
	at             world
}

func (v *violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, after %d steps:", v.invariant, v.why, len(v.trace))
	for _, s := range v.trace {
		fmt.Fprintf(&b, "\n  %v", s)
	}
	return b.String()
}

// model explores a scope under rules, breadth first.
type model struct {
	scope  scope
	rules  rules
	tables *tables

	seed    maphash.Seed
	visited map[uint64]struct{}
	from    []uint32 // parent of each state, by number
	by      []step
	wave    []numbered // the states of this depth
	next    []numbered
	now     uint32 // number of the state whose steps are taken
	normal  int    // its steps that are no faults
	found   *violation
	broke   *violation // by the step under way
	buf     [2][]byte
	deepest int
}

type numbered struct {
	n uint32
	w world
}

func explore(s scope, r rules) *model {
	m := &model{scope: s, rules: r.withStandard(), tables: newTables(), seed: maphash.MakeSeed(), visited: map[uint64]struct{}{}}
	w := m.initial()
	m.add(step{}, &w)
	for len(m.next) > 0 && m.found == nil {
		m.wave, m.next = m.next, m.wave[:0]
		for i := range m.wave {
			if m.expand(&m.wave[i]); m.found != nil || s.limit > 0 && len(m.by) > s.limit {
				return m
			}
		}
		m.deepest++
	}
	return m
}

func (m *model) states() int { return len(m.by) }

func (m *model) initial() world {
	w := world{faults: m.scope.faults, begun: !m.scope.fromLatest}
	for i := range m.scope.started {
		w.appendEntry(entry{kind: ofSession, who: uint8(i)})
		w.prods[i] = producer{life: up, leased: true, generation: 1, registered: int8(i)}
	}
	for p := range m.scope.partitions {
		w.parts[p].beside = m.besideStart(int8(p), commit{})
		if !m.scope.fromLatest {
			w.parts[p].owner = int8(p%workers) + 1
			w.parts[p].holds = Assign(m.viewOf(&w, 0).topic, int32(p))
		}
	}
	return w
}

func (m *model) view(t table) view {
	if m.rules.lastMoveKept {
		last := -1
		for i := range t.moves[:t.n] {
			if t.moves[i].state == routing.MoveSwitched {
				if last >= 0 {
					t.moves[last].gone = true
				}
				last = i
			}
		}
	}
	return m.tables.view(t)
}

func (m *model) viewOf(w *world, at int8) view { return m.view(w.read(at)) }

func (m *model) expand(at *numbered) {
	m.now, m.normal = at.n, 0
	m.checkHomes(&at.w)
	m.producerSteps(&at.w)
	m.coordinatorSteps(&at.w)
	if !m.scope.workersLast || m.normal == 0 {
		m.workerSteps(&at.w)
	}
	if m.normal == 0 {
		m.checkEnd(&at.w)
	}
	if m.broke != nil {
		m.report(m.broke, &at.w)
	}
}

// step adds what comes of a step, unless it was seen before.
func (m *model) step(kind stepKind, a, b uint8, w *world) {
	m.normal++
	m.fault(kind, a, b, w)
}

// fault is a step that nothing obliges anybody to take.
func (m *model) fault(kind stepKind, a, b uint8, w *world) {
	s := step{kind, a, b}
	if m.broke != nil && m.found == nil {
		m.found = m.broke
		m.found.trace, m.found.at = append(m.trace(m.now), s), *w
	}
	if m.found == nil {
		m.add(s, w)
	}
}

func (m *model) broken(invariant, why string) {
	if m.broke == nil {
		m.broke = &violation{invariant: invariant, why: why}
	}
}

func (m *model) report(v *violation, w *world) {
	if m.found == nil {
		m.found = v
		v.trace, v.at = m.trace(m.now), *w
	}
}

func (m *model) trace(n uint32) []step {
	var back []step
	for ; n > 0; n = m.from[n] {
		back = append(back, m.by[n])
	}
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	return back
}

func (m *model) add(s step, w *world) {
	h := m.hash(w)
	if _, seen := m.visited[h]; seen {
		return
	}
	m.visited[h] = struct{}{}
	n := uint32(len(m.by))
	m.from, m.by = append(m.from, m.now), append(m.by, s)
	m.next = append(m.next, numbered{n, *w})
}

// hash is that of a state up to which producer and which worker is which.
func (m *model) hash(w *world) uint64 {
	m.buf[0] = m.encode(w, m.buf[0][:0], [maxProds]uint8{0, 1})
	least := m.buf[0]
	if m.scope.producers == 2 {
		m.buf[1] = m.encode(w, m.buf[1][:0], [maxProds]uint8{1, 0})
		if bytes.Compare(m.buf[1], least) < 0 {
			least = m.buf[1]
		}
	}
	return maphash.Bytes(m.seed, least)
}

// checkHomes is I3: whoever may send a new record now sends it to one home.
func (m *model) checkHomes(w *world) {
	home := int8(-1)
	for i := range w.prods[:m.scope.producers] {
		p := &w.prods[i]
		if !p.usable() || !p.gate.Open() {
			continue
		}
		own := m.viewOf(w, p.at).home
		if home >= 0 && own != home {
			m.broken("I3", "two homes take new records")
		}
		home = own
	}
}

// checkEnd is I4, and the rest of I1: where nothing more will happen without a
// fault, everything is done.
func (m *model) checkEnd(w *world) {
	t := w.read(w.entries)
	if t.open() != nil {
		m.broken("I4", "a move stays open")
	}
	for i := range w.prods[:m.scope.producers] {
		p := &w.prods[i]
		if p.life == up && !p.gate.Open() {
			m.broken("I4", "a gate stays closed")
		}
		for j, r := range p.records[:m.scope.records] {
			switch {
			case r.state == acknowledged && w.handled[i][j] == place{}:
				m.broken("I1", "an acknowledged record was never handled")
			case p.life == up && r.state != acknowledged && r.state != failed && r.state != ghost:
				m.broken("I4", "a record stays without an answer")
			}
		}
	}
	for i := range w.parts[:m.scope.partitions] {
		if p := &w.parts[i]; p.owner == 0 || p.head < w.logs[i].end {
			m.broken("I4", "a partition is not read to its end")
		}
	}
}
