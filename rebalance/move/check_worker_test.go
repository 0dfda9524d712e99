package move

import "github.com/tenantlane/tenantlane/partitioner/routing"

// owned is a partition as its worker and the group's commits know it.
type owned struct {
	owner  int8 // worker + 1; 0 is nobody
	holds  Partition
	head   int8 // first unfinished offset of the unit's lane
	cursor int8 // next to admit; the lane overflows in between
	beside int8 // first unfinished offset of another lane, or done
	commit commit
	// believed is the fence that a mutant takes for confirmed, shifted by one.
	believed place
}

// commit is a group's commit: W, F and the lane's name, if it is below F.
type commit struct {
	watermark, frontier, name int8
	named                     bool
}

const besideDone = 127

func (m *model) workerSteps(w *world) {
	if !w.begun {
		m.beginStep(w)
		return
	}
	for i := range w.views {
		m.readSteps(w, int8(i))
		if w.faults.crashWorker > 0 && m.owns(w, int8(i)) {
			n := *w
			n.faults.crashWorker--
			n.views[i] = 0
			for p := range n.parts {
				if n.parts[p].owner == int8(i)+1 {
					n.parts[p] = owned{commit: n.parts[p].commit}
				}
			}
			m.fault(stCrashWorker, uint8(i), 0, &n)
		}
	}
	for p := range int8(m.scope.partitions) {
		if w.parts[p].owner == 0 {
			m.assignSteps(w, p)
			continue
		}
		m.cursorStep(w, p)
		m.headStep(w, p)
		m.besideStep(w, p)
		m.commitStep(w, p)
	}
}

// beginStep lets a new group begin at the ends that all logs have now. What is
// there before is no concern of its.
func (m *model) beginStep(w *world) {
	n := *w
	n.begun = true
	for p := range n.parts[:m.scope.partitions] {
		log := &n.logs[p]
		n.parts[p].commit = commit{watermark: log.end, frontier: log.end}
		for _, r := range log.at[:log.end] {
			if r.kind == aRecord {
				n.handled[r.who][r.seq] = before
			}
		}
	}
	m.step(stBegin, 0, 0, &n)
}

// before is the place of a record that was there before the group.
var before = place{0, 1}

func (m *model) owns(w *world, worker int8) bool {
	for _, p := range w.parts {
		if p.owner == worker+1 {
			return true
		}
	}
	return false
}

// readSteps follow the table.
func (m *model) readSteps(w *world, worker int8) {
	if !m.owns(w, worker) {
		return
	}
	for at := w.views[worker]; at < w.stable(); at++ {
		if w.tableAt(at+1) == at+1 {
			n := *w
			m.see(&n, worker, at+1)
			m.step(stRead, uint8(worker), uint8(at), &n)
		}
	}
}

func (m *model) see(w *world, worker, at int8) {
	w.views[worker] = max(w.views[worker], at)
	for p := range w.parts {
		if w.parts[p].owner == worker+1 {
			w.parts[p].holds.See(m.viewFor(w, int8(p)))
		}
	}
}

// viewFor is the table by which a partition is judged.
func (m *model) viewFor(w *world, partition int8) *routing.Topic {
	t := w.read(w.views[w.parts[partition].owner-1])
	if b := w.parts[partition].believed; b.partition > 0 {
		if mv := t.find(uint8(b.partition - 1)); mv != nil && mv.from == partition {
			mv.state, mv.x = routing.MoveSwitched, b.offset-1
		}
	}
	return m.view(t).topic
}

// readable tells whether the routing log can be read to its end, and that end.
func (m *model) readable(w *world) (end int8, ok bool) {
	if m.rules.lastStable {
		return w.tableAt(w.stable()), true
	}
	return w.tableAt(w.entries), w.quiet()
}

// assignSteps give a partition to a worker, which reads the table to its end
// and begins at the group's commit.
func (m *model) assignSteps(w *world, partition int8) {
	end, ok := m.readable(w)
	if !ok {
		return
	}
	for worker := range int8(workers) {
		n := *w
		p := &n.parts[partition]
		p.owner = worker + 1
		if !m.rules.oldTable {
			m.see(&n, worker, end)
		}
		p.holds = m.rules.assign(m.viewFor(&n, partition), int32(partition))
		start := n.logs[partition].start
		c := p.commit
		p.cursor, p.head = max(c.frontier, start), max(c.frontier, start)
		if c.named {
			p.head = max(c.name, start)
		}
		p.beside = m.besideStart(partition, c)
		m.step(stAssign, uint8(partition), uint8(worker), &n)
	}
}

// besideStart is where the other lane goes on: everything below the watermark
// is done, and what is between is named.
func (m *model) besideStart(partition int8, c commit) int8 {
	if m.scope.beside && partition == 0 && c.watermark == 0 {
		return 0
	}
	return besideDone
}

// cursorStep admits the next record of the log.
func (m *model) cursorStep(w *world, partition int8) {
	p := &w.parts[partition]
	log := &w.logs[partition]
	if p.cursor >= log.end {
		return
	}
	r := log.at[p.cursor]
	if r.kind == aRecord && !(m.scope.lookAhead && p.cursor < p.head+2) {
		return // headStep takes it along
	}
	n := *w
	q := &n.parts[partition]
	if q.head == q.cursor {
		if q.head++; r.kind == aRecord {
			q.head--
		}
	}
	q.cursor++
	if r.kind == aFence {
		m.fenceRead(&n, partition, r.who, p.cursor)
	}
	m.step(stCursor, uint8(partition), 0, &n)
}

func (m *model) fenceRead(w *world, partition int8, who uint8, offset int8) {
	p := &w.parts[partition]
	switch {
	case m.rules.fenceUnread:
	case m.rules.fenceCounts:
		p.believed = place{int8(who) + 1, offset + 1}
	default:
		c := routing.Control{Kind: routing.ControlFence, Move: moveID(who), Unit: routing.Unit{Tenant: string(tenantName)}}
		p.holds.Fence(m.viewFor(w, partition), c, int64(offset))
	}
}

// headStep judges the lane's next record, and handles it if it may run.
func (m *model) headStep(w *world, partition int8) {
	p := &w.parts[partition]
	log := &w.logs[partition]
	if ask, needed := p.holds.Unexplained(); needed {
		m.syncStep(w, partition, ask)
	}
	if p.head < p.cursor && log.at[p.head].kind != aRecord {
		n := *w
		n.parts[partition].head++
		m.step(stHead, uint8(partition), 0, &n)
		return
	}
	if p.head >= log.end || log.at[p.head].kind != aRecord {
		return
	}
	end, quiet := m.readable(w)
	worker := p.owner - 1
	toEnd := quiet && w.views[worker] >= end || m.rules.neverRefresh ||
		m.rules.counterOnly && uint64(log.at[p.head].epoch) <= m.viewFor(w, partition).Epoch()
	var room [maxMoves]Home
	verdict, homes := p.holds.Judge(m.viewFor(w, partition), w.placed(partition, p.head), toEnd, room[:0])
	switch verdict {
	case Refresh:
		m.syncStep(w, partition, 0)
	case Hold:
	case Quarantine:
		m.asideStep(w, partition)
	case Run:
		homes = m.rules.homes(homes)
		if len(Undone(homes, 0, func(q int32) (GroupCommit, bool) { return m.evidence(w, int8(q)), true })) == 0 {
			m.handleStep(w, partition)
		}
	}
}

// syncStep reads the table to its end.
func (m *model) syncStep(w *world, partition int8, ask uint64) {
	end, ok := m.readable(w)
	if !ok {
		return
	}
	n := *w
	p := &n.parts[partition]
	m.see(&n, p.owner-1, end)
	ended := ask > 0 && p.holds.Synced(m.viewFor(&n, partition), ask)
	if _, still := p.holds.Unexplained(); still && ask > 0 {
		panic("a table read to its end does not explain a fence")
	}
	if ended || ask > 0 || n.views[p.owner-1] != w.views[p.owner-1] {
		m.step(stSync, uint8(partition), 0, &n)
	}
}

// evidence is the group's commit.
func (m *model) evidence(w *world, partition int8) GroupCommit {
	p := &w.parts[partition]
	if m.rules.handOver && p.owner > 0 {
		return GroupCommit{Watermark: int64(p.head)}
	}
	c := p.commit
	return GroupCommit{
		Watermark: int64(c.watermark), Valid: true, Frontier: int64(c.frontier),
		Names: func(uint32) (int64, bool) { return int64(c.name), c.named && !m.rules.namesIgnored },
	}
}

func (q *owned) pass() {
	q.head++
	q.cursor = max(q.cursor, q.head)
}

func (m *model) asideStep(w *world, partition int8) {
	n := *w
	q := &n.parts[partition]
	log := &n.logs[partition]
	r := &log.at[q.head]
	r.aside = true
	if rec := &n.prods[r.who].records[r.seq]; rec.state == acknowledged && rec.home == partition && rec.offset == q.head {
		m.broken("I1", "an acknowledged record was set aside")
	}
	if f := m.scope.faults; f.expire+f.crashProducer == 0 {
		m.broken("I1", "a record was set aside although every producer was waited for")
	}
	if m.rules.forward {
		v := m.viewOf(&n, n.tableAt(n.entries))
		n.logs[v.home].append(logged{kind: aRecord, who: r.who, seq: r.seq, epoch: v.epoch})
	}
	q.pass()
	m.step(stAside, uint8(partition), 0, &n)
}

func (m *model) handleStep(w *world, partition int8) {
	n := *w
	q := &n.parts[partition]
	r := n.logs[partition].at[q.head]
	m.handle(&n, r.who, r.seq, place{partition + 1, q.head + 1})
	q.pass()
	m.step(stHandle, uint8(partition), 0, &n)
}

// handle checks the order. A later record that was handled before comes again
// only if it lies behind this one in the same log.
func (m *model) handle(w *world, who, seq uint8, at place) {
	own := &w.handled[who]
	for i, other := range own {
		switch {
		case other.partition == 0 || i < int(seq):
		case i == int(seq) && other != at:
			m.broken("I2", "a record was handled in two places")
		case i > int(seq) && (other.partition != at.partition || other.offset < at.offset):
			m.broken("I2", "a record was handled after a later one")
		}
	}
	own[seq] = at
}

func (m *model) besideStep(w *world, partition int8) {
	if w.parts[partition].beside == besideDone {
		return
	}
	n := *w
	n.parts[partition].beside = besideDone
	m.step(stBeside, uint8(partition), 0, &n)
}

func (m *model) commitStep(w *world, partition int8) {
	p := &w.parts[partition]
	fence := int8(besideDone)
	if at, ok := p.holds.Unfinished(); ok && !m.rules.fencePassed {
		fence = int8(at)
	}
	c := commit{watermark: min(p.head, p.beside, fence), frontier: min(p.cursor, fence)}
	if p.head < c.frontier {
		c.name, c.named = p.head, true
	}
	if c == p.commit {
		return
	}
	n := *w
	n.parts[partition].commit = c
	m.step(stCommit, uint8(partition), 0, &n)
}
