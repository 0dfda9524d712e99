package lane

import "time"

// alarm is one entity's place in the timers: 0 when it is not set, so that the
// zero value is ready, and one more than the index otherwise.
type alarm struct{ at int32 }

func (a alarm) set() bool { return a.at > 0 }

// timers are the moments at which lanes in back-off and tenants and tiers over
// their rates become runnable, in one heap: a thousand tenants in retry cost a
// thousand entries and no goroutine.
type timers []timer

type timer struct {
	due time.Duration
	a   *alarm
	of  any // *tier, *tenant or *lane[R]
}

// set arms an alarm, or moves it.
func (h *timers) set(a *alarm, due time.Duration, of any) {
	if !a.set() {
		*h = append(*h, timer{due: due, a: a, of: of})
		a.at = int32(len(*h))
		h.up(len(*h) - 1)
		return
	}
	i := int(a.at) - 1
	(*h)[i].due = due
	h.up(i)
	h.down(int(a.at) - 1)
}

// stop disarms an alarm if it is armed.
func (h *timers) stop(a *alarm) {
	if !a.set() {
		return
	}
	i, last := int(a.at)-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = timer{}
	*h = (*h)[:last]
	a.at = 0
	if i < last {
		h.up(i)
		h.down(i)
	}
}

// expired takes out the earliest timer if its time has come, or returns nil.
func (h *timers) expired(now time.Duration) any {
	if len(*h) == 0 || (*h)[0].due > now {
		return nil
	}
	t := (*h)[0]
	h.stop(t.a)
	return t.of
}

func (h timers) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].a.at, h[j].a.at = int32(i+1), int32(j+1)
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
