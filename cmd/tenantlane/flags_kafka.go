package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kzap"
	"go.uber.org/zap"
)

// kafkaFlags is how a command reaches Kafka: --brokers, --tls…, --sasl….
type kafkaFlags struct {
	brokers        []string
	clientID       string
	connectTimeout time.Duration
	tls            tlsFlags
	sasl           saslFlags
}

func (k *kafkaFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&k.brokers, "brokers", nil, "addresses of Kafka brokers, host:port (also KAFKA_BROKERS)")
	alsoFromEnv(flags, "brokers", "KAFKA_BROKERS")
	flags.StringVar(&k.clientID, "client-id", "tenantlane", "name that brokers see in quotas and logs")
	flags.DurationVar(&k.connectTimeout, "connect-timeout", 10*time.Second, "how long the first answer of a broker may take")
	k.tls.register(flags)
	k.sasl.register(flags)
}

// given reports whether brokers are named at all.
func (k *kafkaFlags) given() bool { return len(k.brokers) > 0 }

// opts are the client's options for these flags: seeds, client id, TLS and
// SASL. Packages that make their own client take them as KafkaOpts.
func (k *kafkaFlags) opts() ([]kgo.Opt, error) {
	if !k.given() {
		return nil, usagef("no brokers: give --brokers host:port, or set KAFKA_BROKERS")
	}
	seeds := make([]string, len(k.brokers)) // of their own: a running client keeps them
	for i := range k.brokers {
		seeds[i] = strings.TrimSpace(k.brokers[i]) // "a:9092, b:9092"
	}
	opts := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID(k.clientID)}
	encryption, err := k.tls.opts()
	if err != nil {
		return nil, err
	}
	login, err := k.sasl.opts()
	if err != nil {
		return nil, err
	}
	return append(append(opts, encryption...), login...), nil
}

// connect makes a client with these flags plus extra, and asks a broker
// something, so that a wrong address is one clear error and not a wait.
func (k *kafkaFlags) connect(ctx context.Context, log *zap.Logger, extra ...kgo.Opt) (*kgo.Client, error) {
	opts, err := k.opts()
	if err != nil {
		return nil, err
	}
	level := &clientLevel{log: log}
	opts = append(opts, kgo.WithLogger(kzap.New(log.Named("kafka"), kzap.LevelFn(level.get))))
	client, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, usagef("Kafka client: %w", err)
	}
	if err := k.ping(ctx, client); err != nil {
		client.Close()
		return nil, err
	}
	level.connected.Store(true)
	return client, nil
}

// clientLevel is what the client may log. It has a line for every connection
// and rebalance step, which only belongs into a log at debug; and until it is
// connected its complaints say less than the error that the command returns.
type clientLevel struct {
	log       *zap.Logger
	connected atomic.Bool
}

func (l *clientLevel) get() kgo.LogLevel {
	switch {
	case l.log.Core().Enabled(zap.DebugLevel):
		return kgo.LogLevelInfo
	case l.connected.Load():
		return kgo.LogLevelWarn
	default:
		return kgo.LogLevelNone
	}
}

func (k *kafkaFlags) ping(ctx context.Context, client *kgo.Client) error {
	limited, cancel := context.WithTimeout(ctx, k.connectTimeout)
	defer cancel()
	err := client.Ping(limited)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return kafkaError("cannot reach Kafka at "+strings.Join(k.brokers, ","), err)
}

// topicPartitions is how many partitions a topic has. A topic that does not
// exist, or may not be seen, is an exit 3 that names it.
func topicPartitions(ctx context.Context, client *kgo.Client, topic string) (int32, error) {
	details, err := kadm.NewClient(client).ListTopicsWithInternal(ctx, topic)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return 0, topicError(topic, err)
	}
	count := len(details[topic].Partitions)
	if count == 0 {
		return 0, topicError(topic, kerr.UnknownTopicOrPartition)
	}
	return int32(count), nil
}

func topicError(topic string, err error) error {
	what := fmt.Sprintf("topic %q", topic)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return &exitError{exitKafka, fmt.Errorf("%s does not exist (%w); make it with `tenantlane topic create --topic %s --partitions N`",
			what, kerr.UnknownTopicOrPartition, topic)}
	}
	return kafkaError(what, err)
}
