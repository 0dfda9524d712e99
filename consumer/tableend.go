package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

const (
	// tableTimeout bounds one reading of the table to its end.
	tableTimeout = 5 * time.Second
	// tableInline is how long a rebalance waits for it. Partitions of topics
	// whose producers are wrapped are opened without it then, and wait.
	tableInline = 2 * time.Second
	// tablePause and tablePauseMost are the waits after a failed reading.
	tablePause     = 100 * time.Millisecond
	tablePauseMost = 5 * time.Second
)

// syncer is a table's source that can be read to its end; store.Topic is one.
type syncer interface {
	Sync(ctx context.Context) error
}

// syncer is the table's source if it can be read to its end, or nil.
func (c *Config) syncer() syncer {
	s, _ := c.Table.(syncer)
	return s
}

// endOfTable is where partitions were when a reading of the table began.
type endOfTable map[*partition]struct {
	next int64  // offset to read next
	ask  uint64 // of move.Partition.Unexplained
}

// beginSync notes where each partition is before the table is read to its end.
func (e *engine) beginSync() endOfTable {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.moves.wantSync = false
	at := make(endOfTable, len(e.parts))
	for _, p := range e.parts {
		mark := at[p]
		if p.progress != nil {
			mark.next = p.progress.Next()
		}
		mark.ask, _ = p.moves.Unexplained()
		at[p] = mark
	}
	return at
}

// endSync notes that the table, as the engine has it now, was read to its end by
// a reading that began at some places.
func (e *engine) endSync(at endOfTable) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for p, mark := range at {
		if p.gone.Load() {
			continue
		}
		if p.behindTable {
			e.beginMoves(p)
			e.askAttention() // the poll loop reads it from what was dropped on
			e.signalHungry()
		}
		p.readToEnd = max(p.readToEnd, mark.next)
		e.movesChanged(p, mark.ask)
	}
}

// waitsForTable says that p admits nothing yet, and notes what was fetched for
// nothing.
func (p *partition) waitsForTable(fp *kgo.FetchPartition) bool {
	if !p.behindTable && p.dropped == unknownOffset {
		return false
	}
	if len(fp.Records) > 0 && (p.dropped == unknownOffset || fp.Records[0].Offset < p.dropped) {
		p.dropped = fp.Records[0].Offset
	}
	return true
}

// takeDropped takes the partitions to read again from what was dropped while
// they waited for the table, and says from where.
func (e *engine) takeDropped(back map[topicPartition]int64) {
	for tp, p := range e.parts {
		if !p.behindTable && p.dropped != unknownOffset {
			back[tp] = p.dropped
			p.dropped = unknownOffset
		}
	}
}

// syncTable reads the table to its end and applies it.
func (rt *Runtime) syncTable(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	at := rt.engine.beginSync()
	if err := rt.cfg.syncer().Sync(ctx); err != nil {
		rt.metrics.tableErrs.Inc()
		rt.engine.retrySync()
		return fmt.Errorf("reading the routing table to its end: %w", err)
	}
	rt.engine.applyTable()
	rt.engine.endSync(at)
	return nil
}

// followEnd reads the table to its end whenever that is asked for, for all who
// ask at once, until it succeeds: they wait.
func (rt *Runtime) followEnd(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-rt.engine.moves.sync:
		}
		rt.makeQuarantines(ctx)
		wait := tablePause
		for rt.engine.wantsSync() && ctx.Err() == nil {
			err := rt.syncTable(ctx, tableTimeout)
			if err == nil || ctx.Err() != nil {
				continue
			}
			rt.log.Error("lanes wait for the routing table", zap.Error(err), zap.Duration("retry", wait))
			pause(ctx, wait)
			wait = min(2*wait, tablePauseMost)
		}
	}
}

func (e *engine) wantsSync() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.moves.wantSync && e.moves.canSync
}

// retrySync has it tried again what was asked for before beginSync.
func (e *engine) retrySync() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.askSync()
}

// readTable is rule R0 for an assignment, once its commits were fetched: the
// table is read to its end. It says which topics' partitions must not begin yet
// since it could not be.
func (rt *Runtime) readTable(ctx context.Context, fetched map[string]map[int32]kgo.Offset) (behind map[string]bool) {
	if rt.cfg.syncer() == nil {
		return nil
	}
	if err := rt.syncTable(ctx, tableInline); err != nil {
		behind = rt.engine.wrapped(fetched)
		rt.log.Error("partitions wait for the routing table", zap.Error(err), zap.Int("topics", len(behind)))
	}
	return behind
}

// knowCommits fetches the group's commits of earlier homes for partitions that
// were just opened, so that few of their lanes have to wait for them.
func (rt *Runtime) knowCommits(ctx context.Context, fetched map[string]map[int32]kgo.Offset) {
	asked := rt.engine.unclearedHomes(fetched)
	if len(asked) == 0 {
		return
	}
	ev := evidence{rt, map[topicPartition]string{}}
	ev.look(ctx, asked)
	rt.engine.judgeSoon()
}

// wrapped are the topics whose producers are, as far as the worker knows.
func (e *engine) wrapped(fetched map[string]map[int32]kgo.Offset) map[string]bool {
	topics := make(map[string]bool)
	for topic := range fetched {
		if rt := (*e.routes.Load())[topic]; rt != nil && rt.topic != nil && rt.topic.Wrapped() {
			topics[topic] = true
		}
	}
	return topics
}

// makeQuarantines makes the quarantine topics that are wanted and missing, with
// as many partitions as their topics have. Where that is not allowed somebody
// else has to: until then the lanes of stale records wait.
func (rt *Runtime) makeQuarantines(ctx context.Context) {
	for _, topic := range rt.engine.takeMissing() {
		limited, cancel := context.WithTimeout(ctx, tableTimeout)
		err := makeQuarantine(limited, rt.begins.admin, topic)
		cancel()
		if err != nil && ctx.Err() == nil {
			rt.log.Error("making the quarantine topic", zap.String("topic", topic+QuarantineSuffix), zap.Error(err))
		}
	}
}

func (e *engine) takeMissing() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	missing := e.moves.missing
	e.moves.missing = nil
	return missing
}

func makeQuarantine(ctx context.Context, admin *kadm.Client, topic string) error {
	known, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return fmt.Errorf("asking for topic %s: %w", topic, err)
	}
	partitions := int32(len(known[topic].Partitions))
	_, err = admin.CreateTopic(ctx, max(partitions, 1), -1, nil, topic+QuarantineSuffix)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("creating a topic of %d partitions: %w", partitions, err)
	}
	return nil
}
