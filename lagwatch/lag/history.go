package lag

import "time"

// historyCap is how many points a History keeps. With spacing proportional to
// age, 40 points reach from 10 seconds to a week at steps of about a third.
const historyCap = 40

type point struct {
	at     int64 // unix milliseconds
	offset int64
}

// History remembers when a growing offset had which value, in fixed memory:
// points get sparser with age, so that the error of a delay stays a small
// share of the delay itself. The zero value is empty and ready.
type History struct {
	points []point // ascending in both fields
}

// Add records that the offset was at the given value at the given time. Times
// that do not advance are ignored; an offset that went back (a truncated log)
// removes what it contradicts.
func (h *History) Add(at time.Time, offset int64) {
	h.add(point{at.UnixMilli(), offset})
}

func (h *History) add(p point) {
	for n := len(h.points); n > 0 && h.points[n-1].offset > p.offset; n-- {
		h.points = h.points[:n-1]
	}
	n := len(h.points)
	if n > 0 && p.at <= h.points[n-1].at {
		return
	}
	if n > 1 && h.points[n-1].offset == p.offset && h.points[n-2].offset == p.offset {
		h.points[n-1].at = p.at // a plateau is its two ends
		return
	}
	if n == historyCap {
		h.thin(p.at)
	}
	if h.points == nil {
		h.points = make([]point, 0, historyCap)
	}
	h.points = append(h.points, p)
}

// Seed records what a broker said about the time before the first point: the
// offset that was the end at that time. It is ignored unless it is older than
// everything known and does not contradict it.
func (h *History) Seed(at time.Time, offset int64) {
	p := point{at.UnixMilli(), offset}
	if len(h.points) == 0 {
		h.add(p)
		return
	}
	if p.at >= h.points[0].at || p.offset > h.points[0].offset || len(h.points) == historyCap {
		return
	}
	h.points = append(h.points, point{})
	copy(h.points[1:], h.points)
	h.points[0] = p
}

// thin removes the inner point whose neighbors are closest together for their
// age.
func (h *History) thin(now int64) {
	best, least := 1, 0.0
	for i := 1; i < len(h.points)-1; i++ {
		span := float64(h.points[i+1].at - h.points[i-1].at)
		age := float64(now - h.points[i].at)
		if score := span / age; i == 1 || score < least {
			best, least = i, score
		}
	}
	h.points = append(h.points[:best], h.points[best+1:]...)
}

// longGap is the time between two points above which nothing is read out of
// what lies between them, unless it is small beside the age of both.
const longGap = 30 * time.Second

// Delay is the age at the given time of the record at offset: 0 when the end
// has not passed it; interpolated between the two points around it; and only a
// lower bound (bound is true) when it is older than the history, or when these
// points lie too far apart to say more. A few asked-for ages after a restart are
// such points: a record of 7 minutes between those of 3 and 15 is not 15 old.
func (h *History) Delay(at time.Time, offset int64) (d time.Duration, bound bool) {
	n := len(h.points)
	if n == 0 {
		return 0, true
	}
	if offset >= h.points[n-1].offset {
		return 0, false
	}
	now := at.UnixMilli()
	i := h.firstAbove(offset)
	if i == 0 {
		return millis(now - h.points[0].at), true
	}
	a, b := h.points[i-1], h.points[i]
	if gap := b.at - a.at; gap > longGap.Milliseconds() && gap > now-b.at {
		return millis(max(now-b.at, 0)), true
	}
	share := float64(offset-a.offset) / float64(b.offset-a.offset)
	born := a.at + int64(share*float64(b.at-a.at))
	return millis(max(now-born, 0)), false
}

// firstAbove is the index of the first point whose offset is above offset.
func (h *History) firstAbove(offset int64) int {
	lo, hi := 0, len(h.points)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if h.points[mid].offset <= offset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Reset forgets everything, as when a topic was deleted and made again.
func (h *History) Reset() { h.points = h.points[:0] }

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
