package adopt

import (
	"fmt"
	"strings"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Clients are the names that TopicSpec knows, each a client with its default
// partitioner.
func Clients() []string { return []string{"java", "franz-go", "sarama", "librdkafka"} }

// hashOf is the hash of each client's default partitioner for records with a key:
// Java's BuiltInPartitioner and franz-go's UniformBytesPartitioner take
// murmur2, sarama's NewHashPartitioner FNV-1a, librdkafka's consistent_random
// CRC-32.
func hashOf(client string) (routing.Hash, error) {
	switch client {
	case "java", "franz-go":
		return routing.Murmur2Kafka, nil
	case "sarama":
		return routing.FNV1aSarama, nil
	case "librdkafka":
		return routing.CRC32Librdkafka, nil
	}
	return 0, fmt.Errorf("unknown client %q, known are %s", client, strings.Join(Clients(), ", "))
}

// TopicSpec is a topic of a table that maps keys as a client's default does on
// a topic of that many partitions. The slots are the multiple of partitions
// that is nearest above routing.DefaultSlots, and fewer for topics so large
// that it would pass routing.MaxSlots. The client must be one of Clients.
func TopicSpec(client string, partitions int32) (routing.TopicSpec, error) {
	hash, err := hashOf(client)
	if err != nil {
		return routing.TopicSpec{}, err
	}
	if partitions < 1 || partitions > routing.MaxPartitions {
		return routing.TopicSpec{}, fmt.Errorf("a topic of %d partitions cannot be adopted: 1 to %d can", partitions, routing.MaxPartitions)
	}
	return routing.TopicSpec{Partitions: partitions, Hash: hash, Slots: Slots(partitions)}, nil
}

// Slots is the least multiple of partitions that is not below
// routing.DefaultSlots, or the largest one within routing.MaxSlots. Only with
// a multiple does a table without overrides route by hash mod partitions.
func Slots(partitions int32) int32 {
	n := (routing.DefaultSlots + partitions - 1) / partitions * partitions
	if n > routing.MaxSlots {
		n = routing.MaxSlots / partitions * partitions
	}
	return n
}
