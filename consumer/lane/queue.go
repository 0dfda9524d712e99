package lane

// entity is what the scheduler shares time between: a tier, a tenant or a lane,
// as its parent group sees it.
type entity struct {
	v       float64 // virtual time: handler seconds charged, divided by weight
	weight  float64 // share within the group
	pos     int32   // in group.ready, or -1
	debtPos int32   // in group.debt, or -1
	running int32   // grants in hand
	busy    bool    // ready or running
	counted bool    // weight is in group.weight: busy or in debt
	owner   any     // *tier, *tenant or *lane[R]
}

func (e *entity) init(weight float64, owner any) {
	*e = entity{weight: weight, pos: -1, debtPos: -1, owner: owner}
}

// slot keeps the key beside the pointer, so that a sift touches entities only
// to note their new positions.
type slot struct {
	v   float64
	seq uint64
	e   *entity
}

func (a *slot) less(b *slot) bool {
	return a.v < b.v || a.v == b.v && a.seq < b.seq
}

// heap4 is a four-way min-heap. debt chooses which of an entity's two position
// fields it keeps.
type heap4 struct {
	s    []slot
	debt bool
}

func (h *heap4) place(i int, s slot) {
	h.s[i] = s
	if h.debt {
		s.e.debtPos = int32(i)
	} else {
		s.e.pos = int32(i)
	}
}

func (h *heap4) push(s slot) {
	h.s = append(h.s, s)
	h.up(len(h.s)-1, s)
}

// removeAt takes the slot at i out.
func (h *heap4) removeAt(i int) {
	e, last := h.s[i].e, len(h.s)-1
	s := h.s[last]
	h.s[last] = slot{}
	h.s = h.s[:last]
	if i != last {
		h.fix(i, s)
	}
	if h.debt {
		e.debtPos = -1
	} else {
		e.pos = -1
	}
}

// fix puts s at i, where another slot was, and restores the order.
func (h *heap4) fix(i int, s slot) {
	if i > 0 && s.less(&h.s[(i-1)/4]) {
		h.up(i, s)
		return
	}
	h.down(i, s)
}

func (h *heap4) up(i int, s slot) {
	for i > 0 {
		p := (i - 1) / 4
		if !s.less(&h.s[p]) {
			break
		}
		h.place(i, h.s[p])
		i = p
	}
	h.place(i, s)
}

func (h *heap4) down(i int, s slot) {
	n := len(h.s)
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		m := first
		for c := first + 1; c < min(first+4, n); c++ {
			if h.s[c].less(&h.s[m]) {
				m = c
			}
		}
		if !h.s[m].less(&s) {
			break
		}
		h.place(i, h.s[m])
		i = m
	}
	h.place(i, s)
}
