package lagwatch

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// engine turns snapshots into evaluations. It does no I/O, so that a recorded
// snapshot means what the live one meant.
type engine struct {
	cfg     *Config
	once    bool // no history: skip what needs it
	table   *routing.Table
	layouts map[string]layout
	logs    map[string]*topicLogs
	pairs   map[pairKey]*pairState
	order   []pairKey // of pairs, sorted
	named   map[string]attribution

	producers map[string]string // of hanging transactions, by alert

	moves       map[string]moveTimes
	inflow      map[string]*inflow
	findings    map[string]finding
	looks       map[string]StaleLook // by topic
	quarantined map[string]int64     // by topic
	placedSince map[string]time.Time
	routedSince map[string]tableSince // by topic
	parkedSince map[pairKey]time.Time
}

// pairKey is a (group, topic). The topic is empty for a group of which no
// topic is known yet.
type pairKey struct{ group, topic string }

type topicLogs struct {
	id   [16]byte
	logs []lag.Log
	size []size
}

type pairState struct {
	tracker *lag.Tracker
	owner   string
	loudest string // replaces the severity of what would page; empty: it stays
	rule    lag.Rule
	samples []lag.Sample
	verdict *lag.Verdict
}

func newEngine(cfg *Config) *engine {
	return &engine{
		cfg: cfg, layouts: map[string]layout{}, logs: map[string]*topicLogs{},
		pairs: map[pairKey]*pairState{}, named: map[string]attribution{}, producers: map[string]string{},
		moves: map[string]moveTimes{}, inflow: map[string]*inflow{}, findings: map[string]finding{}, looks: map[string]StaleLook{},
		quarantined: map[string]int64{}, placedSince: map[string]time.Time{}, routedSince: map[string]tableSince{},
		parkedSince: map[pairKey]time.Time{},
	}
}

// observe takes a snapshot into all trackers. Evaluation is built from them
// afterwards, when tenants have been looked up.
func (e *engine) observe(s *Snapshot) {
	e.useTable()
	e.followMoves(s.At)
	e.followTable(s.At)
	for i := range s.Topics {
		e.observeLogs(s.At, &s.Topics[i])
	}
	for i := range s.Groups {
		e.addPairs(&s.Groups[i])
	}
	for _, key := range e.order {
		e.observePair(s, key)
	}
	e.sweep(s)
	e.judgeStale(s)
	e.parked(s)
}

// useTable takes a new routing table into the pools.
func (e *engine) useTable() {
	if e.cfg.Table == nil {
		return
	}
	table := e.cfg.Table.Table()
	if table == e.table {
		return
	}
	e.table = table
	clear(e.layouts)
	for key, p := range e.pairs {
		p.tracker.SetPools(e.layout(key.topic).poolOf)
	}
}

func (e *engine) layout(topic string) layout {
	l, ok := e.layouts[topic]
	if !ok {
		l = layoutOf(e.table, topic, func(tenant string) string { name, _ := e.shown(tenant); return name })
		e.layouts[topic] = l
	}
	return l
}

// observeLogs takes one topic's offsets into its history.
func (e *engine) observeLogs(at time.Time, t *TopicSnapshot) {
	if !t.Known {
		return
	}
	l := e.logs[t.Topic]
	if l == nil {
		l = &topicLogs{}
		e.logs[t.Topic] = l
	}
	id := topicID(t.ID)
	if id != l.id {
		clear(l.logs)
		clear(l.size)
		l.id = id
	}
	for len(l.logs) < len(t.End) {
		l.logs = append(l.logs, lag.Log{})
	}
	for p, bytes := range t.Bytes {
		for p >= len(l.size) {
			l.size = append(l.size, size{})
		}
		if bytes >= 0 {
			l.size[p].observe(at, bytes)
		}
	}
	for p := range l.logs {
		start, end := offsetOf(t.Start, p), offsetOf(t.End, p)
		if start < 0 || end < 0 {
			continue
		}
		l.logs[p].Observe(at, start, end, max(offsetOf(t.Stable, p), lag.None))
		for _, past := range t.Past { // newest first
			switch o := offsetOf(past.Ends, p); {
			case o >= 0:
				l.logs[p].Seed(past.At, o)
			case o == None: // no record is newer
				l.logs[p].Seed(past.At, end)
			}
		}
	}
}

func hexID(id [16]byte) string {
	if id == ([16]byte{}) {
		return ""
	}
	return hex.EncodeToString(id[:])
}

func topicID(s string) (id [16]byte) {
	b, err := hex.DecodeString(s)
	if err == nil && len(b) == len(id) {
		copy(id[:], b)
	}
	return id
}

// addPairs makes trackers for what a group is newly known to read.
func (e *engine) addPairs(g *GroupSnapshot) {
	empty := pairKey{g.Group, ""}
	if len(g.Topics) == 0 {
		e.addPair(empty)
		return
	}
	delete(e.pairs, empty)
	for i := range g.Topics {
		e.addPair(pairKey{g.Group, g.Topics[i].Topic})
	}
	if len(e.order) != len(e.pairs) {
		e.order = slices.SortedFunc(maps.Keys(e.pairs), func(a, b pairKey) int {
			return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.topic, b.topic))
		})
	}
}

func (e *engine) addPair(key pairKey) {
	if _, ok := e.pairs[key]; ok {
		return
	}
	rule, o := e.cfg.override(key.group, key.topic)
	if e.once {
		rule.For, rule.DrainOK, rule.KeepFiring = 0, 0, 0
	}
	e.pairs[key] = &pairState{tracker: lag.NewTracker(rule, e.layout(key.topic).poolOf), owner: o.Owner, loudest: o.Severity, rule: rule}
	e.order = append(e.order, key)
	slices.SortFunc(e.order, func(a, b pairKey) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.topic, b.topic))
	})
}

// loud is an alert's severity under the overrides. What is about to be deleted
// always pages.
func (p *pairState) loud(alert string, severity lag.Severity) string {
	lower := p.loudest == lag.Ticket.String()
	if severity < lag.Page || p.loudest == "" || lower && alert == lag.AlertLossRisk {
		return severity.String()
	}
	return p.loudest
}

// observePair takes one (group, topic) through the rule.
func (e *engine) observePair(s *Snapshot, key pairKey) {
	p := e.pairs[key]
	r := lag.Round{At: s.At}
	p.samples = p.samples[:0]
	t := s.topic(key.topic)
	if t != nil {
		r.Retention, r.TopicID = t.Retention, topicID(t.ID)
	}
	if g, ok := s.group(key.group); ok {
		r.Group = lag.GroupSample{Known: g.Known && g.CommitsKnown, Members: g.Members, Rebalancing: g.Rebalancing, Missing: g.Missing}
		r.Group.Claims = e.claims(g, key.topic)
		if c, ok := g.topic(key.topic); ok {
			p.samples = e.samples(p, s.At, c, t)
		}
	}
	r.Samples = p.samples
	p.verdict = p.tracker.Observe(&r)
}

// claims is how many partitions a group's members can hold, told with its
// first topic alone; 0 when it cannot be known.
func (e *engine) claims(g *GroupSnapshot, topic string) (n int) {
	if len(g.Topics) == 0 || g.Topics[0].Topic != topic {
		return 0
	}
	for i := range g.Topics {
		l := e.logs[g.Topics[i].Topic]
		if l == nil {
			return 0
		}
		n += len(l.logs)
	}
	return n
}

// samples joins what a group committed with what the logs hold.
func (e *engine) samples(pair *pairState, at time.Time, c *CommitsSnapshot, t *TopicSnapshot) []lag.Sample {
	out := pair.samples
	var logs []lag.Log
	if l := e.logs[c.Topic]; l != nil {
		logs = l.logs
	}
	n := max(len(c.Commits), len(logs))
	owned, moving := c.Owned, e.moving(at, c.Topic, c)
	for p := range n {
		s := lag.Sample{Partition: int32(p)}
		for len(owned) > 0 && owned[0] < s.Partition {
			owned = owned[1:]
		}
		s.Owned = len(owned) > 0 && owned[0] == s.Partition
		_, s.Moving = slices.BinarySearch(moving, s.Partition)
		commit := offsetOf(c.Commits, p)
		if t != nil && t.Known && commit != Unread && offsetOf(t.Start, p) >= 0 && offsetOf(t.End, p) >= 0 {
			fill(&s, at, c, t, &logs[p])
			s.Owner, s.Leader, s.ByteRate = at32(c.Owners, p), at32(t.Leaders, p), e.byteRate(c.Topic, p)
			s.Hanging = logs[p].Hanging(at, pair.rule.TxnHanging)
		}
		out = append(out, s)
	}
	return out
}

// byteRate is how many bytes per second come into a partition; 0: unknown.
func (e *engine) byteRate(topic string, p int) float64 {
	if l := e.logs[topic]; l != nil && p < len(l.size) {
		return l.size[p].rate
	}
	return 0
}

// fill completes the sample of a partition of which both sides were read.
func fill(s *lag.Sample, at time.Time, c *CommitsSnapshot, t *TopicSnapshot, log *lag.Log) {
	p := int(s.Partition)
	s.Known = true
	s.Start, s.End, s.Stable = offsetOf(t.Start, p), offsetOf(t.End, p), max(offsetOf(t.Stable, p), lag.None)
	s.Committed = max(offsetOf(c.Commits, p), lag.None)
	s.Runnable = s.Committed
	if r := offsetOf(c.Runnable, p); r > s.Committed {
		s.Runnable = r
	}
	s.Visible = max(offsetOf(c.Visible, p), lag.None)
	s.Quiet = log.Quiet(at)
	s.LossIn = log.LossIn(at, s.Committed, t.Retention)
	if s.Committed == lag.None {
		return
	}
	s.Delay, s.DelayBound = log.Delay(at, s.First())
	if lane := offsetOf(c.Lanes, p); lane >= 0 {
		s.LaneDelay, _ = log.Delay(at, lane)
	}
}

// probes lists partitions that a read_committed look would decide.
func (e *engine) probes(limit int) (out []probe) {
	for _, key := range e.order {
		for _, pool := range e.pairs[key].verdict.Pools {
			for _, p := range pool.Partitions {
				if !p.Probe || len(out) >= limit {
					continue
				}
				if ev, ok := e.pairs[key].tracker.Evidence(p.Partition); ok {
					out = append(out, probe{pairKey: key, partition: p.Partition, from: ev.First})
				}
			}
		}
	}
	return out
}

// probe is a look at what a read_committed consumer would be given.
type probe struct {
	pairKey
	partition int32
	from      int64
}
