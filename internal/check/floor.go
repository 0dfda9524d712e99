package check

import "github.com/tenantlane/tenantlane/consumer/offset"

// partition is what is known of one partition's commits.
type partition struct {
	last   Commit // the highest, by any process
	owners map[int32]*owner
}

// owner is one process's assignments of the partition: the present one and,
// for a handler that returns late, the one before.
type owner struct {
	known             bool
	assignment, older uint64
	floor, olderFloor Commit // what is said to be done, so that the assignment repeats nothing of it
}

// commit takes an acknowledged commit by process, which raises its own floor
// at once and everybody else's with their next assignment.
func (p *partition) commit(process int32, c Commit) {
	c.Frontier = max(c.Frontier, c.Offset)
	o := p.owner(process)
	p.last, o.floor = p.last.then(c), o.floor.then(c)
}

// then is what is said after a later commit. One that goes back says nothing: the
// group did not take it.
func (c Commit) then(later Commit) Commit {
	if later.Offset < c.Offset {
		return c
	}
	return later
}

// begin begins an assignment that was not heard of. What a worker that does not
// go by the names of the last commit may repeat is all from its offset on.
func (p *partition) begin(process int32, assignment uint64, named bool) {
	o := p.owner(process)
	if o.known && assignment <= o.assignment {
		return
	}
	o.older, o.olderFloor = o.assignment, o.floor
	o.known, o.assignment = true, assignment
	from := p.last
	if !named {
		from.Frontier, from.Lanes = from.Offset, nil
		o.floor.Frontier, o.floor.Lanes = o.floor.Offset, nil
	}
	o.floor = o.floor.then(from)
}

// said is what process may not repeat in this assignment. It is fixed by the
// commits that came before the assignment was first heard of, and its own.
func (p *partition) said(process int32, assignment uint64) Commit {
	p.begin(process, assignment, false)
	switch o := p.owner(process); assignment {
	case o.assignment:
		return o.floor
	case o.older:
		return o.olderFloor
	}
	return Commit{} // a handler that returned two assignments late: cannot tell
}

// done tells whether the commit says that a record is done. A lane whose name is
// no tenant's, such as a part of one, may be anybody's.
func (c *Commit) done(h *Handling, tenants map[uint32]struct{}) bool {
	if h.Offset < c.Offset || h.Offset >= c.Frontier {
		return h.Offset < c.Offset
	}
	name := offset.Name([]byte(h.Tenant))
	for _, l := range c.Lanes {
		if _, known := tenants[l.Name]; l.Offset <= h.Offset && (l.Name == name || !known) {
			return false
		}
	}
	return true
}

func (p *partition) owner(process int32) *owner {
	o := p.owners[process]
	if o == nil {
		o = &owner{}
		p.owners[process] = o
	}
	return o
}
