package check

// partition is what is known of one partition's commits.
type partition struct {
	committed int64 // highest, by any process
	owners    map[int32]*owner
}

// owner is one process's assignments of the partition: the present one and,
// for a handler that returns late, the one before.
type owner struct {
	known             bool
	assignment, older uint64
	floor, olderFloor int64 // offsets below which the assignment repeats nothing
}

// commit takes an acknowledged commit by process, which raises its own floor
// at once and everybody else's with their next assignment.
func (p *partition) commit(process int32, offset int64) {
	p.committed = max(p.committed, offset)
	o := p.owner(process)
	o.floor = max(o.floor, offset)
}

// floor is the lowest offset that process may handle in this assignment. It
// is fixed by the commits that came before the assignment was first heard of.
func (p *partition) floor(process int32, assignment uint64) int64 {
	o := p.owner(process)
	switch {
	case o.known && assignment == o.assignment:
		return o.floor
	case o.known && assignment < o.assignment && assignment == o.older:
		return o.olderFloor
	case o.known && assignment < o.assignment:
		return 0 // a handler that returned two assignments late: cannot tell
	}
	o.older, o.olderFloor = o.assignment, o.floor
	o.known, o.assignment = true, assignment
	o.floor = max(o.floor, p.committed)
	return o.floor
}

func (p *partition) owner(process int32) *owner {
	o := p.owners[process]
	if o == nil {
		o = &owner{}
		p.owners[process] = o
	}
	return o
}
