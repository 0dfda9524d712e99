package move

// producer is one producer and its session.
type producer struct {
	life        life
	registering bool
	leased      bool  // by its own clocks; nobody may take the lease to be over before it ends
	doubt       bool  // a record failed since the last one that was written
	at          int8  // position in the routing log
	registered  int8  // where its latest registration is
	generation  uint8 // registrations so far
	next        uint8 // record to send
	told        uint8 // moves that its leases acknowledge, a bit each
	gate        Gate
	records     [maxRecords]record
}

type life uint8

const (
	off life = iota
	up
	dead
)

// record is a record as its producer knows it.
type record struct {
	state      recordState
	home       int8
	offset     int8 // where it landed
	epoch      uint8
	generation uint8
}

type recordState uint8

const (
	unsent       recordState = iota
	flying                   // on its way
	landed                   // written, unanswered
	late                     // answered too late
	again                    // to be sent again
	acknowledged             // the application was told
	failed                   // the application was told that it failed; it is written, or never will be
	ghost                    // failed, and may yet be written
)

// usable tells whether the session's lease holds.
func (p *producer) usable() bool { return p.life == up && p.leased && !p.registering }

// sees takes a table.
func (p *producer) sees(v view) { p.gate.Move(v.open != "") }

func (m *model) producerSteps(w *world) {
	for i := range w.prods[:m.scope.producers] {
		who := uint8(i)
		p := &w.prods[i]
		m.registerSteps(w, who)
		m.recordSteps(w, who)
		if p.life != up {
			continue
		}
		m.viewSteps(w, who)
		m.sendStep(w, who)
		m.gateSteps(w, who)
		if w.faults.expire > 0 && p.leased && p.generation > 0 {
			n := *w
			n.faults.expire--
			n.prods[i].leased = false
			m.fault(stExpire, who, 0, &n)
		}
		if w.faults.crashProducer > 0 {
			n := *w
			n.faults.crashProducer--
			m.crashProducer(&n.prods[i])
			m.fault(stCrashProducer, who, 0, &n)
		}
	}
}

func (m *model) crashProducer(p *producer) {
	records := p.records
	*p = producer{life: dead, at: p.at, told: p.told, registered: p.registered, records: records}
	for j := range p.records {
		switch r := &p.records[j]; r.state {
		case flying, ghost:
			r.state = ghost
		case acknowledged:
		case unsent, landed, late, again, failed:
			r.state = failed
		}
	}
}

func (m *model) registerSteps(w *world, who uint8) {
	p := &w.prods[who]
	switch {
	case p.life == dead || w.entries == maxEntries:
	case p.life == up && p.registering:
		m.registeredStep(w, who)
	case p.life == off, p.life == up && !p.leased:
		n := *w
		q := &n.prods[who]
		q.registering, q.leased, q.registered = true, true, n.entries
		q.life = up
		n.appendEntry(entry{kind: ofSession, who: who})
		m.step(stRegister, who, 0, &n)
	}
}

// registeredStep ends a registration: its own record was read.
func (m *model) registeredStep(w *world, who uint8) {
	stable := w.stable()
	if stable <= w.prods[who].registered && !m.rules.lastStable {
		return
	}
	n := *w
	p := &n.prods[who]
	p.registering = false
	if !p.leased { // it ended meanwhile: once more
		m.step(stRegistered, who, 1, &n)
		return
	}
	p.generation++
	p.at = max(p.at, w.tableAt(min(p.registered+1, stable)))
	p.sees(m.viewOf(&n, p.at))
	m.step(stRegistered, who, 0, &n)
}

// viewSteps read on, over one table or several at once.
func (m *model) viewSteps(w *world, who uint8) {
	for at := w.prods[who].at; at < w.stable(); at++ {
		if w.tableAt(at+1) != at+1 {
			continue
		}
		n := *w
		p := &n.prods[who]
		p.at = at + 1
		p.sees(m.viewOf(&n, p.at))
		m.step(stView, who, uint8(at), &n)
	}
}

// sendStep sends what is to be sent again, or the next record.
func (m *model) sendStep(w *world, who uint8) {
	p := &w.prods[who]
	if !p.usable() || p.gate.InFlight() >= int64(m.scope.inFlight) {
		return
	}
	seq, resent := p.first(again)
	if !resent || m.rules.newFirst && int(p.next) < m.scope.records {
		if seq, resent = p.next, false; int(seq) >= m.scope.records {
			return
		}
	}
	n := *w
	q := &n.prods[who]
	if m.rules.timer {
		q.gate.moving = false
	}
	term := uint64(q.generation)
	if m.rules.lapseUnnoticed {
		term = q.gate.term
	}
	if !q.gate.Enter(term) {
		return // that it has tried changes nothing for others
	}
	v := m.viewOf(w, q.at)
	q.records[seq] = record{state: flying, home: v.home, epoch: v.epoch, generation: q.generation}
	if !resent {
		q.next++
	}
	m.step(stSend, who, seq, &n)
}

func (m *model) recordSteps(w *world, who uint8) {
	p := &w.prods[who]
	for i, r := range p.records {
		seq := uint8(i)
		switch r.state {
		case flying:
			m.landStep(w, who, seq)
			m.failStep(w, who, seq)
		case ghost:
			m.landStep(w, who, seq)
		case landed:
			m.answerStep(w, who, seq)
			m.failStep(w, who, seq)
		case unsent, late, again, acknowledged, failed:
		}
	}
}

// landStep writes a record: those of one producer in their order, and nothing
// of before once a later one is written.
func (m *model) landStep(w *world, who, seq uint8) {
	r := w.prods[who].records[seq]
	for i, before := range w.prods[who].records {
		if before.state == flying && before.home == r.home && i < int(seq) {
			return
		}
	}
	n := *w
	p := &n.prods[who]
	offset := n.logs[r.home].append(logged{kind: aRecord, who: who, seq: seq, epoch: r.epoch})
	p.records[seq].offset = offset
	p.bury(r.home, int(seq))
	if r.state == ghost {
		p.records[seq].state = failed
		m.fault(stLand, who, seq, &n)
		return
	}
	p.records[seq].state = landed
	m.step(stLand, who, seq, &n)
}

// bury ends what failed before a record that was written now: the client has
// raised its epoch since.
func (p *producer) bury(home int8, before int) {
	for i := range p.records {
		if r := &p.records[i]; r.state == ghost && r.home == home && i < before {
			r.state = failed
		}
	}
}

func (m *model) answerStep(w *world, who, seq uint8) {
	n := *w
	p := &n.prods[who]
	r := &p.records[seq]
	inTime := m.rules.inTime(r.generation, p.generation, p.usable())
	p.gate.Answered(inTime)
	if r.state = late; inTime {
		_, doubt := p.first(ghost) // promises of a partition come in order
		p.doubt = p.doubt && doubt
		m.acknowledge(&n, who, seq)
	}
	m.step(stAnswer, who, seq, &n)
}

// acknowledge tells the application that a record is written.
func (m *model) acknowledge(w *world, who, seq uint8) {
	r := &w.prods[who].records[seq]
	r.state = acknowledged
	if w.logs[r.home].at[r.offset].aside {
		m.broken("I1", "a record in quarantine was acknowledged")
	}
}

func (m *model) failStep(w *world, who, seq uint8) {
	if w.faults.fail == 0 || w.prods[who].life != up {
		return
	}
	n := *w
	n.faults.fail--
	p := &n.prods[who]
	r := &p.records[seq]
	if r.state == flying {
		r.state = ghost
	} else {
		r.state = failed
	}
	p.doubt = true
	p.gate.Answered(true)
	m.fault(stFail, who, seq, &n)
}

// gateSteps do what the gate says.
func (m *model) gateSteps(w *world, who uint8) {
	p := &w.prods[who]
	if p.gate.late > 0 && (p.usable() || m.rules.judgeUnregistered) {
		m.decideStep(w, who)
	}
	v := m.viewOf(w, p.at)
	if v.open == "" || !p.gate.Drained() {
		return
	}
	n := *w
	q := &n.prods[who]
	switch bit := uint8(1) << moveWho(v.open); {
	case p.told&bit != 0:
	case p.doubt && !m.rules.noBarrier:
		n.logs[v.home].append(logged{kind: aBarrier})
		q.bury(v.home, maxRecords)
		q.doubt = false
		m.step(stConfirm, who, 0, &n)
	case p.usable():
		q.told |= bit
		m.step(stAnnounce, who, 0, &n)
	}
}

func (m *model) decideStep(w *world, who uint8) {
	n := *w
	p := &n.prods[who]
	seq, _ := p.first(late)
	r := &p.records[seq]
	v := m.rules.late(m.viewOf(&n, p.at).topic, w.placed(r.home, r.offset))
	if v == Wait {
		return
	}
	p.gate.Decided(v)
	if r.state = again; v == Acknowledge {
		m.acknowledge(&n, who, seq)
	}
	m.step(stDecide, who, seq, &n)
}

func (p *producer) first(s recordState) (seq uint8, ok bool) {
	for i, r := range p.records {
		if r.state == s {
			return uint8(i), true
		}
	}
	return 0, false
}
