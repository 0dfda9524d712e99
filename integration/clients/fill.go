package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/IBM/sarama"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Fill produces one record per key to a topic with a client's default
// settings, and returns once all are acknowledged.
type Fill func(ctx context.Context, brokers []string, topic string, keys [][]byte) error

// FranzGo fills with franz-go.
func FranzGo(ctx context.Context, brokers []string, topic string, keys [][]byte) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(keys))
	for i, key := range keys {
		records[i] = &kgo.Record{Topic: topic, Key: key, Value: []byte("franz-go")}
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

// Sarama fills with sarama's SyncProducer.
func Sarama(_ context.Context, brokers []string, topic string, keys [][]byte) error {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true // what a SyncProducer requires
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, len(keys))
	for i, key := range keys {
		messages[i] = &sarama.ProducerMessage{Topic: topic, Key: sarama.ByteEncoder(key), Value: sarama.StringEncoder("sarama")}
	}
	return errors.Join(producer.SendMessages(messages), producer.Close())
}

// Librdkafka fills with librdkafka, through its Go binding.
func Librdkafka(_ context.Context, brokers []string, topic string, keys [][]byte) error {
	producer, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": strings.Join(brokers, ",")})
	if err != nil {
		return err
	}
	defer producer.Close()
	reports := make(chan kafka.Event, len(keys))
	for _, key := range keys {
		message := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: kafka.PartitionAny}, Key: key, Value: []byte("librdkafka")}
		if err := producer.Produce(message, reports); err != nil {
			return err
		}
	}
	if left := producer.Flush(60_000); left > 0 {
		return fmt.Errorf("librdkafka: %d records are not acknowledged after a minute", left)
	}
	for range keys {
		message, ok := (<-reports).(*kafka.Message)
		if !ok || message.TopicPartition.Error != nil {
			return fmt.Errorf("librdkafka: %v", message)
		}
	}
	return nil
}

// Java makes a Fill of the Java client whose jars are in lib. source is the
// program that java/Fill.java holds; java compiles it as it starts.
func Java(lib, source string) Fill {
	return func(ctx context.Context, brokers []string, topic string, keys [][]byte) error {
		program := exec.CommandContext(ctx, "java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"-cp", filepath.Join(lib, "*"), source, strings.Join(brokers, ","), topic)
		var input bytes.Buffer
		for _, key := range keys {
			fmt.Fprintf(&input, "%x\n", key)
		}
		program.Stdin = &input
		if out, err := program.CombinedOutput(); err != nil {
			return fmt.Errorf("java: %w\n%s", err, out)
		}
		return nil
	}
}
