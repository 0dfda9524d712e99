package integration

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tenantlane/tenantlane/integration/kafka"
	"github.com/tenantlane/tenantlane/internal/load"
)

// mayhem is a cluster of three brokers with producers, workers and moves as
// processes. Any of them may be killed with kill -9 in the middle of a move.
type mayhem struct {
	t       *testing.T
	scale   mayhemScale
	cluster *kafka.Cluster
	b       broker
	admin   *kadm.Client
	topic   string
	group   string
	dir     string
	rng     *rand.Rand
	tenants load.Population

	producers, workers []*process
	produced, handled  []string // logs
	ends               map[int]int
}

// mayhemScale is how much there is of it.
type mayhemScale struct {
	moves, rounds, kills int
	rate                 int // records a second of each of two producers
}

const mayhemPartitions = 12

func scaleOfMayhem() mayhemScale {
	if os.Getenv("TENANTLANE_SOAK") != "" {
		return mayhemScale{moves: 100, rounds: 16, kills: 24, rate: 10_000}
	}
	return mayhemScale{moves: 12, rounds: 3, kills: 5, rate: 1000}
}

// table is one whose producers all take part in moves.
const mayhemTable = `version: 1
revision: 1
topics:
  %s: {partitions: %d, producers: wrapped}
`

// ownCluster starts three brokers that the test may kill.
func ownCluster(t *testing.T, ctx context.Context) *kafka.Cluster {
	t.Helper()
	realBroker(t)
	if err := kafka.Available(); err != nil {
		t.Skipf("KAFKA_BROKERS names brokers that are not ours to kill, and %v", err)
	}
	cluster, err := kafka.Start(ctx, kafka.Config{Nodes: 3, Logf: t.Logf})
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
	return cluster
}

func newMayhem(t *testing.T) (*mayhem, context.Context) {
	t.Helper()
	suite.binary.command(t) // takes time of its own
	m := &mayhem{t: t, scale: scaleOfMayhem(), topic: "orders", group: "billing", dir: t.TempDir(), ends: map[int]int{}}
	ctx := deadline(t, time.Duration(m.scale.moves+m.scale.rounds+20*m.scale.kills+120)*time.Second)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m.rng = rand.New(rand.NewPCG(seed, 0))
	m.cluster = ownCluster(t, ctx)
	m.b = broker{name: "kafka", addrs: m.cluster.Addrs()}
	m.admin = kadm.NewClient(m.b.client(t))
	if _, err := m.admin.CreateTopic(ctx, mayhemPartitions, -1, nil, m.topic); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.tenants, err = load.DefaultPopulation(); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(m.dir, "routing.yaml")
	if err := os.WriteFile(table, fmt.Appendf(nil, mayhemTable, m.topic, mayhemPartitions), 0o600); err != nil {
		t.Fatal(err)
	}
	push := m.b.begin(t, "table", "push", table, "--table-topic", tableTopic, "--create")
	if code := push.wait(t); code != 0 {
		t.Fatalf("table push ended with %d: %s", code, &push.stderr)
	}
	for range 2 {
		m.workers = append(m.workers, m.work(m.log(&m.handled, "handled")))
		m.producers = append(m.producers, m.produce())
	}
	return m, ctx
}

const tableTopic = "tenantlane.routing"

// log adds a new log to a list.
func (m *mayhem) log(list *[]string, what string) string {
	path := filepath.Join(m.dir, fmt.Sprintf("%s-%d.log", what, len(*list)))
	*list = append(*list, path)
	return path
}

func (m *mayhem) produce() *process {
	return m.b.begin(m.t, "loadgen", "--topic", m.topic, "--table-topic", tableTopic, "--count", "100000000", "--max-errors", "-1",
		"--rate", strconv.Itoa(m.scale.rate), "--seed", strconv.Itoa(len(m.produced)+1), "--log-file", m.log(&m.produced, "produced"))
}

func (m *mayhem) work(log string) *process {
	return m.b.begin(m.t, "worker", "--topic", m.topic, "--group", m.group, "--table-topic", tableTopic, "--discard",
		"--concurrency", "32", "--log-file", log, "--session-timeout", sessionTimeout.String())
}

// move starts a move of a tenant, or of some slots.
func (m *mayhem) move(round bool) *process {
	args := []string{"move", "start", "--topic", m.topic, "--table-topic", tableTopic, "--to", strconv.Itoa(m.rng.IntN(mayhemPartitions)), "--format", "json"}
	if !round {
		tenant := m.tenants.Tenants[m.rng.IntN(len(m.tenants.Tenants))].Tenant
		return m.b.begin(m.t, append(args, "--", tenant)...)
	}
	slots := make([]string, 64)
	for i, slot := range m.rng.Perm(4096)[:len(slots)] {
		slots[i] = strconv.Itoa(slot)
	}
	return m.b.begin(m.t, append(args, "--slot", strings.Join(slots, ","))...)
}

// parties are the kinds of process that die.
var parties = []string{"producer", "worker", "coordinator", "broker"}

// kill kills a party at some moment of the move that has just begun, and
// returns what brings another one once the move has ended.
func (m *mayhem) kill(ctx context.Context, victim string, coordinator *process) (replace func()) {
	moment := time.NewTimer(time.Duration(m.rng.Int64N(int64(400 * time.Millisecond))))
	defer moment.Stop()
	select {
	case <-moment.C:
	case <-ctx.Done():
		m.t.Fatal(ctx.Err())
	}
	i := m.rng.IntN(2)
	m.t.Logf("kill -9 of a %s", victim)
	switch victim {
	case "producer":
		m.die(m.producers[i])
		return func() { m.producers[i] = m.produce() }
	case "worker":
		m.die(m.workers[i])
		return func() { m.workers[i] = m.work(m.handled[i]) }
	case "coordinator":
		_ = coordinator.cmd.Process.Kill() // it may have ended
		return func() {}
	}
	node := 1 + m.rng.IntN(3)
	if err := m.cluster.Kill(node); err != nil {
		m.t.Fatal(err)
	}
	return func() {
		if err := m.cluster.Restart(ctx, node); err != nil {
			m.t.Fatal(err)
		}
		await(ctx, m.t, "the replicas are in sync again", func() bool { return m.inSync(ctx) })
	}
}

func (m *mayhem) die(p *process) {
	m.t.Helper()
	p.signal(m.t, syscall.SIGKILL)
	if code := p.wait(m.t); code != -1 {
		m.t.Fatalf("%s ended with %d before it was killed: %s", p.name, code, &p.stderr)
	}
}

// inSync reports whether every partition has all its replicas.
func (m *mayhem) inSync(ctx context.Context) bool {
	topics, err := m.admin.ListTopicsWithInternal(ctx)
	if err != nil || topics.Error() != nil {
		return false
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if len(p.ISR) < len(p.Replicas) {
				return false
			}
		}
	}
	return true
}

// openMoves asks the command which moves have not ended.
func (m *mayhem) openMoves() int {
	m.t.Helper()
	status := m.b.begin(m.t, "move", "status", "--open", "--table-topic", tableTopic, "--format", "json")
	if code := status.wait(m.t); code != 0 {
		m.t.Fatalf("move status ended with %d: %s", code, &status.stderr)
	}
	return strings.Count(status.out.String(), "\n")
}

// end stops the producers, waits until all is handled, and stops the workers.
func (m *mayhem) end(ctx context.Context) {
	m.t.Helper()
	for _, p := range m.producers {
		p.signal(m.t, syscall.SIGINT)
		if code := p.wait(m.t); code != 130 {
			m.t.Errorf("loadgen ended with %d on SIGINT: %s", code, &p.stderr)
		}
	}
	await(ctx, m.t, "no move is open", func() bool { return m.openMoves() == 0 })
	if err := awaitCommits(ctx, m.b.client(m.t), m.group, m.topic); err != nil {
		m.t.Error(err)
	}
	for _, p := range m.workers {
		p.signal(m.t, syscall.SIGTERM)
		if code := p.wait(m.t); code != 0 {
			m.t.Errorf("worker ended with %d on SIGTERM: %s", code, &p.stderr)
		}
	}
}

// lastLine is what a command said at its end.
func lastLine(out *bytes.Buffer) string {
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[len(lines)-1]
}

// Tenants and slots move while producers and workers run, and now and then a
// producer, a worker, a coordinator or a broker is killed with kill -9 in the
// middle of a move. Every move ends, nothing is lost or out of order, and
// nothing that was acknowledged lies in quarantine.
func TestMovesWhileAnythingIsKilled(t *testing.T) {
	m, ctx := newMayhem(t)
	for _, log := range append(m.handled, m.produced...) {
		awaitLines(ctx, t, log, 200)
	}
	n := m.scale.moves + m.scale.rounds
	killed := m.rng.Perm(n)[:m.scale.kills]
	for i := range n {
		p := m.move(i >= m.scale.moves)
		replace := func() {}
		for k, at := range killed {
			if at == i {
				replace = m.kill(ctx, parties[k%len(parties)], p)
			}
		}
		code := p.wait(t)
		if m.ends[code]++; code != 0 {
			t.Logf("a move ended with %d: %s", code, lastLine(&p.stderr))
		}
		replace()
	}
	t.Logf("exit codes of the moves: %v", m.ends)
	if m.ends[0] < n/2 {
		t.Errorf("%d of %d moves were made, want at least half", m.ends[0], n)
	}
	m.end(ctx)
	verifyAll(t, m.b, m.topic, m.produced, m.handled)
}
