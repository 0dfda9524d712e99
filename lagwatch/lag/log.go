package lag

import "time"

// Log is what is remembered of one partition's log, shared by all groups that
// read it. The zero value is ready.
type Log struct {
	ends      History
	stable    int64
	stableAt  int64 // when the stable offset last moved
	stableEnd int64 // the end at that time
	endAt     int64 // when the end last moved
	lastEnd   int64
	seen      bool
	// startRefs are two older log starts, 2 to 4 hours apart from now, for the
	// speed of retention.
	startRefs [2]point
	start     int64
}

// startRefSpan is how often the older log start is replaced.
const startRefSpan = 2 * time.Hour

// Observe records one answer. Stable is None when it was not asked.
func (l *Log) Observe(at time.Time, start, end, stable int64) {
	now := at.UnixMilli()
	l.ends.Add(at, end)
	if !l.seen {
		l.startRefs = [2]point{{now, start}, {now, start}}
	}
	if !l.seen || end != l.lastEnd {
		l.lastEnd, l.endAt = end, now
	}
	if !l.seen || stable != l.stable {
		l.stable, l.stableAt, l.stableEnd = stable, now, end
	}
	if millis(now-l.startRefs[1].at) >= startRefSpan {
		l.startRefs[0], l.startRefs[1] = l.startRefs[1], point{now, start}
	}
	l.start, l.seen = start, true
}

// Seed records the end that the log had at an earlier time.
func (l *Log) Seed(at time.Time, end int64) { l.ends.Seed(at, end) }

// Reset forgets everything.
func (l *Log) Reset() {
	l.ends.Reset()
	*l = Log{ends: l.ends}
}

// Delay is History.Delay of the log's end.
func (l *Log) Delay(at time.Time, offset int64) (d time.Duration, bound bool) {
	return l.ends.Delay(at, offset)
}

// LossIn is the time until the log start passes the commit: what is left of
// the retention time, or the distance divided by the speed at which the start
// moved over the last 2 to 4 hours, whichever is less; negative when neither
// is known or nothing waits.
func (l *Log) LossIn(at time.Time, commit int64, retention time.Duration) time.Duration {
	left := time.Duration(-1)
	if !l.seen || commit == None || commit >= l.lastEnd {
		return left
	}
	if retention > 0 {
		d, _ := l.Delay(at, commit)
		left = max(retention-d, 0)
	}
	span := at.UnixMilli() - l.startRefs[0].at
	moved := l.start - l.startRefs[0].offset
	if millis(span) >= startRefSpan && moved > 0 {
		byStart := time.Duration(float64(millis(span)) * float64(max(commit-l.start, 0)) / float64(moved))
		if left < 0 || byStart < left {
			left = byStart
		}
	}
	return left
}

// Hanging is true when the last stable offset has not moved for that long (0:
// never) while the high watermark grew: a transaction that is not ended.
func (l *Log) Hanging(at time.Time, after time.Duration) bool {
	return after > 0 && l.seen && l.stable != None && l.stable < l.lastEnd && l.lastEnd > l.stableEnd &&
		millis(at.UnixMilli()-l.stableAt) >= after
}

// End is the last end that was told; false before any was.
func (l *Log) End() (int64, bool) { return l.lastEnd, l.seen }

// Quiet is true when the end has not moved for 10 minutes.
func (l *Log) Quiet(at time.Time) bool {
	return l.seen && millis(at.UnixMilli()-l.endAt) >= idleAfter
}
