package consumer

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/move"
)

// partitionMoves is what a partition knows of moves. The engine's lock guards it.
type partitionMoves struct {
	ofTopic *movesOfTopic
	moves   move.Partition
	watched bool   // records are to be looked at for moves
	known   uint64 // records of a higher epoch are to be looked at too

	behindTable bool      // nothing is admitted until the table was read to its end: R0
	dropped     int64     // first offset of what was fetched meanwhile; unknownOffset: nothing
	readToEnd   int64     // records below were read before the table was last read to its end
	fences      []fenceAt // met, and not ended
	leaves      []int64   // offsets of confirmed fences in this partition that no commit is above
}

// fenceAt is a fence that was met.
type fenceAt struct {
	routing.Control
	at  int64
	ask uint64 // above 0: the table did not know its move then
}

// meetControl notes a control record of a known kind.
func (e *engine) meetControl(p *partition, r *kgo.Record) {
	if c, ok := controlOf(r); ok && c.Kind == routing.ControlFence {
		e.meetFence(p, c, r.Offset)
	}
}

// meetFence notes a fence: it ends its unit here if the table confirms it.
func (e *engine) meetFence(p *partition, c routing.Control, at int64) {
	if p.ofTopic == nil || p.ofTopic.table == nil {
		e.log.Error("fence passed without a routing table that knows the topic: the order across the move is not kept",
			zap.String("topic", p.topic), zap.Int32("partition", p.id), zap.Int64("offset", at), zap.String("move", c.Move))
		return
	}
	t := p.ofTopic.table
	p.moves.Fence(t, c, at)
	f := fenceAt{Control: c, at: at}
	if _, known := t.Move(c.Move); !known {
		f.ask, _ = p.moves.Unexplained()
	}
	if !slices.ContainsFunc(p.fences, func(g fenceAt) bool { return g.at == at }) {
		p.fences = append(p.fences, f)
	}
	ask := uint64(0)
	switch {
	case !e.moves.canSync:
		ask = f.ask // there is no end to read to
	case f.ask > 0:
		e.askSync()
	}
	p.moves.Synced(t, ask)
	e.endFences(p, ask)
	p.watchMoves(e.moves.canSync)
}

// controlOf is what a control record says.
func controlOf(r *kgo.Record) (routing.Control, bool) {
	for i := range r.Headers {
		if r.Headers[i].Key == routing.HeaderControl {
			c, err := routing.ParseControl(r.Headers[i].Value)
			return c, err == nil
		}
	}
	return routing.Control{}, false
}

// endFences takes out the fences whose moves have ended, as move.Partition does.
func (e *engine) endFences(p *partition, ask uint64) {
	t := p.ofTopic.table
	p.fences = slices.DeleteFunc(p.fences, func(f fenceAt) bool {
		m, known := t.Move(f.Move)
		if known && m.Open() || !known && f.ask > ask {
			return false
		}
		state := move.FenceOf(t, f.Control, p.id, f.at)
		e.metrics.fences.WithLabelValues(p.topic, state.String()).Inc()
		p.logLeft(e.log, &f.Control, f.at, state)
		if state == move.FenceConfirmed {
			e.leave(p, f.at)
		}
		return true
	})
	for i := range p.fences {
		if _, known := t.Move(p.fences[i].Move); known {
			p.fences[i].ask = 0
		}
	}
}

// leave notes that a unit has left p at an offset: whoever has its new home waits
// for p's commits.
func (e *engine) leave(p *partition, x int64) {
	if p.committed <= x && !slices.Contains(p.leaves, x) {
		p.leaves = append(p.leaves, x)
	}
	e.moves.kick()
}

// noteLeaves finds the units that have left p before it was met here.
func (e *engine) noteLeaves(p *partition) {
	mt := p.ofTopic
	if mt.left[p.id] == nil || p.progress == nil {
		return
	}
	for _, m := range mt.table.Moves() {
		if x, ok := m.FenceIn(p.id); ok && x < p.progress.Next() && p.committed <= x && !slices.Contains(p.leaves, x) {
			e.leave(p, x)
		}
	}
}

// past forgets the units that have left below a committed watermark.
func (p *partition) past(watermark int64) {
	p.leaves = slices.DeleteFunc(p.leaves, func(x int64) bool { return x < watermark })
}

// leftBehind commits at once when a lane has come past a fence, since lanes of
// its unit elsewhere may wait for it. first is the offset of a record of it that
// is done.
func (e *engine) leftBehind(p *partition, ref lane.Ref[entry], first int64) {
	for _, x := range p.leaves {
		if first <= x && e.sched.Beyond(ref, x) {
			e.moves.kick()
			return
		}
	}
}

// beginMoves is rule R0 for a partition that was just given to the worker: the
// table was read to its end after that, or nobody could.
func (e *engine) beginMoves(p *partition) {
	p.behindTable = false
	if p.progress != nil {
		p.readToEnd = p.progress.Next()
	}
	if mt := p.ofTopic; mt != nil && mt.table != nil {
		p.moves = move.Assign(mt.table, p.id)
		e.noteLeaves(p)
	}
	p.watchMoves(e.moves.canSync)
}

// carryMoves keeps what was known of moves when a partition begins anew without
// the table being read again.
func (e *engine) carryMoves(p, old *partition) {
	p.behindTable, p.moves = old.behindTable, old.moves // with the units held since the assignment
	if p.behindTable {
		e.askSync()
	}
	for _, f := range old.fences {
		e.meetFence(p, f.Control, f.at)
	}
}
