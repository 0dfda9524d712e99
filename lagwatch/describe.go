package lagwatch

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// evaluate builds the evaluation of the last observed snapshot.
func (e *engine) evaluate(s *Snapshot) *Evaluation {
	out := &Evaluation{At: s.At, Cluster: s.Cluster, Errors: s.Errors, Blind: s.Incomplete, Groups: []PoolEvaluation{}}
	if e.once {
		out.Skipped = []string{"for", "drain_ok", "recovering"}
	}
	live := map[string]bool{}
	wide := e.wideAlerts()
	for _, key := range e.order {
		e.evaluatePair(out, s, key, wide, live)
	}
	e.evaluateTopics(out, s)
	maps.DeleteFunc(e.named, func(id string, _ attribution) bool { return !live[id] })
	maps.DeleteFunc(e.producers, func(id, _ string) bool { return !live[id] })
	return out
}

func (e *engine) evaluatePair(out *Evaluation, s *Snapshot, key pairKey, wide map[string]*wideAlert, live map[string]bool) {
	p := e.pairs[key]
	g, _ := s.group(key.group)
	if g == nil {
		g = &GroupSnapshot{Group: key.group}
	}
	out.Blind = out.Blind || !g.Known || !g.CommitsKnown || g.Missing
	pools := p.verdict.Pools
	if len(pools) == 0 { // a group that is known by name alone
		pools = []lag.PoolVerdict{{}}
	}
	for i := range pools {
		pool := poolEvaluation(key, g, &pools[i])
		out.Unknown += pools[i].Unknown
		for j := range p.verdict.Alerts {
			a := &p.verdict.Alerts[j]
			switch {
			case a.Pool == pools[i].Name:
				live[alertID(key, a)] = true
				e.fire(out, &pool, s, key, a)
			case a.Pool != "" || i > 0:
			case ofGroup(a):
				if w := wide[a.Name+"\x00"+key.group]; w.first == key {
					e.add(out, &pool, e.groupAlert(s, key, w))
				}
			default:
				e.fire(out, &pool, s, key, a)
			}
		}
		out.Groups = append(out.Groups, pool)
	}
	out.Blind = out.Blind || out.Unknown > 0
}

func poolEvaluation(key pairKey, g *GroupSnapshot, v *lag.PoolVerdict) PoolEvaluation {
	pool := PoolEvaluation{
		Group: key.group, Topic: key.topic, Pool: v.Name, Baseline: rounded(v.Baseline), Skew: rounded(v.Skew),
		InflowSkew: rounded(v.InflowSkew), HandledSkew: rounded(v.HandledSkew),
		ByteSkew: rounded(v.ByteSkew), MemberSkew: rounded(v.MemberSkew), BrokerSkew: rounded(v.BrokerSkew),
		Members: g.Members, State: g.State, Firing: []Firing{}, Partitions: make([]PartitionEvaluation, len(v.Partitions)),
	}
	for i, p := range v.Partitions {
		pool.Partitions[i] = PartitionEvaluation{
			Partition: p.Partition, Known: p.Known, Committed: p.Committed, Lag: p.Lag, Delay: p.Delay,
			DelayBound: p.DelayBound, Ratio: p.Ratio, Class: p.Class, Hold: p.Hold, Firing: p.Firing,
		}
	}
	return pool
}

// fire adds one alert to the pool and to what is delivered, and the ticket
// that one tenant dominates it.
func (e *engine) fire(out *Evaluation, pool *PoolEvaluation, s *Snapshot, key pairKey, a *lag.Alert) {
	who := e.named[alertID(key, a)]
	alert := e.alert(s, key, a, who)
	e.add(out, pool, alert)
	if who.dominates() && a.Pool == lag.SharedPool {
		alert.Name, alert.Severity = lag.AlertDominates, lag.Ticket.String()
		alert.Runbook = e.runbook(lag.AlertDominates)
		alert.Summary = fmt.Sprintf("Tenant %s is %.0f %% of what waits in %s of %s (group %s): at least %.0f %% by a sample of %d records.",
			alert.Tenant, 100*who.share, partitionsText(a.Partitions), key.topic, key.group, 100*who.atLeast, who.n)
		for _, f := range pool.Firing { // several alerts, one tenant
			if f.Alert == lag.AlertDominates {
				return
			}
		}
		e.add(out, pool, alert)
	}
}

func (e *engine) add(out *Evaluation, pool *PoolEvaluation, a notify.Alert) {
	a.Impact = impact(a.Name)
	pool.Firing = append(pool.Firing, firingOf(&a))
	out.alerts = append(out.alerts, a)
}

// alert is one alert with everything a person needs.
func (e *engine) alert(s *Snapshot, key pairKey, a *lag.Alert, who attribution) notify.Alert {
	p := e.pairs[key]
	out := notify.Alert{
		Name: a.Name, Cluster: s.Cluster, Group: key.group, Topic: key.topic, Pool: a.Pool,
		Severity: p.loud(a.Name, a.Severity), Since: a.Since, Partitions: append([]int32{}, a.Partitions...),
		Owner: p.owner, Runbook: e.runbook(a.Name), Share: who.share,
	}
	out.Tenant, out.TenantHex = e.shown(who.tenant)
	first := worst(p.tracker, a.Partitions, 1)
	if len(first) == 0 {
		out.Summary = groupSummary(&out)
		return out
	}
	ev := first[0]
	out.Class = ev.Class.String()
	out.Values = values(&ev)
	out.Summary = summary(&out, &ev)
	if producer := e.producers[alertID(key, a)]; producer != "" {
		out.Summary += " It is the transaction of " + producer + "."
	}
	if a.Uneven != "" {
		out.Summary = fmt.Sprintf("%s of %s (group %s): %s are %.1f times the median of the pool for more than ten minutes.",
			capital(partitionsText(a.Partitions)), key.topic, key.group, a.Uneven, a.Ratio)
	}
	out.Commands = e.commands(key, &ev, who)
	if who.proposal != nil && !e.cfg.HashTenants {
		_, about := who.proposal.words(key.topic, who.tenant)
		out.Summary += about
	}
	return out
}

func (e *engine) runbook(alert string) string { return e.cfg.RunbookURL + alert + ".md" }

func values(ev *lag.Evidence) map[string]float64 {
	out := map[string]float64{
		"lag": float64(ev.Lag), "baseline": rounded(ev.Baseline), "ratio": rounded(ev.Ratio), "delay_s": rounded(ev.Delay.Seconds()),
		"inflow_per_s": rounded(ev.Inflow), "outflow_per_s": rounded(ev.Outflow), "commit_age_s": rounded(ev.CommitAge.Seconds()),
	}
	if ev.Drain >= 0 {
		out["drain_s"] = rounded(ev.Drain.Seconds())
	}
	if ev.LossIn >= 0 {
		out["loss_s"] = rounded(ev.LossIn.Seconds())
	}
	return out
}

// summary is the sentence of an alert about partitions; ev is the worst one.
func summary(a *notify.Alert, ev *lag.Evidence) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s (group %s): %s.", capital(partitionsText(a.Partitions)), a.Topic, a.Group, whatHappened(a.Name))
	fmt.Fprintf(&b, " Partition %d is %d records behind, %.1f times its peers' baseline, %s%s late;",
		ev.Partition, ev.Lag, ev.Ratio, atLeast(ev.DelayBound), short(ev.Delay))
	fmt.Fprintf(&b, " %.0f records/s come in, %.0f go out", ev.Inflow, ev.Outflow)
	switch {
	case ev.Drain >= 0:
		fmt.Fprintf(&b, ", %s to catch up.", short(ev.Drain))
	default:
		b.WriteString(", it does not catch up.")
	}
	if ev.LossIn >= 0 {
		fmt.Fprintf(&b, " Retention reaches it in %s.", short(ev.LossIn))
	}
	if a.Tenant != "" {
		fmt.Fprintf(&b, " Tenant %s is %.0f %% of what waits.", a.Tenant, 100*a.Share)
	}
	return b.String()
}

// whatHappened says an alert in words.
func whatHappened(name string) string {
	switch name {
	case lag.AlertHot:
		return "far behind its peers"
	case lag.AlertStuck:
		return "its commit does not move"
	case lag.AlertSlow:
		return "later than it ever was in a week"
	case lag.AlertLossRisk:
		return "retention is about to delete what was not read"
	case lag.AlertLost:
		return "retention deleted what was not read"
	case lag.AlertRewind:
		return "its commit went back"
	case lag.AlertNoCommit:
		return "a member holds it and never committed"
	case lag.AlertTxnHanging:
		return "a transaction that is not ended holds readers back"
	case lag.AlertLaneBehind:
		return "a lane is far behind the others"
	case lag.AlertBehind:
		return "the whole pool is late"
	case lag.AlertSkew:
		return "it takes more than three times the median of its pool"
	}
	return name
}

// groupSummary is the sentence of an alert about a pool or group as a whole.
func groupSummary(a *notify.Alert) string {
	where := fmt.Sprintf("Group %s", a.Group)
	if a.Topic != "" {
		where += ", topic " + a.Topic
	}
	if a.Pool != "" {
		where += ", pool " + a.Pool
	}
	switch a.Name {
	case lag.AlertBlind:
		return where + ": the watcher cannot see it, so nothing is known about it."
	case lag.AlertGone:
		return where + ": the group had members and has none, and records keep coming."
	case lag.AlertReset:
		return where + ": the topic was deleted and made again; its history starts over."
	case lag.AlertBehind:
		return where + ": the pool as a whole is late."
	case lag.AlertIdleMembers:
		return where + ": it has more members than there are partitions to hold."
	case lag.AlertRebalanceStuck:
		return where + ": it has been rebalancing for more than 5 of 30 minutes."
	}
	return where + ": " + a.Name
}

// commands are what to run, the look before the act.
func (e *engine) commands(key pairKey, ev *lag.Evidence, who attribution) []string {
	explain := []string{"tenantlane", "lagwatch", "explain", key.group, key.topic, fmt.Sprint(ev.Partition)}
	if e.cfg.StateFile != "" {
		explain = append(explain, "--state", e.cfg.StateFile)
	}
	out := []string{e.command(explain...)}
	if who.tenant == "" || e.cfg.HashTenants || e.table == nil {
		return out
	}
	if _, ok := e.table.Topic(key.topic); !ok {
		return out
	}
	if who.proposal != nil {
		words, _ := who.proposal.words(key.topic, who.tenant)
		return append(out, e.command(words...))
	}
	if to, ok := e.quietest(key, ev.Partition); ok {
		out = append(out, e.command(append(moveStart(who.tenant), "--topic", key.topic, "--to", fmt.Sprint(to))...))
	}
	return out
}

// moveStart begins the command that moves a tenant.
func moveStart(tenant string) []string {
	if shown := printable(tenant); shown != tenant {
		return []string{"tenantlane", "move", "start", strings.TrimPrefix(shown, "0x"), "--hex"}
	}
	return []string{"tenantlane", "move", "start", tenant}
}

// command is a line that can be pasted: words, and the flags that reach this
// cluster and its table.
func (e *engine) command(words ...string) string {
	words = append(words, e.cfg.CommandFlags...)
	for i, w := range words {
		words[i] = quote(w)
	}
	return strings.Join(words, " ")
}

// quietest is the known partition with the least lag in the same pool.
func (e *engine) quietest(key pairKey, from int32) (int32, bool) {
	best, least := int32(-1), int64(0)
	for _, pool := range e.pairs[key].verdict.Pools {
		in := false
		for _, p := range pool.Partitions {
			in = in || p.Partition == from
		}
		if !in {
			continue
		}
		for _, p := range pool.Partitions {
			if p.Known && p.Committed && p.Partition != from && (best < 0 || p.Lag < least) {
				best, least = p.Partition, p.Lag
			}
		}
	}
	return best, best >= 0
}

// quote makes a word safe for a POSIX shell.
func quote(s string) string {
	plain := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/@%+=,", r))
	}
	if s != "" && !strings.ContainsFunc(s, plain) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func partitionsText(ps []int32) string {
	const most = 8
	if len(ps) == 1 {
		return fmt.Sprintf("partition %d", ps[0])
	}
	var b strings.Builder
	b.WriteString("partitions ")
	for i, p := range ps {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(ps)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, p)
	}
	return b.String()
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func atLeast(bound bool) string {
	if bound {
		return "at least "
	}
	return ""
}

// short is a duration as people say it.
func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Minute)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
