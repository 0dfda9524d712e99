package lagwatch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
)

// proposal is what a plan would do about a tenant, by what arrives now.
type proposal struct {
	to            []int32
	spread        routing.Spread
	before, after float64 // largest partition over the mean
}

// tailPieces stand for the tenants that a sketch does not keep.
const tailPieces = 1024

// propose plans the topic by its inflow; false when nothing is known of it, or
// the tenant is none that the plan would place elsewhere.
func (e *engine) propose(topic, tenant string) (proposal, bool) {
	t, in := e.tableTopic(topic), e.inflow[topic]
	if t == nil || in == nil {
		return proposal{}, false
	}
	s := in.both()
	var volumes []plan.Volume
	rest := float64(s.Total())
	for _, entry := range s.Top(-1) {
		count := float64(entry.Count - entry.Err)
		volumes = append(volumes, plan.Volume{Tenant: entry.Key, Volume: count})
		rest -= count
	}
	for i := range tailPieces {
		volumes = append(volumes, plan.Volume{Tenant: "\x00tail\x00" + strconv.Itoa(i), Volume: max(rest, 0) / tailPieces})
	}
	current := plan.LayoutOf(t)
	best, err := plan.Whales(volumes, plan.WhalesConfig{
		Partitions: t.Partitions(), Hash: t.Hash(), Spread: routing.SpreadKey, Target: 1.2, Current: &current,
	})
	if err != nil {
		return proposal{}, false
	}
	for _, w := range best.Whales {
		if w.Tenant == tenant && !samePlace(t, tenant, w.Partitions) {
			return proposal{w.Partitions, w.Spread, best.Before.MaxMean, best.After.MaxMean}, true
		}
	}
	return proposal{}, false
}

func samePlace(t *routing.Topic, tenant string, partitions []int32) bool {
	p, placed := t.Placement(tenant)
	return placed && fmt.Sprint(p.Partitions) == fmt.Sprint(partitions)
}

// words are the proposal as a command, and what it is about.
func (p *proposal) words(topic, tenant string) (command []string, about string) {
	to := make([]string, len(p.to))
	for i, partition := range p.to {
		to[i] = strconv.Itoa(int(partition))
	}
	command = append(moveStart(tenant), "--topic", topic, "--to", strings.Join(to, ","))
	what := "moves it to partition " + to[0]
	if len(p.to) > 1 {
		command = append(command, "--spread", p.spread.String())
		what = fmt.Sprintf("spreads it over %d partitions, in order per key only", len(p.to))
	}
	return command, fmt.Sprintf(" A plan by what arrives now %s: the fullest partition from %.1f to %.1f times the mean.", what, p.before, p.after)
}
