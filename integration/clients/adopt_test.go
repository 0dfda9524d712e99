package clients_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/integration/clients"
	"github.com/tenantlane/tenantlane/integration/kafka"
)

// world is what the tests share: a broker, Java's jars, and the command.
type world struct {
	brokers []string
	lib     string
	command string
}

// TestTopicsOfRealClientsAreAdoptedWithoutMovingAKey fills topics with each
// client, adopts them, and requires that every record lies where the table
// says. A table made for another client must not match.
func TestTopicsOfRealClientsAreAdoptedWithoutMovingAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := keysOfTenants(t)
	others := map[string]string{"java": "sarama", "franz-go": "librdkafka", "sarama": "java", "librdkafka": "sarama"}
	for client, fill := range map[string]clients.Fill{
		"java": clients.Java(w.lib, filepath.Join("java", "Fill.java")), "franz-go": clients.FranzGo,
		"sarama": clients.Sarama, "librdkafka": clients.Librdkafka,
	} {
		for _, partitions := range []int32{32, 50} {
			t.Run(fmt.Sprintf("%s on %d", client, partitions), func(t *testing.T) {
				t.Parallel()
				topic := fmt.Sprintf("adopt-%s-%d-%d", client, partitions, time.Now().UnixNano())
				w.createTopic(t, topic, partitions)
				if err := fill(t.Context(), w.brokers, topic, keys); err != nil {
					t.Fatal(err)
				}
				code, v := w.adopt(t, topic, client)
				if code != 0 || v.Records != len(keys) || v.Matching != 1 || len(v.Differences) != 0 {
					t.Errorf("verify ends with %d, %+v, want that all of %d records match", code, v, len(keys))
				}
				code, v = w.adopt(t, topic, others[client])
				if code != 1 || v.Records != len(keys) || v.Matching > 0.2 || len(v.Differences) == 0 {
					t.Errorf("with the table of %s verify ends with %d, %+v, want that next to none match", others[client], code, v)
				}
			})
		}
	}
}

// verified is what `table verify --format json` prints.
type verified struct {
	Records     int              `json:"records"`
	Matching    float64          `json:"matching"`
	Differences []map[string]any `json:"differences"`
}

// adopt runs `table init` and `table verify` as a person would.
func (w *world) adopt(t *testing.T, topic, client string) (int, verified) {
	t.Helper()
	table := filepath.Join(t.TempDir(), "routing.yaml")
	brokers := strings.Join(w.brokers, ",")
	if out, err := exec.CommandContext(t.Context(), w.command, "table", "init", "--brokers", brokers,
		"--from-topic", topic, "--clients", client, "--table", table).CombinedOutput(); err != nil {
		t.Fatalf("table init: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), w.command, "table", "verify", "--brokers", brokers,
		"--topic", topic, "--table", table, "--format", "json").Output()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	var v verified
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("table verify ends with %d and prints %q: %v", code, out, err)
	}
	return code, v
}

// newWorld starts or finds what the test needs, or skips, saying what is
// missing. TENANTLANE_REQUIRE_KAFKA=1 makes that a failure.
func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	lib, err := kafka.Jars(ctx, kafka.Config{Logf: t.Logf})
	if errors.Is(err, kafka.ErrNoTools) && os.Getenv("TENANTLANE_REQUIRE_KAFKA") != "1" {
		t.Skipf("no Java client and no real broker: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &world{lib: lib, command: filepath.Join(t.TempDir(), "tenantlane")}
	build := exec.CommandContext(ctx, "go", "build", "-o", w.command, "./cmd/tenantlane")
	build.Dir = filepath.Join("..", "..")
	if out, failed := build.CombinedOutput(); failed != nil {
		t.Fatalf("building the command: %v\n%s", failed, out)
	}
	if brokers := os.Getenv("KAFKA_BROKERS"); brokers != "" {
		w.brokers = strings.Split(brokers, ",")
		return w
	}
	cluster, err := kafka.Start(ctx, kafka.Config{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			cluster.KeepLogs()
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.brokers = cluster.Addrs()
	return w
}

// createTopic makes a topic that is removed after the test.
func (w *world) createTopic(t *testing.T, topic string, partitions int32) {
	t.Helper()
	// kadm answers from the client's metadata, which may be 5 s old otherwise.
	client, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	awaitLeaders(t, admin, topic)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if _, err := admin.DeleteTopic(ctx, topic); err != nil {
			t.Error(err)
		}
	})
}

// awaitLeaders waits until every partition's leader answers: sarama gives up
// on a new topic after 300 ms.
func awaitLeaders(t *testing.T, admin *kadm.Client, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err == nil {
			err = ends.Error()
		}
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("topic %s has no leaders after 30 s: %v", topic, err)
		case <-tick.C:
		}
	}
}

// keysOfTenants are 4,033 real names and 500 keys of every byte.
func keysOfTenants(t *testing.T) [][]byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "internal", "load", "tenant_volumes.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var keys [][]byte
	for line := range strings.Lines(string(raw)) {
		name, _, _ := strings.Cut(line, "\t")
		keys = append(keys, []byte(name))
	}
	for i := range 500 {
		key := make([]byte, 1+i%37)
		for j := range key {
			key[j] = byte(i*131 + j*17 + i>>3)
		}
		keys = append(keys, key)
	}
	return keys
}
