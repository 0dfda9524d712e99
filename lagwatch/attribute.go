package lagwatch

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/internal/sketch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// attribution is whose records an alert is about.
type attribution struct {
	tenant     string
	share      float64 // of the sampled records, weighted by each partition's lag
	atLeast    float64 // Wilson lower bound of the share
	n          int     // records looked at
	at         time.Time
	partitions []int32
	proposal   *proposal // what a plan would do about it
}

// A share says something from this many records on, and the tenant dominates
// from this lower bound on.
const (
	dominatesMin   = 100
	dominatesShare = 0.5
)

func (a attribution) dominates() bool { return a.n >= dominatesMin && a.atLeast >= dominatesShare }

const (
	attributeWorst = 4               // partitions looked at per alert
	attributeEvery = time.Minute     // how long an attribution is believed
	attributeTime  = 5 * time.Second // for all looks of a round
	sketchSize     = 256
)

// question asks who fills some partitions.
type question struct {
	pairKey
	alert      string // its dedup identity
	partitions []lag.Evidence
}

// attributable are the alerts that some tenant may have caused.
func attributable(name string) bool {
	switch name {
	case lag.AlertHot, lag.AlertStuck, lag.AlertSlow, lag.AlertLossRisk, lag.AlertLaneBehind:
		return true
	}
	return false
}

// questions lists the open alerts whose tenant is not known or no longer sure.
func (e *engine) questions(now time.Time) (out []question) {
	for _, key := range e.order {
		p := e.pairs[key]
		for i := range p.verdict.Alerts {
			a := &p.verdict.Alerts[i]
			if !attributable(a.Name) {
				continue
			}
			id := alertID(key, a)
			known, ok := e.named[id]
			if ok && now.Sub(known.at) < attributeEvery && slices.Equal(known.partitions, a.Partitions) {
				continue
			}
			out = append(out, question{key, id, worst(p.tracker, a.Partitions, attributeWorst)})
		}
	}
	return out
}

func alertID(key pairKey, a *lag.Alert) string {
	return a.Name + "\x00" + key.group + "\x00" + key.topic + "\x00" + a.Pool
}

// worst is the evidence of the partitions with the largest lag first.
func worst(t *lag.Tracker, partitions []int32, n int) (out []lag.Evidence) {
	for _, p := range partitions {
		if e, ok := t.Evidence(p); ok {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b lag.Evidence) int { return cmp.Compare(b.Lag, a.Lag) })
	return out[:min(n, len(out))]
}

// answer reads samples of the partitions' backlogs and names the largest
// tenant of them.
func answer(ctx context.Context, r *sample.Reader, q question, l layout) (attribution, error) {
	top := sketch.New(sketchSize)
	n := 0
	var errs []error
	for _, ev := range q.partitions {
		var tenants [][]byte
		count, err := r.Random(ctx, q.topic, ev.Partition, ev.First, ev.End, func(rec *kgo.Record) {
			if tenant, ok := l.tenantOf(rec); ok {
				tenants = append(tenants, tenant)
			}
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		n += count
		for _, tenant := range tenants { // each stands for lag/count records
			top.Add(tenant, uint64(max(ev.Lag*weightScale/int64(count), 1)))
		}
	}
	if n == 0 || top.Len() == 0 {
		return attribution{}, errors.Join(errs...)
	}
	first := top.Top(1)[0]
	share := float64(first.Count-first.Err) / float64(top.Total())
	return attribution{tenant: first.Key, share: share, atLeast: wilsonLower(share, n), n: n}, errors.Join(errs...)
}

// weightScale keeps the fraction when a lag is divided among samples.
const weightScale = 1000

// name records an answer for the alert that was asked about.
func (e *engine) name(q question, a attribution, now time.Time) {
	a.at = now
	for _, al := range e.pairs[q.pairKey].verdict.Alerts {
		if alertID(q.pairKey, &al) == q.alert {
			a.partitions = slices.Clone(al.Partitions)
		}
	}
	if p, ok := e.propose(q.topic, a.tenant); ok {
		a.proposal = &p
	}
	e.named[q.alert] = a
}

// shown is how a tenant appears outside, with its hex when it is not text.
func (e *engine) shown(tenant string) (name, hexName string) {
	if tenant == "" {
		return "", ""
	}
	if e.cfg.HashTenants {
		return pseudonym(tenant), ""
	}
	if name = printable(tenant); name != tenant {
		hexName = hex.EncodeToString([]byte(tenant))
	}
	return name, hexName
}
