package lagwatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sampler asks the cluster. It belongs to one goroutine; the stages of a round
// run questions in parallel and write into one answer under its lock.
type sampler struct {
	cfg    *Config
	client *kgo.Client
	inv    *inventory
	seeds  []time.Duration // ages at which past ends are asked for

	sweptAt time.Time // of the last complete sweep
	sizedAt time.Time // when sizes of logs were asked for

	// sweepSeen is the sweep of this round, and staleSeen what looks at records
	// found since the last; only the watcher's goroutine uses them between rounds.
	sweepSeen *SweepSnapshot
	staleSeen []StaleLook
	// visible is what probes found; only the watcher's goroutine uses it.
	visible map[probeKey]visible
}

type probeKey struct {
	pairKey
	partition int32
}

func (p probe) key() probeKey { return probeKey{p.pairKey, p.partition} }

// visible is what a probe found from a commit on.
type visible struct {
	commit, offset, stable int64
	found                  bool
}

func newSampler(cfg *Config, client *kgo.Client, inv *inventory) *sampler {
	return &sampler{cfg: cfg, client: client, inv: inv, seeds: seedAges(cfg), visible: map[probeKey]visible{}}
}

// round collects one Snapshot.
type round struct {
	*sampler
	at time.Time

	mu sync.Mutex
	// guards all below
	snap    Snapshot
	groupAt map[string]*GroupSnapshot
	topicAt map[string]*TopicSnapshot
	errors  map[string]bool
	// clusterID is what the brokers call the cluster.
	clusterID string
}

// The stages of a round depend on each other, and a hung broker costs each of
// them its deadline, so each gets a third of the time.
const stages = 3

// sample asks everything once. It always returns a snapshot: what could not be
// asked is Unread in it.
func (s *sampler) sample(ctx context.Context, at time.Time) *Snapshot {
	r := &round{
		sampler: s, at: at, snap: Snapshot{At: at, Cluster: s.cfg.Cluster},
		groupAt: map[string]*GroupSnapshot{}, topicAt: map[string]*TopicSnapshot{}, errors: map[string]bool{},
	}
	r.stage(ctx, r.metadata, r.listGroups)
	for _, name := range s.inv.groupNames() {
		r.groupAt[name] = &GroupSnapshot{Group: name}
	}
	r.stage(ctx, r.describe, r.fetchCommits)
	r.stage(ctx, r.listOffsets)
	return r.finish()
}

// stage runs questions side by side within its share of the time.
func (r *round) stage(ctx context.Context, ask ...func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.SampleTimeout/stages)
	defer cancel()
	var wg sync.WaitGroup
	for _, f := range ask {
		wg.Go(func() { f(ctx) })
	}
	wg.Wait()
}

// finish orders the snapshot.
func (r *round) finish() *Snapshot {
	for _, name := range r.inv.groupNames() {
		g := r.groupAt[name]
		if g == nil { // found after the groups of this round were fixed
			g = &GroupSnapshot{Group: name}
		}
		for topic, pair := range r.inv.groups[name].Topics {
			c := g.ensure(topic)
			r.fillNone(c, pair, topic)
			c.useClaims(r.clusterID, r.topicAt[topic])
		}
		absent(&r.inv.groups[name].AbsentSince, r.at, g.Missing)
		r.snap.Groups = append(r.snap.Groups, *g)
	}
	for _, name := range r.inv.topicNames() {
		t := r.topicAt[name]
		if t == nil {
			t = &TopicSnapshot{Topic: name}
		}
		r.snap.Topics = append(r.snap.Topics, *t)
	}
	r.useProbes()
	r.snap.Stale, r.staleSeen = r.staleSeen, nil
	r.inv.forget(r.at, r.cfg.literalGroups())
	return &r.snap
}

// useProbes puts what probes found into the snapshot, as long as it is about
// the same commit and, when nothing was found, the same stable offset.
func (r *round) useProbes() {
	for key, v := range r.visible {
		g, _ := r.snap.group(key.group)
		t := r.snap.topic(key.topic)
		if g == nil || t == nil {
			delete(r.visible, key)
			continue
		}
		c := g.ensure(key.topic)
		commit, stable := offsetOf(c.Commits, int(key.partition)), offsetOf(t.Stable, int(key.partition))
		switch {
		case commit == Unread || stable == Unread: // may be about the same still
		case max(commit, offsetOf(c.Runnable, int(key.partition))) != v.commit, !v.found && stable != v.stable:
			delete(r.visible, key)
		default:
			c.Visible = put(c.Visible, key.partition, v.offset)
		}
	}
}

// fail notes what could not be asked.
func (r *round) fail(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(what, err)
}

func (r *round) failLocked(what string, err error) {
	text := fmt.Sprintf("%s: %v", what, err)
	if r.errors[text] || len(r.errors) >= maxErrors {
		return
	}
	r.errors[text] = true
	r.snap.Errors = append(r.snap.Errors, text)
}

// maxErrors bounds the messages of a round.
const maxErrors = 50

// shards sends a request to whoever has to answer parts of it.
func (r *round) shards(ctx context.Context, req kmsg.Request, what string, answer func(kmsg.Response)) (complete bool) {
	complete = true
	for _, shard := range r.client.RequestSharded(ctx, req) {
		if shard.Err != nil {
			complete = false
			r.fail(what+from(shard.Meta), shard.Err)
			continue
		}
		answer(shard.Resp)
	}
	return complete
}

func from(b kgo.BrokerMetadata) string {
	if b.NodeID < 0 {
		return ""
	}
	return fmt.Sprintf(" from broker %d (%s:%d)", b.NodeID, b.Host, b.Port)
}
