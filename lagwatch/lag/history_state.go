package lag

// Points returns the history as (unix milliseconds, offset) pairs, oldest
// first, thinned to at most n points of about equal ratios of age.
func (h *History) Points(n int) [][2]int64 {
	thinned := History{points: append([]point(nil), h.points...)}
	for len(thinned.points) > max(n, 2) {
		thinned.thin(thinned.points[len(thinned.points)-1].at + 1)
	}
	out := make([][2]int64, len(thinned.points))
	for i, p := range thinned.points {
		out[i] = [2]int64{p.at, p.offset}
	}
	return out
}

// LogState is a Log as plain data, for a file.
type LogState struct {
	Ends   [][2]int64 `json:"ends"`
	Stable [3]int64   `json:"stable"` // offset, since, the end at that time
	EndAt  int64      `json:"end_at"`
	Starts [4]int64   `json:"starts"`
}

// statePoints is how many points of a history a file keeps.
const statePoints = 12

// State returns the log as plain data, independent of it.
func (l *Log) State() LogState {
	return LogState{
		Ends: l.ends.Points(statePoints), Stable: [3]int64{l.stable, l.stableAt, l.stableEnd}, EndAt: l.endAt,
		Starts: [4]int64{l.startRefs[0].at, l.startRefs[0].offset, l.startRefs[1].at, l.startRefs[1].offset},
	}
}

// Restore makes a fresh log go on where another one was. A state without a
// history restores nothing.
func (l *Log) Restore(s LogState) {
	for _, p := range s.Ends {
		l.ends.add(point{p[0], p[1]})
	}
	if len(l.ends.points) == 0 {
		return
	}
	last := l.ends.points[len(l.ends.points)-1]
	l.lastEnd, l.endAt, l.start, l.seen = last.offset, s.EndAt, s.Starts[3], true
	l.stable, l.stableAt, l.stableEnd = s.Stable[0], s.Stable[1], s.Stable[2]
	l.startRefs = [2]point{{s.Starts[0], s.Starts[1]}, {s.Starts[2], s.Starts[3]}}
}
