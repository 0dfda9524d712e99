package lag

import (
	"cmp"
	"slices"
	"time"
)

// Tracker follows one (group, topic): rounds in, verdicts out. It is not safe
// for concurrent use.
type Tracker struct {
	rule       Rule
	poolOf     func(partition int32) string
	partitions []*partition // by id
	pools      []*pool      // by name

	now, dt   int64 // of the current round, milliseconds
	topicID   [16]byte
	retention time.Duration
	frozen    bool // this round neither counts for nor against

	rebalanced     budget
	rebalanceStuck condition
	reset          condition
	gone           goneState
	idle           condition
	idleAt         int64 // since when there are too many members; 0: there are not
	groupBlind     blindness

	lags    []int64
	delays  []time.Duration
	loads   []load
	verdict Verdict
	spare   []PartitionVerdict
}

// pool is the partitions that are compared with each other.
type pool struct {
	name    string
	members []*partition
	peers   peers
	behind  condition
	skew    skew
	blind   blindness
	unknown int
}

// NewTracker returns a tracker without partitions: they appear with the first
// round that names them, and stay. PoolOf names each partition's pool; nil
// puts all into one pool named "shared".
func NewTracker(rule Rule, poolOf func(partition int32) string) *Tracker {
	if poolOf == nil {
		poolOf = func(int32) string { return SharedPool }
	}
	return &Tracker{rule: rule, poolOf: poolOf}
}

// SharedPool is the name of the pool of all partitions that nobody owns.
const SharedPool = "shared"

// Expect makes partitions known to the tracker before any sample names them,
// so that one which never answers is unknown instead of absent.
func (t *Tracker) Expect(partitions ...int32) {
	added := false
	for _, id := range partitions {
		if _, ok := t.find(id); !ok {
			t.insert(id)
			added = true
		}
	}
	if added {
		t.group()
	}
}

// SetPools changes which partitions are compared with each other. What a
// partition has gone through stays with it.
func (t *Tracker) SetPools(poolOf func(partition int32) string) {
	t.poolOf = poolOf
	t.group()
}

// Observe takes one round and returns its verdict, which is valid until the
// next call. Rounds must be in the order of time.
func (t *Tracker) Observe(r *Round) *Verdict {
	t.advance(r)
	t.merge(r.Samples)
	t.followGroup(&r.Group)
	for _, p := range t.pools {
		t.measure(p)
		for _, m := range p.members {
			t.judge(m, p)
		}
		p.behind.step(p.unknown < len(p.members) && p.peers.n > 0 && t.rule.MaxDelay > 0 && p.peers.medianDelay >= t.rule.MaxDelay,
			t.now, t.knownTime(p), t.rule.KeepFiring)
		t.followSkew(p)
		p.blind.step(float64(p.unknown) > blindShare*float64(len(p.members)), t.now)
	}
	t.report(r.At)
	return &t.verdict
}

// knownTime is the time that may count towards ending a pool's alerts: none
// in a round that saw nothing of it.
func (t *Tracker) knownTime(p *pool) int64 {
	if p.unknown == len(p.members) {
		return 0
	}
	return t.dt
}

// advance sets the clock, and starts over when the topic is another one. A
// pause of the watcher itself counts as at most two intervals.
func (t *Tracker) advance(r *Round) {
	now := r.At.UnixMilli()
	t.dt = 0
	if t.now != 0 {
		t.dt = min(max(now-t.now, 0), 2*t.rule.Interval.Milliseconds())
		t.skip(now - t.now)
	}
	t.now, t.retention = now, r.Retention
	t.reset.settle(true, t.dt, t.rule.KeepFiring)
	if r.TopicID == ([16]byte{}) {
		return
	}
	if t.topicID != ([16]byte{}) && t.topicID != r.TopicID {
		for _, p := range t.partitions {
			p.forget()
		}
		t.reset.fire(now)
	}
	t.topicID = r.TopicID
}

// skip counts the rounds that a pause of the watcher left out as unknown.
func (t *Tracker) skip(pause int64) {
	missed := (pause+t.rule.Interval.Milliseconds()/2)/t.rule.Interval.Milliseconds() - 1
	if missed <= 0 {
		return
	}
	for _, p := range t.partitions {
		for range min(missed, int64(p.hot.n)) {
			p.hot.push(false, false)
		}
	}
}

// stale is how long a partition may be unseen before what was seen of it says
// nothing about now. What fires goes on firing.
func (t *Tracker) stale() time.Duration { return max(staleAfter, 2*t.rule.For) }

// merge hands each partition its sample; one that the round does not name gets
// an unknown one.
func (t *Tracker) merge(samples []Sample) {
	i, added := 0, false
	for j := range samples {
		s := &samples[j]
		for i < len(t.partitions) && t.partitions[i].id < s.Partition {
			t.partitions[i].take(&Sample{Partition: t.partitions[i].id}, t.now, t.dt, t.stale())
			i++
		}
		if i == len(t.partitions) || t.partitions[i].id != s.Partition {
			t.insert(s.Partition)
			added = true
		}
		t.partitions[i].take(s, t.now, t.dt, t.stale())
		i++
	}
	for ; i < len(t.partitions); i++ {
		t.partitions[i].take(&Sample{Partition: t.partitions[i].id}, t.now, t.dt, t.stale())
	}
	if added {
		t.group()
	}
}

func (t *Tracker) find(id int32) (int, bool) {
	return slices.BinarySearchFunc(t.partitions, id, func(p *partition, id int32) int { return cmp.Compare(p.id, id) })
}

func (t *Tracker) insert(id int32) {
	i, _ := t.find(id)
	n := int((t.rule.For + t.rule.Interval - 1) / t.rule.Interval)
	t.partitions = slices.Insert(t.partitions, i, &partition{id: id, hot: newWindow(n), committed: None, pending: None})
}

// group puts the partitions into their pools, keeping the state of pools that
// stay.
func (t *Tracker) group() {
	for _, p := range t.pools {
		p.members = p.members[:0]
	}
	for _, p := range t.partitions {
		name := t.poolOf(p.id)
		i, ok := slices.BinarySearchFunc(t.pools, name, func(p *pool, name string) int { return cmp.Compare(p.name, name) })
		if !ok {
			t.pools = slices.Insert(t.pools, i, &pool{name: name})
		}
		t.pools[i].members = append(t.pools[i].members, p)
	}
	t.pools = slices.DeleteFunc(t.pools, func(p *pool) bool { return len(p.members) == 0 })
}

// measure computes a pool's baseline numbers over its measured partitions, and
// those that were measured a moment ago: with a few unknown, and half of the
// pool hot, the median of the rest would be hot in every other round.
func (t *Tracker) measure(p *pool) {
	t.lags, t.delays = t.lags[:0], t.delays[:0]
	p.peers, p.unknown = peers{}, 0
	for _, m := range p.members {
		if !m.cur.Known {
			p.unknown++
		}
		if !m.measured && !t.remembers(m) {
			continue
		}
		t.lags, t.delays = append(t.lags, m.lag), append(t.delays, m.delay)
		p.peers.sumLag += m.lag
		p.peers.sumDelay += m.delay
	}
	n := len(t.lags)
	if p.peers.n = n; n == 0 {
		return
	}
	slices.Sort(t.lags)
	slices.Sort(t.delays)
	p.peers.medianLag, p.peers.medianDelay = t.lags[lowerMedian(n)], t.delays[lowerMedian(n)]
}

// remembers is true for a partition that this round did not see, and one of the
// last few did: it still counts as a peer, as it was then.
func (t *Tracker) remembers(m *partition) bool {
	return !m.cur.Known && m.peerAt != 0 && t.now-m.peerAt <= peerRounds*t.rule.Interval.Milliseconds()
}
