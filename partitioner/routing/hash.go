package routing

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Hash is the function that turns a tenant into a number. It is part of a
// topic's data: once records exist it never changes.
type Hash uint8

// The six hashes. Their names in a table are given by String.
const (
	// XXHash64 is xxHash 64 with seed 0, the default: the fastest here.
	XXHash64 Hash = iota
	// Blake2b64 is BLAKE2b with a digest of 8 bytes (not a longer digest cut
	// short), read big-endian.
	Blake2b64
	// SHA256First64 is the first 8 bytes of SHA-256, read big-endian.
	SHA256First64
	// Murmur2Kafka is the Java client's positive 31-bit murmur2, which
	// franz-go's default partitioner equals.
	Murmur2Kafka
	// FNV1aSarama is FNV-1a 32, reduced as sarama's NewHashPartitioner does.
	FNV1aSarama
	// CRC32Librdkafka is CRC-32 (IEEE), reduced as librdkafka's consistent
	// partitioners do.
	CRC32Librdkafka
)

const hashCount = int(CRC32Librdkafka) + 1

// String gives the hash's name in a table.
func (h Hash) String() string {
	switch h {
	case XXHash64:
		return "xxhash64"
	case Blake2b64:
		return "blake2b-64"
	case SHA256First64:
		return "sha256-64"
	case Murmur2Kafka:
		return "murmur2-kafka"
	case FNV1aSarama:
		return "fnv1a-sarama"
	case CRC32Librdkafka:
		return "crc32-librdkafka"
	}
	return fmt.Sprintf("hash(%d)", uint8(h))
}

// HashNames lists the names that ParseHash takes, the default first.
func HashNames() []string {
	names := make([]string, hashCount)
	for i := range names {
		names[i] = Hash(i).String()
	}
	return names
}

// ParseHash is the reverse of Hash.String.
func ParseHash(s string) (Hash, error) {
	if i := slices.Index(HashNames(), s); i >= 0 {
		return Hash(i), nil
	}
	return 0, fmt.Errorf("unknown hash %q, known are %s", s, strings.Join(HashNames(), ", "))
}

// Sum hashes b. It allocates nothing. The 32-bit hashes give their value
// without a sign: murmur2-kafka the positive 31 bits, the others 32.
func (h Hash) Sum(b []byte) uint64 {
	switch h {
	case XXHash64:
		return xxhash.Sum64(b)
	case Blake2b64:
		return blake2b64(b)
	case SHA256First64:
		sum := sha256.Sum256(b)
		return binary.BigEndian.Uint64(sum[:8])
	case Murmur2Kafka:
		return uint64(murmur2(b) & 0x7fffffff)
	case FNV1aSarama:
		return uint64(fnv1a(b))
	case CRC32Librdkafka:
		return uint64(crc32.ChecksumIEEE(b))
	}
	return xxhash.Sum64(b)
}

// Slot reduces a sum to [0, slots), the way the hash's own client reduces it
// to a partition. It panics when slots is not positive.
func (h Hash) Slot(sum uint64, slots int32) int32 {
	return int32(h.magnitude(sum) % uint64(slots))
}

// magnitude is the sum as the unsigned number whose remainder is the slot.
// sarama takes the remainder of a signed 32-bit number and drops its sign,
// which equals the remainder of the number without its sign.
func (h Hash) magnitude(sum uint64) uint64 {
	if h != FNV1aSarama {
		return sum
	}
	signed := int64(int32(uint32(sum)))
	if signed < 0 {
		signed = -signed
	}
	return uint64(signed)
}

// murmur2 is the variant of MurmurHash2 in Kafka's clients
// (org.apache.kafka.common.utils.Utils.murmur2).
func murmur2(b []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := seed ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k = (k ^ k>>r) * m
		h = h*m ^ k
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// fnv1a is hash/fnv's New32a without its allocation.
func fnv1a(b []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}
