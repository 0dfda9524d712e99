package lag

import (
	"slices"
	"time"
)

// usual is the delay that a partition without peers ordinarily has: one value
// each ten minutes over seven days, except while it was slow.
type usual struct {
	delays [usualCap]float32 // seconds
	n      int               // values added in all
	at     int64             // slot of the newest value
	p90    float32
	p90At  int // n when p90 was computed
}

const (
	usualSlot = 10 * time.Minute
	usualCap  = int(7 * 24 * time.Hour / usualSlot)
	usualMin  = int(24 * time.Hour / usualSlot)
	// usualFresh is how many new values make the percentile stale: an hour.
	usualFresh = 6
)

// add records the delay at now; values within one slot count once.
func (u *usual) add(now int64, d time.Duration) {
	slot := now / usualSlot.Milliseconds()
	if slot == u.at {
		return
	}
	u.at = slot
	u.delays[u.n%usualCap] = float32(d.Seconds())
	u.n++
	if u.n >= usualMin && (u.p90At == 0 || u.n-u.p90At >= usualFresh) {
		u.p90, u.p90At = u.percentile90(), u.n
	}
}

func (u *usual) percentile90() float32 {
	sorted := u.delays
	n := min(u.n, usualCap)
	slices.Sort(sorted[:n])
	return sorted[(n-1)*9/10]
}

// limit is the delay above which the partition is slow: 3 × the 90th
// percentile and at least 5 minutes, or maxDelay before a day of history.
func (u *usual) limit(maxDelay time.Duration) time.Duration {
	if u.n < usualMin {
		return maxDelay
	}
	return max(slowFloor, time.Duration(3*float64(u.p90)*float64(time.Second)))
}
