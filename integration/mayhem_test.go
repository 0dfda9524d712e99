package integration

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tenantlane/tenantlane/integration/kafka"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// mayhem is a cluster of three brokers with producers, workers and moves as
// processes. Any of them may be killed with kill -9 in the middle of a move.
type mayhem struct {
	*moving
	scale   mayhemScale
	cluster *kafka.Cluster
	admin   *kadm.Client
	rng     *rand.Rand
	tenants load.Population

	producers, workers []*process
	ends               map[int]int
}

// mayhemScale is how much there is of it.
type mayhemScale struct {
	moves, rounds, kills int
	rate                 int // records a second of each of two producers
}

func scaleOfMayhem() mayhemScale {
	if os.Getenv("TENANTLANE_SOAK") != "" {
		return mayhemScale{moves: 100, rounds: 16, kills: 24, rate: 10_000}
	}
	return mayhemScale{moves: 12, rounds: 3, kills: 5, rate: 1000}
}

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
	m := &mayhem{scale: scaleOfMayhem(), ends: map[int]int{}}
	ctx := deadline(t, time.Duration(m.scale.moves+m.scale.rounds+20*m.scale.kills+120)*time.Second)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m.rng = rand.New(rand.NewPCG(seed, 0))
	m.cluster = ownCluster(t, ctx)
	m.moving = newMoving(t, broker{name: "kafka", addrs: m.cluster.Addrs()}, m.scale.rate)
	m.admin = kadm.NewClient(m.b.client(t))
	var err error
	if m.tenants, err = load.DefaultPopulation(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m.workers = append(m.workers, m.work(newLog(m.dir, &m.handled, "handled")))
		m.producers = append(m.producers, m.produce())
	}
	return m, ctx
}

// move starts a move of a tenant, or of some slots.
func (m *mayhem) move(round bool) *process {
	to := strconv.Itoa(m.rng.IntN(movingPartitions))
	if !round {
		tenant := m.tenants.Tenants[m.rng.IntN(len(m.tenants.Tenants))].Tenant
		return m.command("move", "start", "--to", to, "--", tenant)
	}
	slots := make([]string, 64)
	for i, slot := range m.rng.Perm(routing.DefaultSlots)[:len(slots)] {
		slots[i] = strconv.Itoa(slot)
	}
	return m.command("move", "start", "--to", to, "--slot", strings.Join(slots, ","))
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
		m.producers[i].die(m.t)
		return func() {
			m.producers[i] = m.produce()
			awaitLines(ctx, m.t, m.produced[len(m.produced)-1], 1) // it has a log, and a signal stops it in order
		}
	case "worker":
		m.workers[i].die(m.t)
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

// inSync reports whether every broker answers and every partition has all its
// replicas: a broker that has just died is in the lists for a while.
func (m *mayhem) inSync(ctx context.Context) bool {
	for _, addr := range m.cluster.Addrs() {
		dialer := net.Dialer{Timeout: time.Second}
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return false
		}
		_ = conn.Close()
	}
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
	m.end(ctx, m.producers, m.workers)
	verifyAll(t, m.b, m.topic, m.produced, m.handled)
}
