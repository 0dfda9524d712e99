package lag

import "time"

// Verdict is what a round means. It belongs to its tracker and is overwritten
// by the next round.
type Verdict struct {
	At     time.Time
	Pools  []PoolVerdict
	Alerts []Alert
}

// PoolVerdict is one pool, with its partitions in order.
type PoolVerdict struct {
	Name string
	// Baseline is what the partition with the largest lag is compared with.
	Baseline float64
	// Skew is the largest lag over the lower median (at least one record).
	Skew float64
	// InflowSkew and HandledSkew are the largest rate over the lower median of
	// records that come in, and that are done; 0 when hardly any do.
	InflowSkew, HandledSkew float64
	// ByteSkew is the same for bytes that come in; MemberSkew and BrokerSkew are
	// the largest of the three per member of the group and per leader.
	ByteSkew, MemberSkew, BrokerSkew float64
	// MedianDelay is the lower median of the delays.
	MedianDelay time.Duration
	// Unknown is how many partitions this round did not see.
	Unknown    int
	Partitions []PartitionVerdict
}

// PartitionVerdict is one partition. Lag, Delay and Ratio mean something only
// when Known.
type PartitionVerdict struct {
	Partition int32
	Known     bool
	// Committed is false for a partition whose group never committed it.
	Committed bool
	Lag       int64
	Delay     time.Duration
	// DelayBound: the delay is at least Delay.
	DelayBound bool
	Ratio      float64
	Class      Class
	Hold       Hold
	// Firing is true when an alert about this partition is open.
	Firing bool
	// Probe asks for a read_committed look from the commit on.
	Probe bool
}

// Alert is one firing alert of a pool, or of the whole (group, topic) when
// Pool is empty. Name and Pool identify it; the rest changes.
type Alert struct {
	Name, Pool string
	Severity   Severity
	Since      time.Time
	Partitions []int32
	// Uneven says of a skew what is uneven, per what; Ratio how much.
	Uneven string
	Ratio  float64
}

// report writes the verdict from the state.
func (t *Tracker) report(now time.Time) {
	v := &t.verdict
	v.At = now
	v.Pools, v.Alerts, t.spare = v.Pools[:0], v.Alerts[:0], t.spare[:0]
	for _, p := range t.pools {
		from := len(t.spare)
		pv := PoolVerdict{
			Name: p.name, MedianDelay: p.peers.medianDelay, Unknown: p.unknown,
			InflowSkew: p.skew.ratios[perPartition][ofInflow], HandledSkew: p.skew.ratios[perPartition][ofHandled],
			ByteSkew: p.skew.ratios[perPartition][ofBytes], MemberSkew: p.skew.most(perMember), BrokerSkew: p.skew.most(perBroker),
		}
		worst := int64(-1)
		for _, m := range p.members {
			t.spare = append(t.spare, t.describe(m, p))
			if m.measured && m.lag > worst {
				worst = m.lag
				pv.Baseline = m.baseline
				pv.Skew = float64(m.lag) / max(float64(p.peers.medianLag), 1)
			}
		}
		pv.Partitions = t.spare[from:len(t.spare):len(t.spare)]
		v.Pools = append(v.Pools, pv)
		t.alertPool(p)
	}
	t.alertGroup()
}

func (t *Tracker) describe(p *partition, pool *pool) PartitionVerdict {
	v := PartitionVerdict{
		Partition: p.id, Known: p.cur.Known, Class: t.classOf(p, pool), Hold: p.hold,
		Committed: p.measured || !p.cur.Known && p.committed != None,
	}
	if p.cur.Known {
		v.Lag, v.Delay, v.DelayBound = p.lag, p.delay, p.cur.DelayBound
		v.Ratio, v.Probe = p.ratio(), p.doubtful(t.now)
	}
	for k := range p.conds {
		v.Firing = v.Firing || p.conds[k].firing()
	}
	return v
}

// alertPool adds the alerts of a pool's partitions, one per name, and of the
// pool itself.
func (t *Tracker) alertPool(p *pool) {
	first := len(t.verdict.Alerts)
	for _, m := range p.members {
		for k := range m.conds {
			if m.conds[k].firing() && !t.silenced(kind(k)) {
				a := t.alertFor(first, kindAlert[k].name, p.name)
				a.join(m.id, t.severityOf(kind(k), m), m.conds[k].since)
			}
		}
	}
	if p.behind.firing() {
		severity := Ticket
		if t.rule.BehindPages {
			severity = Page
		}
		t.addAlert(AlertBehind, p.name, severity, &p.behind)
	}
	if p.skew.firing() {
		a := t.addAlert(AlertSkew, p.name, Ticket, &p.skew.condition)
		for id := range p.concerned {
			a.join(id, Ticket, p.skew.since)
		}
		a.Uneven, a.Ratio = p.skew.worst.String(), p.skew.ratios[p.skew.worst.per][p.skew.worst.of]
	}
	if p.blind.firing() && !t.groupBlind.firing() { // else only a consequence of it
		t.addAlert(AlertBlind, p.name, Page, &p.blind.condition)
	}
}

// silenced is true for what is only a consequence of an open alert: of a group
// without members every partition is stuck.
func (t *Tracker) silenced(k kind) bool { return k == kindStuck && t.gone.firing() }

func (t *Tracker) alertGroup() {
	for _, c := range []struct {
		name     string
		severity Severity
		c        *condition
	}{
		{AlertGone, Page, &t.gone.condition},
		{AlertReset, Ticket, &t.reset},
		{AlertRebalanceStuck, Ticket, &t.rebalanceStuck},
		{AlertIdleMembers, Ticket, &t.idle},
		{AlertBlind, Page, &t.groupBlind.condition},
	} {
		if c.c.firing() {
			t.addAlert(c.name, "", c.severity, c.c)
		}
	}
}

func (t *Tracker) severityOf(k kind, p *partition) Severity {
	switch {
	case k == kindHot && t.rule.CriticalRatio > 0 && p.ratio() >= t.rule.CriticalRatio:
		return Critical
	case k == kindLane && t.rule.MaxDelay > 0 && p.cur.LaneDelay >= t.rule.MaxDelay:
		return Page
	}
	return kindAlert[k].severity
}

// alertFor finds the alert of that name among those added since first, or adds
// it.
func (t *Tracker) alertFor(first int, name, pool string) *Alert {
	for i := first; i < len(t.verdict.Alerts); i++ {
		if t.verdict.Alerts[i].Name == name {
			return &t.verdict.Alerts[i]
		}
	}
	return t.addAlert(name, pool, Ticket, nil)
}

// addAlert appends an alert and reuses the memory of an earlier round's.
func (t *Tracker) addAlert(name, pool string, severity Severity, c *condition) *Alert {
	n := len(t.verdict.Alerts)
	if n < cap(t.verdict.Alerts) {
		t.verdict.Alerts = t.verdict.Alerts[:n+1]
	} else {
		t.verdict.Alerts = append(t.verdict.Alerts, Alert{})
	}
	a := &t.verdict.Alerts[n]
	*a = Alert{Name: name, Pool: pool, Severity: severity, Partitions: a.Partitions[:0]}
	if c != nil {
		a.Since = at(c.since)
	}
	return a
}

func (a *Alert) join(partition int32, severity Severity, since int64) {
	if n := len(a.Partitions); n == 0 || a.Partitions[n-1] != partition {
		a.Partitions = append(a.Partitions, partition)
	}
	a.Severity = max(a.Severity, severity)
	if s := at(since); a.Since.IsZero() || s.Before(a.Since) {
		a.Since = s
	}
}
