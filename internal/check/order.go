package check

// run is how far one process has come in one ID, to tell a repeat run that
// ascends from handlings out of order.
type run struct {
	process    int32
	partition  int32
	assignment uint64
	last       uint64 // sequence handled last
	highest    uint64 // sequence this process has reached in any run
	started    bool
	repeating  bool // fell back and has not reached highest again
}

// run is the state of one process; few processes handle one ID.
func (s *sequence) run(process int32) *run {
	for i := range s.runs {
		if s.runs[i].process == process {
			return &s.runs[i]
		}
	}
	s.runs = append(s.runs, run{process: process})
	return &s.runs[len(s.runs)-1]
}

// next moves the run on by one handling and reports whether it ascends. A new
// assignment begins a new run; without assignments, falling back does, unless
// the process is still in a run that began by falling back.
func (r *run) next(h Handling) bool {
	fresh := !r.started || h.Assignment != 0 && (h.Assignment != r.assignment || h.Partition != r.partition)
	back := r.started && h.Seq <= r.last
	ascends := fresh || !back || h.Assignment == 0 && !r.repeating
	switch {
	case fresh:
		r.repeating = false
	case back:
		r.repeating = h.Seq < r.highest
	case h.Seq >= r.highest:
		r.repeating = false
	}
	r.started = true
	r.partition, r.assignment, r.last = h.Partition, h.Assignment, h.Seq
	r.highest = max(r.highest, h.Seq)
	return ascends
}
