package lane

import "time"

// timer is the next moment at which a lane in back-off or a tenant or tier
// over its rate becomes runnable. All of a scheduler's are in one heap, so that
// a thousand tenants in retry cost a thousand heap entries and no goroutine.
type timer struct {
	due time.Duration
	pos int32 // in timers, or -1
	of  any   // *tier, *tenant or *lane[R]
}

type timers []*timer

// set arms t, or moves it.
func (h *timers) set(t *timer, due time.Duration) {
	if t.pos < 0 {
		*h = append(*h, t)
		t.pos = int32(len(*h) - 1)
		t.due = due
		h.up(int(t.pos))
		return
	}
	earlier := due < t.due
	t.due = due
	if earlier {
		h.up(int(t.pos))
	} else {
		h.down(int(t.pos))
	}
}

// stop disarms t if it is armed.
func (h *timers) stop(t *timer) {
	if t.pos < 0 {
		return
	}
	i, last := int(t.pos), len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	t.pos = -1
	if i < last {
		h.up(i)
		h.down(i)
	}
}

// due returns the earliest timer if its time has come.
func (h *timers) expired(now time.Duration) *timer {
	if len(*h) == 0 || (*h)[0].due > now {
		return nil
	}
	t := (*h)[0]
	h.stop(t)
	return t
}

func (h timers) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = int32(i), int32(j)
}

func (h timers) up(i int) {
	for i > 0 && h[i].due < h[(i-1)/2].due {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h timers) down(i int) {
	for {
		m := 2*i + 1
		if m >= len(h) {
			return
		}
		if m+1 < len(h) && h[m+1].due < h[m].due {
			m++
		}
		if h[i].due <= h[m].due {
			return
		}
		h.swap(i, m)
		i = m
	}
}
