package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pollEvery is how often a condition of the cluster is asked for.
const pollEvery = 100 * time.Millisecond

// await polls until the condition holds, for Config.ReadyTimeout at most. It
// ends early if a node died. Each request gives up after some seconds, so that
// a dead node costs a poll and not the whole wait.
func (c *Cluster) await(ctx context.Context, what string, holds func(context.Context, *kgo.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ReadyTimeout)
	defer cancel()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.Addrs()...),
		kgo.RetryTimeout(5 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return pollEvery }),
	}, c.cfg.KafkaOpts...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := holds(ctx, client)
		if err == nil {
			return nil
		}
		if died := c.died(); died != nil {
			return died
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// ready waits until all nodes that should run are known to each other, and a
// group can commit: the first question for a coordinator makes the broker
// create its offsets topic, which takes seconds.
func (c *Cluster) ready(ctx context.Context) error {
	return c.await(ctx, "waiting for the brokers", func(ctx context.Context, client *kgo.Client) error {
		meta, err := metadata(ctx, client, []kmsg.MetadataRequestTopic{})
		if err != nil {
			return err
		}
		if want := c.running(); len(meta.Brokers) != want {
			return fmt.Errorf("%d of %d nodes are in the cluster", len(meta.Brokers), want)
		}
		_, err = kadm.NewClient(client).FetchOffsets(ctx, "tenantlane-ready")
		return err
	})
}

// WaitInSync waits until every partition has all its replicas in sync, which
// is when the next node may fail. It waits for ReadyTimeout at most.
func (c *Cluster) WaitInSync(ctx context.Context) error {
	return c.await(ctx, "waiting for replicas in sync", func(ctx context.Context, client *kgo.Client) error {
		meta, err := metadata(ctx, client, nil)
		if err != nil {
			return err
		}
		return outOfSync(meta.Topics)
	})
}

// metadata asks for the brokers and the given topics (nil: all). kadm would
// answer from the client's cache, which for brokers it never asks for again.
func metadata(ctx context.Context, client *kgo.Client, topics []kmsg.MetadataRequestTopic) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = topics
	return req.RequestWith(ctx, client)
}

func outOfSync(topics []kmsg.MetadataResponseTopic) error {
	var errs []error
	for _, t := range topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("topic %s partition %d: %w", *t.Topic, p.Partition, err))
			} else if len(p.ISR) < len(p.Replicas) {
				errs = append(errs, fmt.Errorf("topic %s partition %d: only %v of %v in sync", *t.Topic, p.Partition, p.ISR, p.Replicas))
			}
		}
	}
	return errors.Join(errs...)
}
