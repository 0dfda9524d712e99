package lagwatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// TopicEvaluation is what is known of a topic whoever reads it.
type TopicEvaluation struct {
	Topic string `json:"topic"`
	// Top are the tenants of which most records arrive, largest first.
	Top []TenantShare `json:"top,omitempty"`
	// Moves are those that the table holds and that are not long over.
	Moves []MoveEvaluation `json:"moves,omitempty"`
	// Firing are what sweeps found about the topic.
	Firing []Firing `json:"firing"`
}

// TenantShare is a tenant's part of what arrives in a topic.
type TenantShare struct {
	Tenant    string  `json:"tenant"`
	TenantHex string  `json:"tenant_hex,omitempty"`
	Share     float64 `json:"share"`
	// PerSecond is its records per second.
	PerSecond float64 `json:"per_s"`
}

// evaluateTopics adds the topics about which there is anything to say, and the
// alerts of sweeps.
func (e *engine) evaluateTopics(out *Evaluation, s *Snapshot) {
	topics := map[string]*TopicEvaluation{}
	of := func(name string) *TopicEvaluation {
		if topics[name] == nil {
			topics[name] = &TopicEvaluation{Topic: name, Firing: []Firing{}}
		}
		return topics[name]
	}
	if e.table != nil {
		for _, name := range e.table.TopicNames() {
			t, _ := e.table.Topic(name)
			if moves := e.evaluateMoves(s, t); len(moves) > 0 {
				of(name).Moves = moves
			}
		}
	}
	for name, in := range e.inflow {
		if top := in.top(e, s.At); len(top) > 0 {
			of(name).Top = top
		}
	}
	for _, f := range e.openFindings() {
		a := e.findingAlert(s.Cluster, f)
		t := of(f.Topic)
		t.Firing = append(t.Firing, firingOf(&a))
		out.alerts = append(out.alerts, a)
	}
	for _, t := range topics {
		out.Topics = append(out.Topics, *t)
	}
	slices.SortFunc(out.Topics, func(a, b TopicEvaluation) int { return cmp.Compare(a.Topic, b.Topic) })
}

func firingOf(a *notify.Alert) Firing {
	return Firing{
		Alert: a.Name, Partitions: a.Partitions, Tenant: a.Tenant, TenantHex: a.TenantHex, Share: rounded(a.Share),
		Severity: a.Severity, Since: a.Since, Summary: a.Summary,
	}
}

// perSecond is a count over a time as a rate.
func perSecond(n float64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return n / d.Seconds()
}
