package offset

// Name is the 32-bit name of a lane in a commit: FNV-1a of 64 bits over its
// order key, the upper half folded onto the lower. Two keys of one name cost
// repeats after a crash, nothing else.
func Name(key []byte) uint32 {
	const (
		basis = 14695981039346656037
		prime = 1099511628211
	)
	h := uint64(basis)
	for _, b := range key {
		h = (h ^ uint64(b)) * prime
	}
	return uint32(h>>32) ^ uint32(h)
}

// Lane is one lane with unfinished records.
type Lane struct {
	Name   uint32 // Name of its order key
	Offset int64  // its first unfinished offset
	Parked bool   // stopped for its first record, until an operator resumes it
	Paused bool   // its tenant is paused
	// AtLeast: no record of the lane is known to be at Offset; its first
	// unfinished one is there or above. So it is with lanes whose next record
	// was skipped and not read again yet.
	AtLeast bool
}

// State is how far a partition is done: everything below Frontier, except in
// the named lanes from their offset on.
type State struct {
	Watermark int64  // the first unfinished offset
	Frontier  int64  // at least Watermark
	Lanes     []Lane // ascending by offset, all in [Watermark, Frontier)
}

// Runnable is the smallest unfinished offset among the frontier and the named
// lanes that are neither parked nor paused: runnable lag is the end minus this.
func (s State) Runnable() int64 {
	for _, l := range s.Lanes {
		if !l.Parked && !l.Paused {
			return l.Offset
		}
	}
	return s.Frontier
}

// Done says that the state shows every record of the lane at or below x to be
// done. False may also mean that it is not known.
func (s State) Done(name uint32, x int64) bool {
	if s.Watermark > x {
		return true
	}
	if s.Frontier <= x {
		return false
	}
	for _, l := range s.Lanes {
		if l.Name == name && l.Offset <= x {
			return false
		}
	}
	return true
}

// cut returns the state with the first n names only: the frontier moves down to
// the first lane that is no longer named.
func (s State) cut(n int) State {
	if n < len(s.Lanes) {
		s.Frontier = s.Lanes[n].Offset
		s.Lanes = s.Lanes[:n]
	}
	return s
}
