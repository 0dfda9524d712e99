package move

// Step is what a producer does next for a unit that it holds back.
type Step uint8

// The steps of Gate.Next, in the order in which they come.
const (
	// Register registers the session anew and reads the table to its end.
	Register Step = iota
	// Settle waits for the answers to what is in flight.
	Settle
	// Confirm writes a barrier where a record failed, and waits for its answer,
	// so that brokers refuse whatever is left of it.
	Confirm
	// Announce acknowledges in the session's lease that the unit is drained.
	Announce
	// Await holds the unit back until the move has ended in the table.
	Await
	// Decide judges the late acknowledgements with Late.
	Decide
	// SendAgain sends what Late dropped, in the order of its sequence.
	SendAgain
	// Open lets new records go, and the gate is done.
	Open
)

// String gives the step's word.
func (s Step) String() string {
	names := [...]string{"register", "settle", "confirm", "announce", "await", "decide", "send again", "open"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// Gate is one unit held back at one producer: for an open move of the unit, or
// because the session's registration ended with records of it in flight. No
// timer opens it.
//
//	                   in flight 0,                    lease with the
//	closing ──────────▶ failures confirmed ─▶ drained ──────────────▶ acknowledged
//	   ▲                                                                  │ switched or aborted
//	   │ a move opens, the registration ends                              ▼
//	   └───────────────────────────────── open ◀── late ones judged, dropped ones sent again
//
// It belongs to one goroutine at a time. A copy is independent.
type Gate struct {
	move     string // open move of the unit; empty: none
	inFlight int    // records sent and not answered
	doubt    bool   // one of them failed and may yet be written
	lapsed   bool   // the registration has ended
	late     int    // written, not judged
	again    int    // to be sent again
	told     bool   // the lease says that the unit is drained
}

// Close begins to hold a unit back that has records in flight; doubt tells that
// a record of it failed and nothing was written since. Follow it with See for an
// open move, with Lapse for a registration that has ended, or both.
func Close(inFlight int, doubt bool) Gate { return Gate{inFlight: inFlight, doubt: doubt} }

// Next is what to do now. Each step is done again until an event changes it.
func (g *Gate) Next() Step {
	switch {
	case g.lapsed:
		return Register
	case g.inFlight > 0:
		return Settle
	case g.move != "":
		return g.nextOfMove()
	case g.late > 0:
		return Decide
	case g.again > 0:
		return SendAgain
	}
	return Open
}

func (g *Gate) nextOfMove() Step {
	switch {
	case g.told:
		return Await
	case g.doubt:
		return Confirm
	}
	return Announce
}

// See takes the unit's open move from a newer table; empty is none.
func (g *Gate) See(move string) {
	if g.move == move {
		return
	}
	g.move, g.told = move, false
}

// Lapse notes that the session's registration has ended: the answers to all that
// is in flight come late.
func (g *Gate) Lapse() { g.lapsed = true }

// Registered notes that the session is registered anew and has read the table
// to its end, with the unit's open move in it.
func (g *Gate) Registered(move string) {
	g.lapsed = false
	g.See(move)
}

// Sent notes a record that was sent again.
func (g *Gate) Sent() { g.again, g.inFlight = g.again-1, g.inFlight+1 }

// Answered notes the answer to a record in flight that was written: InTime, or
// late, and then the record is kept.
func (g *Gate) Answered(inTime bool) {
	g.inFlight--
	if !inTime {
		g.late++
	}
}

// Failed notes a record in flight that failed and may yet be written.
func (g *Gate) Failed() { g.inFlight, g.doubt = g.inFlight-1, true }

// Confirmed notes that the barrier was written.
func (g *Gate) Confirmed() { g.doubt = false }

// Announced notes that a lease with the acknowledgement was written.
func (g *Gate) Announced() { g.told = g.move != "" && g.inFlight == 0 && !g.doubt }

// Drained gives the move to acknowledge in each lease from now on; empty is
// none.
func (g *Gate) Drained() string {
	if s := g.Next(); s != Announce && s != Await {
		return ""
	}
	return g.move
}

// Decided notes what Late said of one record.
func (g *Gate) Decided(v LateVerdict) {
	switch v {
	case Wait:
		return
	case Acknowledge:
	case Resend:
		g.again++
	}
	g.late--
}
