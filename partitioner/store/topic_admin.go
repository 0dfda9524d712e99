package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// dataTimeout bounds the question whether a topic has records.
const dataTimeout = 5 * time.Second

// ownTopic is one of the store's topics and what it must be like.
type ownTopic struct {
	name    string
	policy  string
	configs map[string]string // further ones, for its creation
}

func (c TopicConfig) routingTopic() ownTopic {
	return ownTopic{c.RoutingTopic(), "compact", map[string]string{"min.compaction.lag.ms": "3600000"}}
}

func (c TopicConfig) sessionsTopic() ownTopic {
	return ownTopic{c.SessionsTopic(), "compact", map[string]string{"segment.ms": "3600000"}}
}

func (c TopicConfig) historyTopic() ownTopic {
	return ownTopic{c.HistoryTopic(), "delete", map[string]string{"retention.ms": "7776000000"}} // 90 days
}

// prepareTopics creates what is missing if it may, and checks the routing
// topic. The other two are checked by whoever uses them: a reader needs no
// right to them.
func (t *Topic) prepareTopics(ctx context.Context) error {
	if !t.cfg.Create {
		return t.checkTopic(ctx, t.cfg.routingTopic(), trusting)
	}
	for _, own := range []ownTopic{t.cfg.routingTopic(), t.cfg.sessionsTopic(), t.cfg.historyTopic()} {
		err := t.checkTopic(ctx, own, trusting)
		if errors.Is(err, ErrTopicMissing) {
			if err = t.createTopic(ctx, own); err == nil {
				err = t.awaitTopic(ctx, own)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Topic) createTopic(ctx context.Context, own ownTopic) error {
	configs := map[string]*string{"cleanup.policy": &own.policy}
	for name, value := range own.configs {
		configs[name] = new(value)
	}
	created, err := t.admin.CreateTopic(ctx, 1, t.cfg.Replicas, configs, own.name)
	if err == nil {
		err = created.Err
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return topicError(own.name, fmt.Errorf("create: %w", err), "")
	}
	t.cfg.Logger.Info("topic created", zap.String("topic", own.name))
	return nil
}

// awaitTopic waits until every broker knows a new topic: one that does not
// calls it missing, and the next question may reach that one.
func (t *Topic) awaitTopic(ctx context.Context, own ownTopic) error {
	for {
		err := t.checkTopic(ctx, own, trusting)
		if err == nil {
			err = t.knownToAll(ctx, own.name)
		}
		if !errors.Is(err, ErrTopicMissing) || ctx.Err() != nil {
			return err
		}
		sleep(ctx, retryPause)
	}
}

// knownToAll is ErrTopicMissing while a broker that can be reached does not know
// the topic.
func (t *Topic) knownToAll(ctx context.Context, topic string) error {
	for _, broker := range t.client.DiscoveredBrokers() {
		resp, err := broker.Request(ctx, metadataRequest(topic))
		if err != nil {
			continue // it is away, and will learn of the topic with the rest
		}
		for _, answer := range resp.(*kmsg.MetadataResponse).Topics {
			if errors.Is(kerr.ErrorForCode(answer.ErrorCode), kerr.UnknownTopicOrPartition) {
				return ErrTopicMissing
			}
		}
	}
	return nil
}

// scrutiny is what a client does that may not see a topic's cleanup policy.
type scrutiny bool

const (
	trusting scrutiny = false // it takes the policy on trust, for whoever writes must see it
	seeing   scrutiny = true  // it refuses
)

// checkTopic holds a topic to its partition count and cleanup policy.
func (t *Topic) checkTopic(ctx context.Context, own ownTopic, how scrutiny) error {
	partitions, err := t.partitions(ctx, own.name)
	switch {
	case errors.Is(err, ErrTopicMissing):
		return topicError(own.name, ErrTopicMissing, fmt.Sprintf(
			"create it with 1 partition and cleanup.policy=%s", own.policy))
	case err != nil:
		return topicError(own.name, err, "")
	case partitions != 1:
		return topicError(own.name, ErrTopicPartitions, fmt.Sprintf("it has %d", partitions))
	}
	err = t.checkPolicy(ctx, own)
	hidden := errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed)
	if hidden && how == trusting {
		t.cfg.Logger.Warn("cannot see the topic's cleanup.policy, which must be "+own.policy, zap.String("topic", own.name), zap.Error(err))
		return nil
	}
	return err
}

// partitions asks the brokers anew: kadm answers from the client's metadata,
// which may be 5 s old.
func (t *Topic) partitions(ctx context.Context, topic string) (int, error) {
	resp, err := metadataRequest(topic).RequestWith(ctx, t.client)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 {
		return 0, errors.New("not in the brokers' answer")
	}
	switch err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return 0, ErrTopicMissing
	case err != nil:
		return 0, err
	}
	return len(resp.Topics[0].Partitions), nil
}

func metadataRequest(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = new(topic)
	req.Topics = append(req.Topics, asked)
	return req
}

func (t *Topic) checkPolicy(ctx context.Context, own ownTopic) error {
	described, err := t.admin.DescribeTopicConfigs(ctx, own.name)
	if err != nil {
		return topicError(own.name, fmt.Errorf("cleanup.policy: %w", err), "")
	}
	config, err := described.On(own.name, nil)
	if err == nil {
		err = config.Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) { // another broker knows it already
		return topicError(own.name, ErrTopicMissing, "a broker does not know it yet")
	}
	if err != nil {
		return topicError(own.name, fmt.Errorf("cleanup.policy: %w", err), "")
	}
	policy := "delete" // Kafka's default
	for _, c := range config.Configs {
		if c.Key == "cleanup.policy" && c.Value != nil {
			policy = *c.Value
		}
	}
	if policy != own.policy {
		return topicError(own.name, ErrTopicPolicy, fmt.Sprintf("it is %q and must be %q", policy, own.policy))
	}
	return nil
}

// end is the routing topic's high watermark: it counts records of open
// transactions too, which the last stable offset does not, and which stays
// behind for a while after a commit.
func (t *Topic) end(ctx context.Context) (int64, error) {
	ctx, done := context.WithTimeout(ctx, t.cfg.Lease/3)
	defer done()
	return t.offset(ctx, t.cfg.RoutingTopic(), latest)
}

// The timestamps that stand for a topic's ends.
const (
	latest   = -1
	earliest = -2
)

// offset looks up an end of the first partition.
func (t *Topic) offset(ctx context.Context, topic string, timestamp int64) (int64, error) {
	offsets, err := t.offsets(ctx, topic, 1, timestamp)
	if err != nil {
		return 0, topicError(topic, fmt.Errorf("offset: %w", err), "")
	}
	return offsets[0], nil
}

// offsets looks up an end of each partition.
func (t *Topic) offsets(ctx context.Context, topic string, partitions int, timestamp int64) ([]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	for p := range partitions {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = int32(p), timestamp
		asked.Partitions = append(asked.Partitions, part)
	}
	req.Topics = append(req.Topics, asked)
	resp, err := req.RequestWith(ctx, t.client)
	if err != nil {
		return nil, err
	}
	offsets, found := make([]int64, partitions), 0
	for _, answer := range resp.Topics {
		for _, p := range answer.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			offsets[p.Partition] = p.Offset
			found++
		}
	}
	if found != partitions {
		return nil, fmt.Errorf("%d of %d partitions in the answer", found, partitions)
	}
	return offsets, nil
}

// hasData tells whether a topic has records. A topic that does not exist has
// none; when it cannot be told, the answer is yes, which refuses more.
func (t *Topic) hasData(ctx context.Context, topic string) bool {
	ctx, done := context.WithTimeout(ctx, dataTimeout)
	defer done()
	n, err := t.partitions(ctx, topic)
	if err != nil {
		return !errors.Is(err, ErrTopicMissing)
	}
	starts, err := t.offsets(ctx, topic, n, earliest)
	if err != nil {
		return true
	}
	ends, err := t.offsets(ctx, topic, n, latest)
	return err != nil || !slices.Equal(starts, ends)
}

// checkPartitions holds the topics that a table names to having the partitions
// that it names. Topics that do not exist yet are no concern.
func (t *Topic) checkPartitions(ctx context.Context, partitions map[string]int32) error {
	for name, want := range partitions {
		have, err := t.partitions(ctx, name)
		if errors.Is(err, ErrTopicMissing) {
			continue
		}
		if err != nil {
			return topicError(name, err, "")
		}
		if have < int(want) {
			return topicError(name, errors.New("has fewer partitions than the table names"),
				fmt.Sprintf("it has %d, the table says %d", have, want))
		}
	}
	return nil
}
