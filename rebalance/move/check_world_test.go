package move

import (
	"fmt"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// The model environment of the exhaustive check: everything around the machines
// of this package, as plain data that is copied for each step. It holds one
// unit, tenant t, whose home is partition 0 at first.

const (
	maxEntries = 14 // of the routing log
	maxOffsets = 12 // of a partition's log
	maxParts   = 3
	maxProds   = 2
	maxRecords = 3
	maxMoves   = 3 // coordinators: each makes one move
	workers    = 2
)

// world is one state of everything.
type world struct {
	routing [maxEntries]entry
	entries int8
	logs    [maxParts]partitionLog
	prods   [maxProds]producer
	coords  [maxMoves]coordinator
	views   [workers]int8 // each worker's position in the routing log
	parts   [maxParts]owned
	handled [maxProds][maxRecords]place // where each record was handled last
	faults  faults
	begun   bool // the group has a commit in every partition
}

// entry is a record of the routing log: a session, or a transaction that
// changes the table.
type entry struct {
	kind   entryKind
	who    uint8 // producer, or move
	to     routing.MoveState
	forget bool
	home   int8 // of a prepared move: where it goes
	x      int8 // of a switched one
	over   bool // it passed over a session
	status status
}

type entryKind uint8

const (
	ofSession entryKind = iota + 1
	ofTable
)

// status is whether the end marker of a transaction is in the log. Nothing from
// a transaction without one on is visible to those who read what is committed.
type status uint8

const (
	settled status = iota
	marking        // its writer knows that it is committed
	unknown        // its writer does not know
	void           // rolled back
)

type partitionLog struct {
	at    [maxOffsets]logged
	end   int8
	start int8
}

// logged is a record in a partition.
type logged struct {
	kind  loggedKind
	who   uint8 // producer, or move
	seq   uint8
	epoch uint8
	aside bool // in quarantine
}

type loggedKind uint8

const (
	aRecord loggedKind = iota + 1
	aFence
	aBarrier
)

// place is a partition and an offset, shifted by one so that zero is none.
type place struct{ partition, offset int8 }

// faults are how often each thing may still go wrong.
type faults struct {
	expire, crashProducer, crashWorker, crashCoordinator int8
	fail, lose, abort, giveUp, move, truncate            int8
}

// table is what the routing log says at a position.
type table struct {
	moves [maxMoves]tableMove // in the order in which they were prepared
	n     uint8
}

type tableMove struct {
	who      uint8
	state    routing.MoveState
	from, to int8
	x        int8
	over     bool
	gone     bool // forgotten
}

// read gives the table of the log's first entries.
func (w *world) read(upTo int8) (t table) {
	home := int8(0)
	for _, e := range w.routing[:upTo] {
		if e.kind != ofTable || e.status == void {
			continue
		}
		if e.to == routing.MovePrepared && !e.forget {
			t.moves[t.n] = tableMove{who: e.who, from: home, to: e.home}
			t.n++
			continue
		}
		m := t.find(e.who)
		switch {
		case e.forget:
			m.gone = true
		default:
			m.state, m.x, m.over = e.to, e.x, e.over
		}
		if e.to == routing.MoveSwitched && !e.forget {
			home = m.to
		}
	}
	return t
}

func (t *table) find(who uint8) *tableMove {
	for i := range t.moves[:t.n] {
		if t.moves[i].who == who {
			return &t.moves[i]
		}
	}
	return nil
}

func (t *table) open() *tableMove {
	for i := range t.moves[:t.n] {
		if t.moves[i].state == routing.MovePrepared {
			return &t.moves[i]
		}
	}
	return nil
}

// switched counts the finished moves.
func (t *table) switched() (n int) {
	for _, m := range t.moves[:t.n] {
		if m.state == routing.MoveSwitched {
			n++
		}
	}
	return n
}

// stable is the last stable offset: where what is committed ends.
func (w *world) stable() int8 {
	for i, e := range w.routing[:w.entries] {
		if e.status == marking || e.status == unknown {
			return int8(i)
		}
	}
	return w.entries
}

// tableAt is the least position whose table is that of a position.
func (w *world) tableAt(at int8) int8 {
	for at > 0 && (w.routing[at-1].kind == ofSession || w.routing[at-1].status == void) {
		at--
	}
	return at
}

// view is a table as the real package compiles it, with what the model asks for
// all the time.
type view struct {
	topic *routing.Topic
	open  string // id of the open move
	home  int8
	epoch uint8
}

const topicName = "orders"

var tenantName = []byte("t")

func moveID(who uint8) string { return string('a' + rune(who)) }

func moveWho(id string) uint8 { return id[0] - 'a' }

// tables keeps compiled tables, one per content.
type tables struct {
	base *routing.Table
	made map[table]view
}

func newTables() *tables {
	base, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{topicName: {
		Partitions: maxParts, Slots: maxParts, Wrapped: true,
		Placements: map[string]routing.Placement{string(tenantName): {Partitions: []int32{0}}},
	}}})
	if err != nil {
		panic(err)
	}
	return &tables{base: base, made: map[table]view{}}
}

func (ts *tables) view(t table) view {
	if v, ok := ts.made[t]; ok {
		return v
	}
	now := ts.base
	for _, m := range t.moves[:t.n] {
		now = edited(now, m)
	}
	topic, _ := now.Topic(topicName)
	r := topic.Lookup(tenantName, nil)
	v := view{topic: topic, home: int8(r.Partition), epoch: uint8(r.Epoch)}
	if open := topic.OpenMove(tenantName, r.Slot, r.Kind); open != nil {
		v.open = open.ID
	}
	ts.made[t] = v
	return v
}

// edited does to a table what a move does, with the real edits.
func edited(t *routing.Table, m tableMove) *routing.Table {
	id := moveID(m.who)
	edits := []routing.Edit{routing.PrepareMove(topicName, routing.Move{
		ID: id, Tenant: string(tenantName), To: []int32{int32(m.to)}, Deadline: time.Unix(30, 0),
	})}
	switch m.state {
	case routing.MovePrepared:
	case routing.MoveAborted:
		edits = append(edits, routing.AbortMove(topicName, id))
	case routing.MoveSwitched:
		var over []routing.SessionID
		if m.over {
			over = []routing.SessionID{sessionOf(0)}
		}
		edits = append(edits, routing.SwitchMove(topicName, id, []routing.Fence{{Partition: int32(m.from), Offset: int64(m.x)}}, over...))
		if m.gone {
			edits = append(edits, routing.ForgetMove(topicName, id))
		}
	}
	next, err := t.Edit(edits...)
	if err != nil {
		panic(fmt.Errorf("model table: %w", err))
	}
	return next
}

func (w *world) appendEntry(e entry) {
	if w.entries == maxEntries {
		panic("the model's routing log is too short")
	}
	w.routing[w.entries] = e
	w.entries++
}

func (l *partitionLog) append(r logged) (offset int8) {
	if l.end == maxOffsets {
		panic("the model's partition log is too short")
	}
	l.at[l.end] = r
	l.end++
	return l.end - 1
}

// placed is a record of a partition as the machines take it.
func (w *world) placed(partition, offset int8) Placed {
	return Placed{
		Tenant: tenantName, Slot: -1, Kind: routing.KindTenant, Epoch: uint64(w.logs[partition].at[offset].epoch),
		Partition: int32(partition), Offset: int64(offset),
	}
}
