package lagwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// Election makes several watchers one: all evaluate, one tells the targets. It
// is the one that holds partition 0 of a topic in a consumer group, so the
// cluster that is watched decides; while it cannot (no coordinator), the one
// that told before goes on. Two that both tell for a while are better than
// none. The one that tells keeps what it told as metadata of the group's commit,
// so that the next one repeats only what came after the last of these.
type Election struct {
	// Topic is any topic that exists; its records are not read. The routing
	// topic of TenantLane has one partition and fits. Required.
	Topic string
	// Group is the group that the replicas join, required. It is not watched.
	Group string
	// SessionTimeout is how long a dead replica is not noticed; default 15 s.
	SessionTimeout time.Duration
}

func (e *Election) validate() error {
	switch {
	case e == nil:
		return nil
	case e.Topic == "":
		return errors.New("Election: Topic: missing")
	case e.Group == "":
		return errors.New("Election: Group: missing")
	case e.SessionTimeout < 0:
		return fmt.Errorf("Election: SessionTimeout %v: must not be negative", e.SessionTimeout)
	}
	return nil
}

// defaultSession is Election.SessionTimeout when it is zero.
const defaultSession = 15 * time.Second

// startCampaign takes part in the election, if there is one, until the returned
// function is called: after the last delivery, so that the next sender knows
// that this one has ended. It leaves the group then, so that another one takes
// over at once.
func (w *Watcher) startCampaign(ctx context.Context) (end func(), err error) {
	if w.cfg.Election == nil {
		return func() {}, nil
	}
	e := *w.cfg.Election
	if e.SessionTimeout == 0 {
		e.SessionTimeout = defaultSession
	}
	doubt := e.SessionTimeout + 2*w.cfg.Rule.Interval + w.cfg.SampleTimeout
	w.notifier.SetActive(false, doubt, nil)
	client, err := kgo.NewClient(w.electionOpts(&e, func(ctx context.Context, c *kgo.Client, leads bool) {
		w.log.Info("the sender among the replicas changed", zap.String("group", e.Group), zap.Bool("this_one_sends", leads))
		var known notify.Known
		if leads {
			known = w.toldBefore(ctx, c)
		}
		w.notifier.SetActive(leads, doubt, known)
		w.leads.Store(leads)
		w.noteTold() // what it took over is its to tell of
	})...)
	if err != nil {
		return nil, fmt.Errorf("lagwatch: election: %w", err)
	}
	w.share = func(ctx context.Context) {
		if w.leads.Load() {
			w.shareTold(ctx, client)
		}
	}
	polling, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		for polling.Err() == nil {
			client.PollFetches(polling)
		}
	})
	return func() {
		w.share(ctx)
		stop()
		wg.Wait()
		client.Close()
	}, nil
}

// electionOpts make a group member that calls lead when it becomes, or is no
// longer, the one that sends.
func (w *Watcher) electionOpts(e *Election, lead func(context.Context, *kgo.Client, bool)) []kgo.Opt {
	// Callbacks run one at a time.
	leads := false
	unsure := false // lost the partition without being told who has it
	change := func(ctx context.Context, c *kgo.Client, to bool) {
		if leads != to {
			leads = to
			lead(ctx, c, to)
		}
	}
	holds := func(held map[string][]int32) bool { return slices.Contains(held[e.Topic], 0) }
	return append(append([]kgo.Opt{kgo.ClientID("tenantlane-lagwatch-election")}, w.cfg.KafkaOpts...),
		kgo.ConsumerGroup(e.Group), kgo.ConsumeTopics(e.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(e.SessionTimeout), kgo.HeartbeatInterval(e.SessionTimeout/5), kgo.RebalanceTimeout(e.SessionTimeout),
		kgo.OnPartitionsAssigned(func(ctx context.Context, c *kgo.Client, held map[string][]int32) {
			c.PauseFetchTopics(e.Topic) // who holds it is all that counts
			switch {
			case holds(held):
				change(ctx, c, true)
			case unsure: // back in the group, and another replica has it
				change(ctx, c, false)
			}
			unsure = false
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, c *kgo.Client, held map[string][]int32) {
			if holds(held) {
				change(ctx, c, false)
			}
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, held map[string][]int32) {
			if unsure = holds(held); unsure {
				w.log.Warn("the election cannot be seen; this replica goes on sending", zap.String("group", e.Group))
			}
		}),
	)
}
