package check

import (
	"sync"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

// ID names one sequence: what one producer sent for one tenant. Sequences
// start anywhere (by custom at 1) and need not be gapless: a produce that
// failed leaves a hole.
type ID struct {
	Producer string
	Tenant   string // raw bytes, not necessarily text
}

// Handling is one successful handling of one record.
type Handling struct {
	// Process names one run of a worker process; a restart is another one.
	Process string
	ID
	Seq       uint64
	Partition int32
	Offset    int64
	// Attempt is which try succeeded, from 1.
	Attempt int
	// Assignment counts the times the process was given the partition; it
	// changes when the partition comes back. 0: not known.
	Assignment uint64
	// Unordered says that nobody promised an order for this record (a tenant
	// placed with spread: random); only loss and repeats are judged.
	Unordered bool
}

// Commit is an acknowledged commit: everything of the partition below Offset
// is done, and below Frontier too, except of the named lanes from their offsets
// on.
type Commit struct {
	Partition int32
	Offset    int64
	Frontier  int64  // less than Offset: Offset
	Lanes     []Lane // not changed any more once it was told
}

// Lane is a lane that a commit names.
type Lane struct {
	Name   uint32 // offset.Name of its key, by default of its tenant
	Offset int64  // its first unfinished offset
}

// Assignment says that a process was given a partition.
type Assignment struct {
	Partition int32
	Number    uint64 // of it, among the process's; see Handling.Assignment
	// Named: it goes on from what the last commit says, with its frontier and
	// lanes. Else it begins at the commit's offset.
	Named bool
}

// Checker collects what happened and judges it. Its methods may be called
// from several goroutines; the order of the calls is the order of events.
type Checker struct {
	mu         sync.Mutex // guards all below
	sequences  map[ID]*sequence
	partitions map[int32]*partition
	processes  map[string]int32 // name to number, so that states stay small
	faults     map[*sequence]*faults
	quarantine map[place]struct{}
	names      map[uint32]struct{} // of the tenants' own lanes
	totals     totals
}

// place is where a record lies.
type place struct {
	partition int32
	offset    int64
}

// sequence is the state of one ID.
type sequence struct {
	id       ID
	produced ranges
	handled  ranges
	highest  uint64 // of handled
	runs     []run  // one per process that handled it
}

type totals struct {
	produced, handled, duplicates, allowed, violations, early, acknowledged uint64
}

// New makes an empty Checker.
func New() *Checker {
	return &Checker{
		sequences:  map[ID]*sequence{},
		partitions: map[int32]*partition{},
		processes:  map[string]int32{},
		faults:     map[*sequence]*faults{},
		quarantine: map[place]struct{}{},
		names:      map[uint32]struct{}{},
	}
}

// Produced says that a record was acknowledged to the application that
// produced it, so that it must be handled. Saying it again changes nothing.
func (c *Checker) Produced(id ID, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sequence(id).produced.add(seq) {
		c.totals.produced++
	}
}

// Assigned says that process was given the partition, before the first
// handling of that assignment ended. Without it the assignment begins with its
// first handling, which is late for a worker whose first handler was slow.
func (c *Checker) Assigned(process string, a Assignment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partition(a.Partition).begin(c.process(process), a.Number, a.Named)
}

// Committed says that process got a commit of the partition acknowledged.
func (c *Checker) Committed(process string, commit Commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partition(commit.Partition).commit(c.process(process), commit)
}

// ProducedAt is Produced of a record whose place in the topic is known. A
// record that lies in quarantine must not have been acknowledged there: tell of
// the quarantine first.
func (c *Checker) ProducedAt(h Handling) {
	c.Produced(h.ID, h.Seq)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, aside := c.quarantine[place{h.Partition, h.Offset}]; aside {
		c.totals.acknowledged++
		c.fault(c.sequence(h.ID)).setAside(h)
	}
}

// Quarantined says that the record that lay at an offset of the topic lies in
// the quarantine topic. Saying it again changes nothing: each group sets it
// aside. It is counted and does not count as handled.
func (c *Checker) Quarantined(partition int32, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quarantine[place{partition, offset}] = struct{}{}
}

// IsQuarantined tells whether Quarantined was told of that record.
func (c *Checker) IsQuarantined(partition int32, offset int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.quarantine[place{partition, offset}]
	return ok
}

// Handled judges one handling by what came before it.
func (c *Checker) Handled(h Handling) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sequence(h.ID)
	process := c.process(h.Process)
	said := c.partition(h.Partition).said(process, h.Assignment)
	done := said.done(&h, c.names)
	first := s.handled.add(h.Seq)
	switch {
	case !first:
		c.totals.duplicates++
		if c.fault(s).repeat(h, said, done) {
			c.totals.allowed++
		}
	case done:
		c.totals.handled++
		c.totals.early++
		c.fault(s).earlyCommit(h, said)
	default:
		c.totals.handled++
	}
	if !h.Unordered {
		c.judgeOrder(s, process, h, first)
	}
	s.highest = max(s.highest, h.Seq)
}

// judgeOrder counts at most one violation for a handling.
func (c *Checker) judgeOrder(s *sequence, process int32, h Handling, first bool) {
	ascends := s.run(process).next(h)
	switch {
	case first && h.Seq < s.highest:
		c.totals.violations++
		c.fault(s).overtaken(h, s.highest)
	case !ascends:
		c.totals.violations++
		c.fault(s).fellBack(h)
	}
}

func (c *Checker) sequence(id ID) *sequence {
	s := c.sequences[id]
	if s == nil {
		s = &sequence{id: id}
		c.sequences[id] = s
		c.names[offset.Name([]byte(id.Tenant))] = struct{}{}
	}
	return s
}

func (c *Checker) partition(number int32) *partition {
	p := c.partitions[number]
	if p == nil {
		p = &partition{owners: map[int32]*owner{}}
		c.partitions[number] = p
	}
	return p
}

func (c *Checker) process(name string) int32 {
	number, ok := c.processes[name]
	if !ok {
		number = int32(len(c.processes))
		c.processes[name] = number
	}
	return number
}

func (c *Checker) fault(s *sequence) *faults {
	f := c.faults[s]
	if f == nil {
		f = &faults{}
		c.faults[s] = f
	}
	return f
}
