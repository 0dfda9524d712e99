package check

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

// step is one call of a Checker, so that histories can be changed and judged
// again, by the Checker and by its naive twin.
type step struct {
	kind  Kind
	h     Handling // KindProduced, KindHandled, KindAssigned; KindCommit: Process and Partition
	said  Commit   // KindCommit
	named bool     // KindAssigned
}

func replay(steps []step) Report {
	c := New()
	for _, s := range steps {
		switch s.kind {
		case KindProduced:
			c.Produced(s.h.ID, s.h.Seq)
		case KindHandled:
			c.Handled(s.h)
		case KindAssigned:
			c.Assigned(s.h.Process, Assignment{s.h.Partition, s.h.Assignment, s.named})
		case KindCommit:
			c.Committed(s.h.Process, s.said)
		}
	}
	return c.Report()
}

// cluster is a model of workers that keep the promise: lanes run in order and
// interleave at will, a commit is the first undone offset, a crash or a lost
// partition forgets what was done since.
type cluster struct {
	t          *rapid.T
	numbered   bool // handlings carry their assignment
	partitions []*modelPartition
	processes  int
	steps      []step
}

type modelPartition struct {
	records    []Handling    // in offset order
	said       Commit        // of the last commit
	lanes      []offset.Lane // that it names
	owner      string        // "" for none
	assignment uint64
	next       map[ID]int // index into records of each lane's next record
	done       []bool     // in this assignment
}

// promise draws a correct history: everything is handled in the end.
func promise(t *rapid.T, numbered bool) []step {
	c := &cluster{t: t, numbered: numbered}
	c.produce(rapid.IntRange(1, 3).Draw(t, "partitions"), rapid.IntRange(1, 30).Draw(t, "records"))
	for range rapid.IntRange(0, 120).Draw(t, "actions") {
		p := c.partitions[rapid.IntRange(0, len(c.partitions)-1).Draw(t, "partition")]
		switch rapid.IntRange(0, 19).Draw(t, "action") {
		case 0:
			p.owner = "" // a crash, or a partition lost without a commit
		case 1:
			c.commit(p)
			p.owner = "" // handed over
		case 2, 3, 4:
			c.commit(p)
		default:
			c.handle(p)
		}
	}
	for _, p := range c.partitions {
		for c.handle(p) {
		}
	}
	return c.steps
}

func (c *cluster) produce(partitions, records int) {
	for number := range partitions {
		p := &modelPartition{}
		sequences, offset := map[ID]uint64{}, int64(0)
		for range records {
			offset += int64(rapid.IntRange(1, 3).Draw(c.t, "gap"))
			id := ID{"p", fmt.Sprintf("t%d-%d", number, rapid.IntRange(0, 2).Draw(c.t, "tenant"))}
			sequences[id]++
			p.records = append(p.records, Handling{ID: id, Seq: sequences[id], Partition: int32(number), Offset: offset, Attempt: 1})
			c.steps = append(c.steps, step{kind: KindProduced, h: p.records[len(p.records)-1]})
		}
		c.partitions = append(c.partitions, p)
	}
}

// own gives an ownerless partition to a process. Without numbers a process
// never gets a partition twice, for then nobody could tell its runs apart.
func (c *cluster) own(p *modelPartition) {
	if p.owner != "" {
		return
	}
	if !c.numbered || c.processes == 0 || rapid.Bool().Draw(c.t, "new process") {
		c.processes++
	}
	p.owner = fmt.Sprintf("w%d", c.processes)
	if c.numbered {
		p.assignment++
	}
	p.next, p.done = map[ID]int{}, make([]bool, len(p.records))
	named := c.numbered && rapid.Bool().Draw(c.t, "named")
	for i, r := range p.records {
		if r.Offset < p.said.Offset || named && p.shows(r) {
			p.done[i] = true
		} else if _, ok := p.next[r.ID]; !ok {
			p.next[r.ID] = i
		}
	}
	if c.numbered {
		c.steps = append(c.steps, step{kind: KindAssigned, h: Handling{Process: p.owner, Partition: p.records[0].Partition, Assignment: p.assignment}, named: named})
	}
}

// shows says that the last commit shows a record to be done.
func (p *modelPartition) shows(r Handling) bool {
	return offset.State{Watermark: p.said.Offset, Frontier: p.said.Frontier, Lanes: p.lanes}.Done(offset.Name([]byte(r.Tenant)), r.Offset)
}

// handle runs the next record of some lane and reports whether there was one.
func (c *cluster) handle(p *modelPartition) bool {
	c.own(p)
	var runnable []int
	for i := range p.records {
		if next, ok := p.next[p.records[i].ID]; ok && next == i {
			runnable = append(runnable, i)
		}
	}
	if len(runnable) == 0 {
		return false
	}
	i := rapid.SampledFrom(runnable).Draw(c.t, "lane")
	r := p.records[i]
	r.Process, r.Assignment = p.owner, p.assignment
	c.steps = append(c.steps, step{kind: KindHandled, h: r})
	p.done[i] = true
	delete(p.next, r.ID)
	for later := i + 1; later < len(p.records); later++ {
		if p.records[later].ID == r.ID {
			p.next[r.ID] = later
			break
		}
	}
	return true
}

// mostNames is how many lanes a commit of the model names.
const mostNames = 1

// commit acknowledges the first undone offset, and a frontier above a lane.
func (c *cluster) commit(p *modelPartition) {
	if p.owner == "" {
		return
	}
	end := p.records[len(p.records)-1].Offset + 1
	said := Commit{Partition: p.records[0].Partition, Offset: end, Frontier: end}
	p.lanes = nil
	seen := map[ID]bool{}
	for i, done := range p.done {
		r := p.records[i]
		if done || seen[r.ID] {
			continue
		}
		seen[r.ID] = true
		said.Offset = min(said.Offset, r.Offset)
		if len(said.Lanes) == mostNames {
			said.Frontier = r.Offset
			break
		}
		name := offset.Name([]byte(r.Tenant))
		said.Lanes = append(said.Lanes, Lane{Name: name, Offset: r.Offset})
		p.lanes = append(p.lanes, offset.Lane{Name: name, Offset: r.Offset})
	}
	p.said = said
	c.steps = append(c.steps, step{kind: KindCommit, h: Handling{Process: p.owner, Partition: said.Partition}, said: said})
}
