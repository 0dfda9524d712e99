package lag

import (
	"math"
	"slices"
)

// TrackerState is a Tracker as plain data, for a file. Times are unix
// milliseconds.
type TrackerState struct {
	At         int64            `json:"at"`
	TopicID    [16]byte         `json:"topic_id"`
	Rebalance  *[24]uint32      `json:"rebalance,omitempty"`
	RebalanceN int64            `json:"rebalance_n,omitempty"`
	Stuck      CondState        `json:"stuck,omitzero"`
	Reset      CondState        `json:"reset,omitzero"`
	Idle       CondState        `json:"idle,omitzero"`
	IdleAt     int64            `json:"idle_at,omitempty"`
	Blind      CondState        `json:"blind,omitzero"`
	Gone       GoneState        `json:"gone,omitzero"`
	Pools      []PoolState      `json:"pools,omitempty"`
	Partitions []PartitionState `json:"partitions"`
}

// CondState is one alert over time.
type CondState struct {
	Since   int64 `json:"s"`
	Cleared int64 `json:"c,omitempty"`
}

// GoneState is what is known of the group's members.
type GoneState struct {
	CondState
	Existed  bool  `json:"existed,omitempty"`
	Members  bool  `json:"members,omitempty"`
	EmptyAt  int64 `json:"empty_at,omitempty"`
	EmptyEnd int64 `json:"empty_end,omitempty"`
	Missing  int   `json:"missing,omitempty"`
}

// PoolState is what concerns a pool as a whole.
type PoolState struct {
	Name   string    `json:"name"`
	Behind CondState `json:"behind,omitzero"`
	Blind  CondState `json:"blind,omitzero"`
	Skew   SkewState `json:"skew,omitzero"`
}

// SkewState is how unevenly a pool is used.
type SkewState struct {
	CondState
	Ratios [perCount][ofCount]float64 `json:"ratios,omitzero"`
	Per    uint8                      `json:"per,omitempty"`
	Of     uint8                      `json:"of,omitempty"`
	Key    int32                      `json:"key,omitempty"`
	At     int64                      `json:"at,omitempty"`
	Over   int64                      `json:"over,omitempty"`
}

// PartitionState is one partition.
type PartitionState struct {
	ID        int32                `json:"p"`
	SeenAt    int64                `json:"seen_at,omitempty"`
	Committed int64                `json:"commit"`
	CommitAt  int64                `json:"commit_at,omitempty"`
	Pending   int64                `json:"pending"`
	HeldAt    int64                `json:"held_at,omitempty"`
	HeldEnd   int64                `json:"held_end,omitempty"`
	Gaps      *[3]int64            `json:"gaps,omitempty"`
	Track     [][3]int64           `json:"track,omitempty"` // at, end, run; oldest first
	Known     []uint64             `json:"known,omitempty"`
	Hot       []uint64             `json:"hot,omitempty"`
	Next      int                  `json:"next,omitempty"`
	Filled    int                  `json:"filled,omitempty"`
	HotSince  int64                `json:"hot_since,omitempty"`
	HotTime   *[24]uint32          `json:"hot_time,omitempty"`
	HotTimeN  int64                `json:"hot_time_n,omitempty"`
	Peak      float64              `json:"peak,omitempty"`
	PoolLate  bool                 `json:"pool_late,omitempty"`
	Usual     []float32            `json:"usual,omitempty"`
	UsualAt   int64                `json:"usual_at,omitempty"`
	Conds     map[string]CondState `json:"conds,omitempty"`
}

// kindKeys name kinds in a file, where their numbers would be fragile.
var kindKeys = [kinds]string{
	kindHot: "hot", kindChronic: "chronic", kindStuck: "stuck", kindSlow: "slow", kindLoss: "loss",
	kindRewind: "rewind", kindLost: "lost", kindNoCommit: "no_commit", kindHanging: "hanging", kindLane: "lane",
}

// State returns the tracker as plain data, independent of it.
func (t *Tracker) State() TrackerState {
	s := TrackerState{
		At: t.now, TopicID: t.topicID, Stuck: t.rebalanceStuck.state(), Reset: t.reset.state(), Idle: t.idle.state(), IdleAt: t.idleAt,
		Blind: t.groupBlind.state(),
		Gone:  GoneState{t.gone.state(), t.gone.existed, t.gone.members, t.gone.emptyAt, t.gone.emptyEnd, t.gone.missing},
	}
	s.Rebalance, s.RebalanceN = t.rebalanced.state()
	for _, p := range t.pools {
		k := &p.skew
		s.Pools = append(s.Pools, PoolState{
			p.name, p.behind.state(), p.blind.state(),
			SkewState{k.state(), k.ratios, uint8(k.worst.per), uint8(k.worst.of), k.key, k.at, k.over},
		})
	}
	for _, p := range t.partitions {
		s.Partitions = append(s.Partitions, p.state())
	}
	return s
}

// Restore makes a fresh tracker go on where another one was. What does not fit
// the rule (a window of another length) or cannot be is left out.
func (t *Tracker) Restore(s TrackerState) {
	t.now, t.topicID = s.At, s.TopicID
	t.rebalanceStuck, t.reset = s.Stuck.restore(), s.Reset.restore()
	t.idle, t.idleAt = s.Idle.restore(), s.IdleAt
	t.groupBlind.condition = s.Blind.restore()
	g := s.Gone
	t.gone = goneState{g.restore(), g.Existed, g.Members, g.EmptyAt, g.EmptyEnd, g.Missing}
	t.rebalanced.restore(s.Rebalance, s.RebalanceN)
	for i := range s.Partitions {
		t.Expect(s.Partitions[i].ID)
		if at, ok := t.find(s.Partitions[i].ID); ok {
			t.partitions[at].restore(&s.Partitions[i])
		}
	}
	for _, ps := range s.Pools {
		for _, p := range t.pools {
			if p.name == ps.Name {
				p.behind, p.blind.condition = ps.Behind.restore(), ps.Blind.restore()
				k := ps.Skew
				p.skew = skew{k.restore(), k.Ratios, skewKind{min(per(k.Per), perBroker), min(of(k.Of), ofBytes)}, k.Key, k.At, k.Over}
			}
		}
	}
}

func (p *partition) state() PartitionState {
	s := PartitionState{
		ID: p.id, SeenAt: p.seenAt, Committed: p.committed, CommitAt: p.commitAt, Pending: p.pending, HeldAt: p.heldAt, HeldEnd: p.heldEnd,
		HotSince: p.hotSince, Peak: p.peak, PoolLate: p.poolLate,
	}
	if p.gaps != (gaps{}) {
		s.Gaps = &[3]int64{p.gaps.this, p.gaps.last, p.gaps.turnedAt}
	}
	if p.lag > 0 { // what stands still needs no past
		for i := p.track.n - 1; i >= 0; i-- {
			at := p.track.back(i)
			s.Track = append(s.Track, [3]int64{at.at, at.end, at.run})
		}
	}
	s.Next, s.Filled = p.hot.next, p.hot.filled
	if p.hot.hotCount > 0 || p.hot.knownCount < p.hot.filled { // else it is plain
		s.Known, s.Hot = slices.Clone(p.hot.known), slices.Clone(p.hot.hot)
	}
	s.HotTime, s.HotTimeN = p.hotTime.state()
	if p.slow != nil {
		s.Usual, s.UsualAt = p.slow.values(), p.slow.at
	}
	for k := range p.conds {
		if c := &p.conds[k]; c.firing() {
			if s.Conds == nil {
				s.Conds = map[string]CondState{}
			}
			s.Conds[kindKeys[k]] = c.state()
		}
	}
	return s
}

func (p *partition) restore(s *PartitionState) {
	p.seen, p.seenAt, p.committed = s.SeenAt != 0, s.SeenAt, max(s.Committed, None)
	p.commitAt, p.pending, p.heldAt, p.heldEnd = s.CommitAt, max(s.Pending, None), s.HeldAt, s.HeldEnd
	p.hotSince, p.peak, p.poolLate = s.HotSince, s.Peak, s.PoolLate
	if s.Gaps != nil {
		p.gaps = gaps{s.Gaps[0], s.Gaps[1], s.Gaps[2]}
	}
	for _, at := range s.Track[max(len(s.Track)-trackCap, 0):] {
		if p.track.n == 0 || at[0] > p.track.back(0).at {
			p.track.append(trackPoint{at[0], at[1], at[2]})
		}
	}
	p.hot.restore(s)
	p.hotTime.restore(s.HotTime, s.HotTimeN)
	if len(s.Usual) > 0 {
		p.slow = &usual{at: s.UsualAt}
		p.slow.restore(s.Usual)
	}
	for k := range p.conds {
		p.conds[k] = s.Conds[kindKeys[k]].restore()
	}
}

func (c *condition) state() CondState { return CondState{c.since, c.cleared} }

func (s CondState) restore() condition { return condition{max(s.Since, 0), max(s.Cleared, 0)} }

func (b *budget) state() (*[24]uint32, int64) {
	if b.buckets == ([24]uint32{}) {
		return nil, 0
	}
	buckets := b.buckets
	return &buckets, b.at
}

func (b *budget) restore(buckets *[24]uint32, at int64) {
	if buckets != nil && at >= 0 {
		*b = budget{*buckets, at}
	}
}

// restore takes a window of the same length, and counts its bits anew.
func (w *window) restore(s *PartitionState) {
	if s.Next < 0 || s.Next >= w.n || s.Filled < 0 || s.Filled > w.n {
		return
	}
	if len(s.Known) == 0 && len(s.Hot) == 0 {
		for range s.Filled {
			w.push(true, false)
		}
		return
	}
	if len(s.Known) != len(w.known) || len(s.Hot) != len(w.hot) {
		return
	}
	copy(w.known, s.Known)
	copy(w.hot, s.Hot)
	if tail := w.n % 64; tail != 0 {
		w.known[len(w.known)-1] &= 1<<tail - 1
	}
	for i := range w.hot {
		w.hot[i] &= w.known[i]
	}
	w.next, w.filled = s.Next, s.Filled
	w.knownCount, w.hotCount = w.count()
	w.filled = max(w.filled, w.knownCount)
}

// values are the usual delays, oldest first.
func (u *usual) values() []float32 {
	n := min(u.n, usualCap)
	out := make([]float32, 0, n)
	for i := u.n - n; i < u.n; i++ {
		out = append(out, u.delays[i%usualCap])
	}
	return out
}

func (u *usual) restore(values []float32) {
	for _, v := range values[max(len(values)-usualCap, 0):] {
		if !(v >= 0) || v > math.MaxInt32 {
			continue
		}
		u.delays[u.n%usualCap] = v
		u.n++
	}
	if u.n >= usualMin {
		u.p90, u.p90At = u.percentile90(), u.n
	}
}
