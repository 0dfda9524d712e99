package routing_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/blake2b"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestHashesEqualTheReferenceVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/hash_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []map[string]string
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) != 52 {
		t.Fatalf("%d vectors, want 52", len(vectors))
	}
	for _, v := range vectors {
		key, err := hex.DecodeString(v["key_hex"])
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"xxhash64", "blake2b-64", "sha256-64", "murmur2-kafka"} {
			h, err := routing.ParseHash(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := strconv.FormatUint(h.Sum(key), 10); got != v[name] {
				t.Errorf("%s(%q) = %s, want %s", name, key, got, v[name])
			}
		}
	}
}

// placementRow is one key of client_placements.tsv and the partition that each
// column's client gave it.
type placementRow struct {
	key    []byte
	client map[string]int32
}

func clientPlacements(t testing.TB) []placementRow {
	t.Helper()
	text, err := os.ReadFile("testdata/client_placements.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	head := strings.Split(lines[0], "\t")
	var rows []placementRow
	for _, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		key, err := hex.DecodeString(cells[0])
		if err != nil {
			t.Fatal(err)
		}
		row := placementRow{key: key, client: map[string]int32{}}
		for i, name := range head[1:] {
			p, err := strconv.ParseInt(cells[i+1], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			row.client[name] = int32(p)
		}
		rows = append(rows, row)
	}
	if len(rows) != 52 {
		t.Fatalf("%d keys, want 52", len(rows))
	}
	return rows
}

func TestTablesAdoptWhatRealClientsDo(t *testing.T) {
	clients := map[string]routing.Hash{
		"java": routing.Murmur2Kafka, "franz-go": routing.Murmur2Kafka,
		"sarama": routing.FNV1aSarama, "librdkafka": routing.CRC32Librdkafka,
	}
	rows := clientPlacements(t)
	for client, hash := range clients {
		for _, partitions := range []int32{32, 50} {
			for _, multiple := range []int32{1, 7, 128} {
				table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{
					"orders": {Partitions: partitions, Hash: hash, Slots: partitions * multiple},
				}})
				if err != nil {
					t.Fatal(err)
				}
				topic, _ := table.Topic("orders")
				column := client + "_" + strconv.Itoa(int(partitions))
				for _, row := range rows {
					if got := topic.Partition(row.key, row.key); got != row.client[column] {
						t.Errorf("%s, %d slots: %q goes to %d, the client sent it to %d",
							column, partitions*multiple, row.key, got, row.client[column])
					}
				}
			}
		}
	}
}

func TestSeedFigures(t *testing.T) {
	text, err := os.ReadFile("testdata/seed_figures.json")
	if err != nil {
		t.Fatal(err)
	}
	var seed struct {
		Of32  map[string]int32 `json:"blake2b_partition_of_32"`
		Of2To map[string]int32 `json:"blake2b_shared_range_start_2_count_30"`
	}
	if err := json.Unmarshal(text, &seed); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		slots  int32
		shared string
		want   map[string]int32
	}{{32, "0-31", seed.Of32}, {4080, "2-31", seed.Of2To}} {
		shared, err := routing.ParsePartitions(c.shared, 32)
		if err != nil {
			t.Fatal(err)
		}
		table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{
			"orders": {Partitions: 32, Hash: routing.Blake2b64, Slots: c.slots, Shared: shared},
		}})
		if err != nil {
			t.Fatal(err)
		}
		topic, _ := table.Topic("orders")
		if len(c.want) != 4 {
			t.Fatalf("%d tenants, want 4", len(c.want))
		}
		for tenant, want := range c.want {
			if got := topic.Partition([]byte(tenant), nil); got != want {
				t.Errorf("%s over %s: %d, want %d", tenant, c.shared, got, want)
			}
		}
	}
}

func TestHashesEqualIndependentImplementations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "key")
		digest, err := blake2b.New(8, nil)
		if err != nil {
			t.Fatal(err)
		}
		digest.Write(b)
		if got, want := routing.Blake2b64.Sum(b), binary.BigEndian.Uint64(digest.Sum(nil)); got != want {
			t.Fatalf("blake2b-64(%x) = %d, want %d", b, got, want)
		}
		sum := fnv.New32a()
		sum.Write(b)
		if got, want := routing.FNV1aSarama.Sum(b), uint64(sum.Sum32()); got != want {
			t.Fatalf("fnv1a(%x) = %d, want %d", b, got, want)
		}
		slots := rapid.Int32Range(1, 1<<16).Draw(t, "slots")
		p := int32(sum.Sum32()) % slots // sarama: hash_partitioner.Partition
		if p < 0 {
			p = -p
		}
		if got := routing.FNV1aSarama.Slot(uint64(sum.Sum32()), slots); got != p {
			t.Fatalf("sarama slot of %x = %d, want %d", b, got, p)
		}
	})
}

func TestBlake2bAtBlockEdges(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 255, 256, 257, 1 << 12} {
		b := bytes.Repeat([]byte{0xa5}, n)
		digest, err := blake2b.New(8, nil)
		if err != nil {
			t.Fatal(err)
		}
		digest.Write(b)
		if got, want := routing.Blake2b64.Sum(b), binary.BigEndian.Uint64(digest.Sum(nil)); got != want {
			t.Errorf("%d bytes: %d, want %d", n, got, want)
		}
	}
}

func TestHashNamesParseBack(t *testing.T) {
	for _, name := range routing.HashNames() {
		h, err := routing.ParseHash(name)
		if err != nil || h.String() != name {
			t.Errorf("ParseHash(%q) = %v, %v", name, h, err)
		}
	}
	if _, err := routing.ParseHash("md5"); err == nil || !strings.Contains(err.Error(), "xxhash64") {
		t.Errorf("an unknown hash must be refused with the known ones named, got %v", err)
	}
}

func TestSumAllocatesNothing(t *testing.T) {
	key := []byte("@storybook/addon-docs")
	for _, name := range routing.HashNames() {
		h, err := routing.ParseHash(name)
		if err != nil {
			t.Fatal(err)
		}
		var sink uint64
		if n := testing.AllocsPerRun(100, func() { sink += h.Sum(key) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		_ = sink
	}
}

func BenchmarkHash(b *testing.B) {
	key := []byte("@storybook/addon-docs")
	for _, name := range routing.HashNames() {
		h, err := routing.ParseHash(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var sink uint64
			for b.Loop() {
				sink += h.Sum(key)
			}
			_ = sink
		})
	}
}
