package lane

// entity is what the scheduler shares time between: a tier, a tenant or a lane,
// as its parent group sees it.
type entity struct {
	v       float64 // virtual time: handler seconds charged, divided by weight
	weight  float64 // share within the group
	pos     int32   // in the heap that place names
	running int32   // grants in hand
	place   place
	busy    bool // ready or running
	owner   any  // *tier, *tenant or *lane[R]
}

// place is the heap of its group that an entity is in.
type place uint8

const (
	nowhere place = iota
	inReady
	inDebt
)

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

// heap4 is a four-way min-heap.
type heap4 []slot

func (h heap4) put(i int, s slot) {
	h[i] = s
	s.e.pos = int32(i)
}

func (h *heap4) push(s slot, where place) {
	s.e.place = where
	*h = append(*h, s)
	h.up(len(*h)-1, s)
}

// remove takes e, which is in the heap, out.
func (h *heap4) remove(e *entity) {
	old, last := *h, len(*h)-1
	s := old[last]
	old[last] = slot{}
	*h = old[:last]
	e.place = nowhere
	if i := int(e.pos); i != last {
		h.fix(i, s)
	}
}

// fix puts s at i, where another slot was, and restores the order.
func (h heap4) fix(i int, s slot) {
	if i > 0 && s.less(&h[(i-1)/4]) {
		h.up(i, s)
		return
	}
	h.down(i, s)
}

func (h heap4) up(i int, s slot) {
	for i > 0 {
		p := (i - 1) / 4
		if !s.less(&h[p]) {
			break
		}
		h.put(i, h[p])
		i = p
	}
	h.put(i, s)
}

func (h heap4) down(i int, s slot) {
	n := len(h)
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		m := first
		for c := first + 1; c < min(first+4, n); c++ {
			if h[c].less(&h[m]) {
				m = c
			}
		}
		if !h[m].less(&s) {
			break
		}
		h.put(i, h[m])
		i = m
	}
	h.put(i, s)
}
