package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/internal/embedded"
)

// startBroker starts an embedded broker with one topic, "orders", of eight
// partitions, which lasts as long as the test.
func startBroker(t *testing.T) string {
	t.Helper()
	broker, err := embedded.Start(embedded.Config{Options: []kfake.Opt{
		kfake.SeedTopics(8, "orders"),
		kfake.GroupMinSessionTimeout(100 * time.Millisecond),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Close(); err != nil {
			t.Error(err)
		}
	})
	return strings.Join(broker.Addrs(), ",")
}

// decode reads the one JSON object that must be all of stdout.
func decode[T any](t *testing.T, r result) T {
	t.Helper()
	var answer T
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answer); err != nil || strings.Count(r.stdout, "\n") != 1 {
		t.Fatalf("stdout %q is not one JSON object: %v (stderr %q)", r.stdout, err, r.stderr)
	}
	return answer
}

// syncBuffer is a buffer that a running command writes and a test reads. first
// is closed at the first write.
type syncBuffer struct {
	mu    sync.Mutex // guards buf
	buf   bytes.Buffer
	once  sync.Once
	first chan struct{}
}

func newSyncBuffer() *syncBuffer { return &syncBuffer{first: make(chan struct{})} }

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.once.Do(func() { close(b.first) })
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// closedPort is an address that nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// silentPort is an address where connections open and nobody ever answers.
func silentPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func TestBrokersThatCannotBeReached(t *testing.T) {
	closed := closedPort(t)
	log := tempFile(t, "w.log", "")
	runArgs(t, "demo", "--brokers", closed).wantError(t, exitKafka, closed, "connection refused")
	for _, args := range [][]string{
		{"topic", "create", "--topic", "new", "--partitions", "1"},
		{"loadgen", "--topic", "orders", "--count", "10"},
		{"worker", "--topic", "orders", "--group", "g", "--discard"},
		{"verify", "--topic", "orders", "--log", log},
	} {
		t.Run(args[0], func(t *testing.T) {
			runArgs(t, append(args, "--brokers", closed)...).wantError(t, exitKafka, closed, "connection refused", "--brokers")
			runArgs(t, append(args, "--brokers", silentPort(t), "--connect-timeout", "50ms")...).wantError(t, exitKafka, "no answer in time")
			runArgs(t, args...).wantError(t, exitUsage, "--brokers", "KAFKA_BROKERS")
		})
	}
}

func TestTopicsThatDoNotExist(t *testing.T) {
	brokers := startBroker(t)
	log := tempFile(t, "w.log", "")
	for _, args := range [][]string{
		{"loadgen", "--topic", "nope", "--count", "10"},
		{"worker", "--topic", "nope", "--group", "g", "--discard"},
		{"verify", "--topic", "nope", "--log", log},
	} {
		t.Run(args[0], func(t *testing.T) {
			runArgs(t, append(args, "--brokers", brokers)...).wantError(t, exitKafka, `topic "nope" does not exist`, "topic create")
		})
	}
	runArgs(t, "worker", "--topic", "orders", "--group", "g", "--discard", "--exhausted", "dead-letter", "--brokers", brokers).
		wantError(t, exitKafka, `topic "orders.tl-dlq" does not exist`)
}

func TestTablesThatAreBroken(t *testing.T) {
	brokers := startBroker(t)
	for _, c := range []struct{ name, yaml, want string }{
		{"unknown field", "version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, hsah: xxhash64}\n", "hsah"},
		{"duplicate tenant", "version: 1\nrevision: 1\ntopics:\n  orders:\n    partitions: 8\n    placements:\n      acme: {partitions: [0]}\n      acme: {partitions: [1]}\n", "acme"},
		{"partition outside the topic", "version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, placements: {acme: {partitions: [8]}}}\n", "8"},
		{"other topic", "version: 1\nrevision: 1\ntopics:\n  invoices: {partitions: 8}\n", "invoices"},
		{"more partitions than there are", "version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 9}\n", "has 8 partitions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := tempFile(t, "routing.yaml", c.yaml)
			runArgs(t, "loadgen", "--topic", "orders", "--count", "10", "--brokers", brokers, "--table", table).wantError(t, exitUsage, c.want)
			runArgs(t, "worker", "--topic", "orders", "--group", "g", "--discard", "--brokers", brokers, "--table", table).wantError(t, exitUsage, c.want)
		})
	}
	answer := decode[loadgenAnswer](t, runArgs(t, "loadgen", "--topic", "orders", "--count", "1", "--brokers", brokers, "--format", "json"))
	if answer.Produced != 1 {
		t.Errorf("%+v", answer)
	}
	offsets := runArgs(t, "verify", "--topic", "orders", "--log", tempFile(t, "w.log", ""), "--brokers", brokers, "--format", "json")
	if report := decode[struct {
		Produced int `json:"produced"`
	}](t, result{0, keepField(t, offsets.stdout, "produced"), ""}); report.Produced != 1 {
		t.Errorf("the refused runs produced something: %s", offsets.stdout)
	}
}

// keepField reduces a JSON object to one field.
func keepField(t *testing.T, object, field string) string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &all); err != nil {
		t.Fatal(err)
	}
	return `{"` + field + `":` + string(all[field]) + "}\n"
}

func TestUsageOfKafkaCommands(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"topic create --partitions 3", "--topic"},
		{"topic create --topic t", "--partitions"},
		{"topic create --topic t --partitions -1", "--partitions"},
		{"topic crate", "create"},
		{"loadgen --count 1", "--topic"},
		{"loadgen --topic t", "--count"},
		{"loadgen --topic t --count -1", "--count"},
		{"loadgen --topic t --count 1 --rate -1", "--rate"},
		{"loadgen --topic t --count 1 --max-errors 0", "--max-errors"},
		{"loadgen --topic t --count 1 --size -1", "--size"},
		{"loadgen --topic t --whale acme", "NAME:count"},
		{"loadgen --topic t --whale acme:many", "--whale"},
		{"loadgen --topic t --hex --whale xyz:1", "hexadecimal"},
		{"loadgen --topic t --count 1 --tenants /does/not/exist", "--tenants"},
		{"worker --group g --discard", "--topic"},
		{"worker --topic t --discard", "--group"},
		{"worker --topic t --group g", "--discard"},
		{"worker --topic t --group g --discard --exec cat", "exactly one target"},
		{"worker --topic t --group g --url ftp://x", "--url"},
		{"worker --topic t --group g --exec cat --handler-sleep 1s", "--handler-sleep"},
		{"worker --topic t --group g --url http://x --request-timeout 0s", "--request-timeout"},
		{"worker --topic t --group g --discard --handler-timeout 0s", "--handler-timeout"},
		{"worker --topic t --group g --discard --attempts -1", "--attempts"},
		{"worker --topic t --group g --discard --dead-letter-topic d", "--exhausted"},
		{"worker --topic t --group g --discard --max-distance 0", "--max-distance"},
		{"worker --topic t --group g --discard --too-far skip", "--too-far"},
		{"worker --topic t --group g --discard --exhausted explode", "--exhausted"},
		{"worker --topic t --group g --discard --commit-interval 1ms", "--commit-interval"},
		{"worker --topic t --group g --discard --listen nonsense", "--listen"},
		{"worker --topic t --group g --discard --concurrency 0", "--concurrency"},
		{"worker --topic t --group g --discard --until-idle -1s", "--until-idle"},
		{"worker --topic t --group g --discard --handler-sleep -1s", "--handler-sleep"},
		{"worker --topic t --group g --exec cat --handler-fail acme", "--handler-fail"},
		{"worker --topic t --group g --exec cat --spread-whales", "--spread-whales"},
		{"worker --topic t --group g --exec cat --tenant-metrics 3", "--tenant-metrics"},
		{"worker --topic t --group g --discard --drain-timeout 0s", "--drain-timeout"},
		{"worker --topic t --group g --discard --stats-interval 0s", "--stats-interval"},
		{"worker --topic t --group g --discard --session-timeout 1ms", "--session-timeout"},
		{"verify --topic t", "--log"},
		{"verify --log x", "--topic"},
		{"verify --topic t --log /does/not/exist --produced /does/not/exist", "--produced"},
		{"demo --duration 1s", "--duration"},
		{"demo --partitions 4", "--partitions"},
		{"demo --workers 0", "--workers"},
		{"demo --tenants /does/not/exist", "--tenants"},
		{"broker --listen 0.0.0.0:0", "0.0.0.0"},
		{"broker --listen nonsense", "host:port"},
	} {
		t.Run(c.args, func(t *testing.T) {
			runArgs(t, strings.Fields(c.args)...).wantError(t, exitUsage, c.want)
		})
	}
}

func TestTenantFilesAreCheckedByLine(t *testing.T) {
	file := tempFile(t, "tenants.tsv", "acme\t5\nglobex\tmany\n")
	runArgs(t, "loadgen", "--topic", "t", "--count", "1", "--tenants", file).wantError(t, exitUsage, "tenants.tsv: line 2", "many")
}

// TestCancelEndsEveryCommand cancels at several moments, with brokers that
// answer and one that never does, and looks for what is left running.
func TestCancelEndsEveryCommand(t *testing.T) {
	brokers, silent := startBroker(t), silentPort(t)
	runArgs(t, "loadgen", "--topic", "orders", "--count", "5000", "--brokers", brokers).wantDone(t)
	log := tempFile(t, "w.log", "")
	for _, args := range [][]string{
		{"broker", "--listen", "127.0.0.1:0"},
		{"demo", "--duration", "20s"},
		{"demo", "--brokers", silent},
		{"topic", "create", "--topic", "new", "--partitions", "1", "--brokers", silent},
		{"loadgen", "--topic", "orders", "--count", "1000", "--rate", "1", "--brokers", brokers},
		{"loadgen", "--topic", "orders", "--count", "1000", "--brokers", silent},
		{"worker", "--topic", "orders", "--group", "g", "--discard", "--brokers", brokers, "--handler-sleep", "1ms", "--drain-timeout", "1s"},
		{"worker", "--topic", "orders", "--group", "g", "--discard", "--brokers", silent},
		{"verify", "--topic", "orders", "--log", log, "--brokers", silent},
	} {
		for _, after := range []time.Duration{0, 20 * time.Millisecond, 300 * time.Millisecond} {
			t.Run(strings.Join(slices.Concat(args[:1], []string{after.String(), args[len(args)-1]}), " "), func(t *testing.T) {
				running := goleak.IgnoreCurrent()
				ctx, cancel := context.WithCancel(t.Context())
				defer time.AfterFunc(after, cancel).Stop()
				got := runContext(t, ctx, args...)
				if got.code != exitInterrupted {
					t.Errorf("exit code %d, want 130 (stderr %q)", got.code, got.stderr)
				}
				goleak.VerifyNone(t, running)
			})
		}
	}
}
