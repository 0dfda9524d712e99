package lagwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The two ways to describe a group.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

// listGroups adds the groups of every broker that answers to the inventory. A
// broker that does not answer makes the snapshot incomplete: it may coordinate
// groups that nobody else knows.
func (r *round) listGroups(ctx context.Context) {
	if !r.cfg.lists() {
		return
	}
	complete := r.shards(ctx, kmsg.NewPtrListGroupsRequest(), "listing groups", func(resp kmsg.Response) {
		list := resp.(*kmsg.ListGroupsResponse)
		if err := kerr.ErrorForCode(list.ErrorCode); err != nil {
			r.fail("listing groups", err)
			r.incomplete()
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, g := range list.Groups {
			if strings.EqualFold(g.GroupType, "share") || g.ProtocolType == "share" || !r.cfg.watchesGroup(g.Group) {
				continue
			}
			r.inv.group(g.Group).Type = strings.ToLower(g.GroupType)
		}
	})
	if !complete {
		r.incomplete()
	}
}

func (r *round) incomplete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snap.Incomplete = true
}

// describe asks each group's coordinator about its members. The API that a
// group is not described by says GROUP_ID_NOT_FOUND, so a group is missing
// only when both say so.
func (r *round) describe(ctx context.Context) {
	var classic, consumer []string
	for _, name := range r.inv.groupNames() {
		if r.inv.groups[name].Type == typeConsumer {
			consumer = append(consumer, name)
		} else {
			classic = append(classic, name)
		}
	}
	notClassic := r.describeClassic(ctx, classic)
	notConsumer, supported := r.describeConsumer(ctx, slices.Concat(consumer, notClassic))
	if !supported {
		r.missing(notClassic)
		return
	}
	var again []string // was a KIP-848 group, perhaps a classic one now
	for _, name := range notConsumer {
		if slices.Contains(consumer, name) {
			again = append(again, name)
		}
	}
	r.missing(slices.Concat(r.describeClassic(ctx, again), intersect(notConsumer, notClassic)))
}

func intersect(a, b []string) (out []string) {
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// missing records groups that neither API knows.
func (r *round) missing(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		g := r.groupAt[name]
		g.Known, g.Missing, g.State = true, true, "Dead"
	}
}

// describeClassic describes groups and returns those that it does not know.
func (r *round) describeClassic(ctx context.Context, names []string) (unknown []string) {
	if len(names) == 0 {
		return nil
	}
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = names
	r.shards(ctx, req, "describing groups", func(resp kmsg.Response) {
		for _, g := range resp.(*kmsg.DescribeGroupsResponse).Groups {
			err := kerr.ErrorForCode(g.ErrorCode)
			switch {
			case errors.Is(err, kerr.GroupIDNotFound), err == nil && g.State == "Dead":
				unknown = append(unknown, g.Group)
			case err != nil:
				r.fail(fmt.Sprintf("describing group %q", g.Group), err)
			default:
				r.takeClassic(&g)
			}
		}
	})
	return unknown
}

func (r *round) takeClassic(g *kmsg.DescribeGroupsResponseGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, asked := r.groupAt[g.Group]
	if !asked {
		return
	}
	r.inv.groups[g.Group].Type = typeClassic
	out.Known, out.State, out.Protocol, out.Members = true, g.State, typeClassic, len(g.Members)
	out.Rebalancing = g.State == "PreparingRebalance" || g.State == "CompletingRebalance"
	if g.ProtocolType != "consumer" {
		return
	}
	for i, m := range g.Members {
		var a kmsg.ConsumerMemberAssignment
		if a.ReadFrom(m.MemberAssignment) != nil {
			continue
		}
		for _, t := range a.Topics {
			r.own(out, i, t.Topic, t.Partitions)
		}
	}
}

// own records what a member holds, and that there is such a pair; mu is held.
func (r *round) own(g *GroupSnapshot, member int, topic string, partitions []int32) {
	if topic == "" || !r.cfg.watchesTopic(topic) {
		return
	}
	r.inv.pair(g.Group, topic)
	t := g.ensure(topic)
	t.Owned = append(t.Owned, partitions...)
	for _, p := range partitions {
		t.Owners = put32(t.Owners, p, int32(member)+1)
	}
	slices.Sort(t.Owned)
}

// describeConsumer does the same by the KIP-848 API. supported is false when
// the cluster has none.
func (r *round) describeConsumer(ctx context.Context, names []string) (unknown []string, supported bool) {
	supported = true
	if len(names) == 0 {
		return nil, true
	}
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = names
	for _, shard := range r.client.RequestSharded(ctx, req) {
		if shard.Err != nil {
			if tooOld(shard.Err) {
				supported = false
				continue
			}
			r.fail("describing groups"+from(shard.Meta), shard.Err)
			continue
		}
		for _, g := range shard.Resp.(*kmsg.ConsumerGroupDescribeResponse).Groups {
			err := kerr.ErrorForCode(g.ErrorCode)
			switch {
			case errors.Is(err, kerr.GroupIDNotFound):
				unknown = append(unknown, g.Group)
			case errors.Is(err, kerr.UnsupportedVersion):
				supported = false
			case err != nil:
				r.fail(fmt.Sprintf("describing group %q", g.Group), err)
			default:
				r.takeConsumer(&g)
			}
		}
	}
	return unknown, supported
}

// tooOld recognizes kgo's error for a request that the broker does not have;
// kgo does not export it.
func tooOld(err error) bool {
	return errors.Is(err, kerr.UnsupportedVersion) || strings.Contains(err.Error(), "broker is too old")
}

func (r *round) takeConsumer(g *kmsg.ConsumerGroupDescribeResponseGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, asked := r.groupAt[g.Group]
	if !asked {
		return
	}
	r.inv.groups[g.Group].Type = typeConsumer
	out.Known, out.State, out.Protocol, out.Members = true, g.State, typeConsumer, len(g.Members)
	out.Rebalancing = strings.EqualFold(g.State, "assigning") || strings.EqualFold(g.State, "reconciling")
	for i, m := range g.Members {
		for _, t := range m.Assignment.TopicPartitions {
			r.own(out, i, t.Topic, t.Partitions)
		}
	}
}
