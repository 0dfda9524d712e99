package consumer

import (
	"cmp"
	"slices"
)

// PartitionStatus is how far a worker is with one partition.
type PartitionStatus struct {
	Topic       string
	Partition   int32
	Watermark   int64 // first unfinished offset
	Frontier    int64 // below it all is done but for the lanes that a commit names
	Next        int64 // offset to read next; -1: not known yet
	End         int64 // high watermark as of the last fetch; -1: not known yet
	Committed   int64 // acknowledged; -1: none
	RunnableLag int64 // End minus the first unfinished offset that can run; 0 if unknown
	Lanes       int   // with unfinished records
	Overflowing int   // lanes of these with records to be read again
	Waiting     int   // lanes that wait for a move
	BehindTable bool  // nothing is admitted until the routing table could be read to its end
	Stopped     error // why nothing more is admitted, or nil
}

// Progress lists the worker's partitions, by topic and number.
func (rt *Runtime) Progress() []PartitionStatus {
	e := rt.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]PartitionStatus, 0, len(e.parts))
	for _, p := range e.parts {
		all = append(all, e.progressOf(p))
	}
	slices.SortFunc(all, func(a, b PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

func (e *engine) progressOf(p *partition) PartitionStatus {
	st := PartitionStatus{
		Topic: p.topic, Partition: p.id, Watermark: unknownOffset, Frontier: unknownOffset, Next: unknownOffset,
		End: p.end, Committed: p.committed, Lanes: p.lanes.Lanes(), Overflowing: p.lanes.Overflowing(), Stopped: p.stopped,
		BehindTable: p.behindTable,
	}
	for _, lanes := range p.lanes.Waiting() {
		st.Waiting += lanes
	}
	if c, ok := p.commit(e.sched, 1); ok {
		st.Watermark, st.Frontier, st.Next = c.State.Watermark, c.State.Frontier, p.progress.Next()
		if p.end >= 0 {
			st.RunnableLag = max(p.end-c.State.Runnable(), 0)
		}
	}
	return st
}

// PausedPartitions is how many partitions are not read on since a lane is more
// than Config.MaxDistance behind.
func (rt *Runtime) PausedPartitions() int { return int(rt.paused.Load()) }
