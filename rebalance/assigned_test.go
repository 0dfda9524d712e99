package rebalance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A group that consumes the topic must read where a tenant goes.
func TestAMoveWaitsForGroupsToReadTheNewHome(t *testing.T) {
	for protocol, opts := range map[string][]kgo.Opt{"classic": nil, "KIP-848": {kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer())}} {
		t.Run(protocol, func(t *testing.T) {
			w := newLiveWorld(t)
			assigned := make(chan struct{}, 8)
			member, err := kgo.NewClient(append([]kgo.Opt{
				kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ConsumerGroup("billing"),
				kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(), kgo.FetchMaxWait(10 * time.Millisecond),
				kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
					if len(got["orders"]) > 0 {
						assigned <- struct{}{}
					}
				}),
			}, opts...)...)
			if err != nil {
				t.Fatal(err)
			}
			defer member.Close()
			polled := make(chan struct{})
			go func() { defer close(polled); member.PollFetches(t.Context()) }()
			<-assigned
			w.c.cfg.Patience = patience
			w.done(w.c.Move(t.Context(), acmeMoves)) // and so has the group a stable assignment
			w.c.cfg.Patience = -1

			if protocol == "KIP-848" { // its broker assigns new partitions at once
				return
			}
			if _, err = w.c.admin.CreatePartitions(t.Context(), 1, "orders"); err != nil {
				t.Fatal(err)
			}
			w.grow(5)
			m := acmeMoves
			m.To = []int32{4}
			_, err = w.c.Move(t.Context(), m)
			var refused *RefusedError
			if !errors.As(err, &refused) || !refused.Passing || !strings.Contains(err.Error(), `group "billing"`) || !strings.Contains(err.Error(), "partition 4") {
				t.Errorf("%v", err)
			}
			member.LeaveGroup()
			w.done(w.c.Move(t.Context(), m))
		})
	}
}

func TestUnassignedNamesGroupAndPartition(t *testing.T) {
	holds := func(partitions ...int32) kadm.TopicsSet {
		s := kadm.TopicsSet{}
		for _, p := range partitions {
			s.Add("orders", p)
		}
		return s
	}
	for name, c := range map[string]struct {
		groups []member
		want   string
	}{
		"no groups":                   {nil, ""},
		"another topic's":             {[]member{{group: "g", settled: true}}, ""},
		"holds them":                  {[]member{{group: "g", consumes: true, settled: true, holds: holds(1, 2, 3)}}, ""},
		"lacks one":                   {[]member{{group: "a", consumes: true, settled: true, holds: holds(1, 2)}, {group: "b", consumes: true, settled: true, holds: holds(1)}}, `group "b" reads topic orders, and none of its members is assigned partition 2`},
		"rebalances":                  {[]member{{group: "g", consumes: true, holds: holds()}}, "rebalances"},
		"rebalances, but keeps these": {[]member{{group: "g", consumes: true, holds: holds(1, 2)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if refused := unassigned(c.groups, "orders", []int32{1, 2}); refused != nil {
				got = refused.Error()
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q", got)
			}
		})
	}
}
