package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/internal/embedded"
)

const (
	topicSettle   = 30 * time.Second
	removeTimeout = 15 * time.Second
	removePoll    = 200 * time.Millisecond
)

// stage is the cluster that the demo plays on, with a topic and a group whose
// names nobody else has.
type stage struct {
	kind   string // "embedded" or "kafka"
	called string // in words
	opts   []kgo.Opt
	name   string // of the topic and of the group
	admin  *kadm.Client
	broker *embedded.Broker // nil for a real cluster
}

// newStage starts the embedded broker unless there is a real cluster, and
// makes the topic.
func newStage(ctx context.Context, name string, cfg Config) (*stage, error) {
	s := &stage{kind: "kafka", called: cfg.Brokers, opts: cfg.KafkaOpts, name: name}
	if s.opts == nil {
		broker, err := embedded.Start(embedded.Config{
			Logger: cfg.Logger,
			// The brokers' default is to wait 3 s for more members.
			Options: []kfake.Opt{kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"})},
		})
		if err != nil {
			return nil, err
		}
		s.kind, s.called, s.broker = "embedded", strings.Join(broker.Addrs(), ","), broker
		s.opts = []kgo.Opt{kgo.SeedBrokers(broker.Addrs()...)}
	}
	client, err := kgo.NewClient(s.opts...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("Kafka client: %w", err), s.closeBroker())
	}
	s.admin = kadm.NewClient(client)
	if err := s.makeTopic(ctx, cfg.Partitions); err != nil {
		return nil, errors.Join(err, s.strike(ctx, cfg.Logger))
	}
	return s, nil
}

// makeTopic creates the topic and waits until all of its partitions have
// leaders. The broker stamps records as it appends them, so that latencies are
// from append to handled.
func (s *stage) makeTopic(ctx context.Context, partitions int32) error {
	ctx, cancel := context.WithTimeout(ctx, topicSettle)
	defer cancel()
	if _, err := s.admin.CreateTopic(ctx, partitions, -1, map[string]*string{"message.timestamp.type": new("LogAppendTime")}, s.name); err != nil {
		return fmt.Errorf("creating topic %s: %w", s.name, err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		topics, err := s.admin.ListTopics(ctx, s.name)
		if err == nil && topics.Error() == nil && len(topics[s.name].Partitions) == int(partitions) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("topic %s has no leaders: %w", s.name, errors.Join(ctx.Err(), err))
		}
	}
}

// strike removes what the demo made, also after ctx has ended.
func (s *stage) strike(ctx context.Context, log *zap.Logger) error {
	defer s.admin.Close()
	if s.broker != nil {
		return s.closeBroker()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	topicErr := s.removeTopics(ctx)
	groupErr := s.removeGroup(ctx)
	if err := errors.Join(topicErr, groupErr); err != nil {
		log.Warn("demo left things behind", zap.String("topic", s.name), zap.String("group", s.name), zap.Error(err))
		return fmt.Errorf("removing topics %s… and group %s, remove them yourself: %w", s.name, s.name, err)
	}
	return nil
}

// tablePrefix begins the names of the topics that hold the table.
func (s *stage) tablePrefix() string { return s.name + "." }

// removeTopics removes every topic whose name begins with the demo's.
func (s *stage) removeTopics(ctx context.Context) error {
	topics, err := s.admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	var own []string
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, s.name) {
			own = append(own, name)
		}
	}
	if len(own) == 0 {
		return nil
	}
	deleted, err := s.admin.DeleteTopics(ctx, own...)
	if err == nil {
		err = deleted.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil
	}
	return err
}

// removeGroup tries again while the last member is still leaving.
func (s *stage) removeGroup(ctx context.Context) error {
	tick := time.NewTicker(removePoll)
	defer tick.Stop()
	for {
		_, err := s.admin.DeleteGroup(ctx, s.name)
		if err == nil || errors.Is(err, kerr.GroupIDNotFound) {
			return nil
		}
		if !errors.Is(err, kerr.NonEmptyGroup) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (s *stage) closeBroker() error {
	if s.broker == nil {
		return nil
	}
	return s.broker.Close()
}
