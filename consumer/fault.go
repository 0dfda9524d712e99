package consumer

import (
	"errors"

	"go.uber.org/zap"
)

// ErrForeignStamp is wrapped by the error of a lane that was parked because its
// record's tl-route header names an epoch that the routing table, read to its
// end, has not reached: it was stamped by another table, or is damaged. See
// Config.ForeignStamps.
var ErrForeignStamp = errors.New("record was routed by a table that is not this worker's")

// errStale is why a stale record is in quarantine.
var errStale = errors.New("record lies behind the fence that ended its tenant here")

// What becomes of a stale record, as a metric's label.
const (
	staleQuarantined = "quarantined"
	staleHandled     = "handled" // the topic's producers may lack the wrapper
)

// fault is why a record goes into its lane, so that order holds, and to no
// handler.
type fault struct {
	stale *Staleness // it goes to the quarantine topic
	err   error      // else it parks its lane
}

// outcome is what stands for the handling of the record.
func (f *fault) outcome() outcome {
	if f.stale != nil {
		return outcome{verdict: verdictQuarantine, err: errStale}
	}
	return outcome{verdict: verdictForeign, err: f.err}
}

// faultAt is the first of a grant's items, from one on, that no handler may
// get: n if there is none.
func faultAt(items []laneItem, from int) int {
	for i := from; i < len(items); i++ {
		if items[i].Rec.in.fault != nil {
			return i
		}
	}
	return len(items)
}

// quarantined notes that a stale record was written to its quarantine topic.
func (e *engine) quarantined(f *failure) {
	e.metrics.stale.WithLabelValues(f.p.topic, staleQuarantined).Inc()
	e.sampled.Error("stale record in quarantine", f.fields(zap.String("move", f.stale.Move), zap.Int64("fence", f.stale.Fence),
		zap.Uint64("epoch", f.stale.Epoch), zap.String("reason", f.stale.Reason))...)
}

// unload drops from memory what a lane holds that was parked for a foreign
// stamp, so that it is judged again when it is read again: by then the table
// may know.
func (e *engine) unload(p *partition, key []byte) {
	n := e.sched.Unload(p.lanes, key, func(it *laneItem) { e.hold(p, -it.Rec.in.freed(it)) })
	if n > 0 {
		e.skipped(p)
	}
}

// wantQuarantine has the quarantine topic of a topic made, if it is missing.
func (e *engine) wantQuarantine(topic string) {
	e.moves.missing = append(e.moves.missing, topic)
	signal(e.moves.sync)
}
