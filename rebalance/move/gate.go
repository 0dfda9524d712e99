package move

// Gate is one unit at one producer: whether its new records may go. No timer
// opens it.
//
//	         the table has an open move of the unit:
//	         closing ─▶ nothing in flight, failures confirmed ─▶ acknowledged ─┐
//	        ╱                                                                  │ switched
//	open ──┤                                                                   ├ or aborted ─▶ open
//	        ╲                                                                  │
//	         records of an earlier registration are in flight, or late:        │
//	         answered ─▶ decided by Late ─▶ those behind a fence are queued ───┘
//
// Its shell keeps the records that wait in the order of their sequence, those to
// be sent again among them, so that they leave before anything newer. A late
// record is not in flight: where it lies is known, so that a move does not wait
// for it.
//
// The zero value is open. It belongs to one goroutine at a time, or to a mutex;
// a copy is independent.
type Gate struct {
	inFlight int64  // sent, not answered
	late     int64  // answered, not decided
	term     uint64 // registration under which what is in flight was sent
	moving   bool
	trailing bool // some are in flight from an earlier registration, or late
}

// Open tells whether new records may go.
func (g *Gate) Open() bool { return !g.moving && !g.trailing }

// Idle tells whether the gate says no more than a new one.
func (g *Gate) Idle() bool { return g.Open() && g.inFlight == 0 }

// InFlight counts what was sent and not answered.
func (g *Gate) InFlight() int64 { return g.inFlight }

// Enter counts a record that goes out under a registration of the session, which
// are counted, by a table read after the lease of that registration was seen to
// hold. It is false, and nothing is counted, if the record must wait. While
// records of an earlier registration are in flight that is so even without an
// open move: one may have passed over the session, and if they turn out to lie
// behind its fence they must be sent again before this one.
func (g *Gate) Enter(term uint64) bool {
	if g.inFlight > 0 && g.term != term {
		g.trailing = true
	}
	if !g.Open() {
		return false
	}
	g.inFlight++
	g.term = term
	return true
}

// Leave takes Enter back, for a record that was not sent.
func (g *Gate) Leave() {
	g.inFlight--
	g.settle()
}

// Move takes from each newer table whether it has an open move of the unit.
func (g *Gate) Move(open bool) { g.moving = open }

// Answered notes that a record in flight was written, InTime or late, or that it
// failed, which counts as in time: its application is told. Of a late record the
// promise is kept back until Late has decided.
func (g *Gate) Answered(inTime bool) {
	g.inFlight--
	if !inTime {
		g.late++
		g.trailing = true
	}
	g.settle()
}

// Decided notes what Late said of one record. One that Late told to send again
// is in the queue by now.
func (g *Gate) Decided(v LateVerdict) {
	if v != Wait {
		g.late--
		g.settle()
	}
}

func (g *Gate) settle() {
	if g.inFlight == 0 && g.late == 0 {
		g.trailing = false
	}
}

// Drained tells whether the open move's wait for this unit is over, once a
// barrier has confirmed what failed since. It stays so until the move has ended.
func (g *Gate) Drained() bool { return g.moving && g.inFlight == 0 }
