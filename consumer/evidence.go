package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/rebalance/move"
)

const (
	// evidenceLeast and evidenceMost are the waits between two looks at the
	// group's commits while lanes wait for them.
	evidenceLeast = 10 * time.Millisecond
	evidenceMost  = 200 * time.Millisecond
	// evidenceTimeout bounds one look.
	evidenceTimeout = 2 * time.Second
)

// undone says that the group's commits, as last fetched, do not show a lane to
// be done in all of some earlier homes, and asks for those commits. It is rule
// R2: nothing else is evidence, also where the home is a partition of this very
// worker, which may have to do again what it has not committed.
func (e *engine) undone(topic string, homes []move.Home, name uint32) bool {
	left := move.Undone(homes, name, func(id int32) (move.GroupCommit, bool) {
		c, ok := e.moves.commits[topicPartition{topic, id}]
		return c, ok
	})
	for _, h := range left {
		e.askCommit(topicPartition{topic, h.Partition})
	}
	return len(left) > 0
}

// askCommit has the group's commit of a partition fetched.
func (e *engine) askCommit(tp topicPartition) {
	if _, asked := e.moves.asked[tp]; !asked {
		e.moves.asked[tp] = struct{}{}
		e.signalMoves()
	}
}

// askedCommits are the partitions whose commits lanes wait for, with what their
// metadata must be about; nil when none waits.
func (e *engine) askedCommits() map[topicPartition]offset.Identity {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.moves.asked) == 0 {
		return nil
	}
	if e.waitingLanes()[whyEarlier] == 0 {
		clear(e.moves.asked)
		return nil
	}
	return e.identities(e.moves.asked)
}

// identities says what the metadata of some partitions' commits must be about:
// the same as that of the topic's partitions here, since one group's workers
// form lane keys alike, or its metadata does not count.
func (e *engine) identities(tps map[topicPartition]struct{}) map[topicPartition]offset.Identity {
	byTopic := make(map[string]offset.Identity)
	for tp, p := range e.parts {
		byTopic[tp.topic] = p.identity
	}
	ids := make(map[topicPartition]offset.Identity, len(tps))
	for tp := range tps {
		ids[tp] = byTopic[tp.topic]
	}
	return ids
}

// unclearedHomes are the earlier homes in some topics that commits do not show
// to be past yet.
func (e *engine) unclearedHomes(topics map[string]map[int32]kgo.Offset) map[topicPartition]offset.Identity {
	e.mu.Lock()
	defer e.mu.Unlock()
	homes := make(map[topicPartition]struct{})
	for topic := range topics {
		mt := e.moves.topics[topic]
		if mt == nil || mt.uncleared == nil {
			continue
		}
		for _, m := range mt.table.Moves() {
			for _, f := range m.Fences {
				if !mt.cleared[m.ID] {
					homes[topicPartition{topic, f.Partition}] = struct{}{}
				}
			}
		}
	}
	return e.identities(homes)
}

// learn takes over fetched commits. It says whether one is new; then lanes that
// wait are to be judged again.
func (e *engine) learn(commits map[topicPartition]fetchedCommit) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	topics := make(map[string]bool)
	for tp, c := range commits {
		before, known := e.moves.commits[tp]
		if known && before.Watermark == c.offset && before.Frontier == c.Frontier && before.Valid == c.valid && c.same {
			continue
		}
		e.moves.commits[tp] = c.groupCommit()
		topics[tp.topic] = true
	}
	for topic := range topics {
		if mt := e.moves.topics[topic]; mt != nil {
			mt.clear(e.watermarkOf(topic))
		}
	}
	if len(topics) == 0 {
		return false
	}
	for _, p := range e.parts {
		p.watchMoves(e.moves.canSync)
	}
	e.moves.again = true
	return true
}

// fetchedCommit is a group's commit as it was fetched.
type fetchedCommit struct {
	offset   int64
	metadata string
	same     bool // the metadata is that of the last look
	valid    bool // the checkpoint in it counts
	offset.Checkpoint
}

// open reads the metadata.
func (c *fetchedCommit) open(id offset.Identity) {
	var why offset.Reason
	c.Checkpoint, why = offset.Open(checkpointText(c.metadata), id, c.offset)
	c.valid = why == offset.Valid
}

// groupCommit is the commit as evidence.
func (c *fetchedCommit) groupCommit() move.GroupCommit {
	g := move.GroupCommit{Watermark: c.offset}
	if !c.valid {
		return g
	}
	g.Valid, g.Frontier = true, c.Frontier
	lowest := make(map[uint32]int64, len(c.Lanes))
	for _, l := range c.Lanes { // ascending by offset
		if _, named := lowest[l.Name]; !named {
			lowest[l.Name] = l.Offset
		}
	}
	g.Names = func(name uint32) (int64, bool) {
		at, named := lowest[name]
		return at, named
	}
	return g
}

// evidence fetches the group's commits of earlier homes.
type evidence struct {
	*Runtime
	last map[topicPartition]string // metadata, as last fetched
}

// followMoves lets lanes go on that wait for moves, once they may: when the
// table has changed, and when the group's commits show what they wait for, which
// it asks the group's coordinator for as long as any waits.
func (rt *Runtime) followMoves(ctx context.Context) {
	ev := evidence{rt, map[topicPartition]string{}}
	timer := time.NewTimer(never)
	defer timer.Stop()
	wait := evidenceLeast
	for {
		select {
		case <-ctx.Done():
			return
		case <-rt.engine.moves.wake:
			wait = evidenceLeast
		case <-timer.C:
		}
		rt.engine.reopen()
		asked := rt.engine.askedCommits()
		if len(asked) == 0 {
			timer.Reset(never)
			continue
		}
		if ev.look(ctx, asked) {
			wait = evidenceLeast
			rt.engine.reopen()
		} else {
			wait = min(2*wait, evidenceMost)
		}
		timer.Reset(wait)
	}
}

// look fetches commits, and says whether one has changed.
func (ev *evidence) look(ctx context.Context, asked map[topicPartition]offset.Identity) bool {
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()
	commits, err := ev.fetch(ctx, asked)
	if err != nil {
		if ctx.Err() == nil {
			ev.engine.sampled.Error("fetching the group's commits for lanes that wait", zap.Error(err))
		}
		return false
	}
	return ev.engine.learn(commits)
}

// fetch asks for the commits of some partitions in one request. Metadata counts
// by the same rules as where a partition begins.
func (ev *evidence) fetch(ctx context.Context, asked map[topicPartition]offset.Identity) (map[topicPartition]fetchedCommit, error) {
	commits, err := fetchCommits(ctx, ev.client, ev.cfg.Group, asked)
	if err != nil {
		return nil, err
	}
	var ask kadm.OffsetForLeaderEpochRequest
	for tp, c := range commits {
		c.same = ev.last[tp] == c.metadata
		ev.last[tp] = c.metadata
		if c.open(asked[tp]); c.valid {
			ask.Add(tp.topic, tp.id, c.LeaderEpoch)
		}
		commits[tp] = c
	}
	if len(ask) == 0 {
		return commits, nil
	}
	// An error is in no answer: then each partition's is missing.
	ends, _ := ev.begins.admin.OffsetForLeaderEpoch(ctx, ask)
	for tp, c := range commits {
		if end, ok := ends[tp.topic][tp.id]; c.valid && (!ok || end.Err != nil || c.Cut(end.EndOffset)) {
			c.valid = false
			commits[tp] = c
		}
	}
	return commits, nil
}

// fetchCommits asks the group's coordinator for commits. Partitions without one
// are left out.
func fetchCommits(ctx context.Context, client kmsg.Requestor, group string, of map[topicPartition]offset.Identity) (map[topicPartition]fetchedCommit, error) {
	byTopic := make(map[string][]int32)
	for tp := range of {
		byTopic[tp.topic] = append(byTopic[tp.topic], tp.id)
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for topic, ids := range byTopic {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = topic, ids
		g.Topics = append(g.Topics, t)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("fetching commits of group %s: %w", group, err)
	}
	if len(resp.Groups) != 1 {
		return nil, fmt.Errorf("fetching commits of group %s: %d groups in the answer", group, len(resp.Groups))
	}
	if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("fetching commits of group %s: %w", group, err)
	}
	commits := make(map[topicPartition]fetchedCommit)
	for _, t := range resp.Groups[0].Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 || p.Offset < 0 {
				continue
			}
			c := fetchedCommit{offset: p.Offset}
			if p.Metadata != nil {
				c.metadata = *p.Metadata
			}
			commits[topicPartition{t.Topic, p.Partition}] = c
		}
	}
	return commits, nil
}
