package integration

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Half of a live topic's slots go to partitions that it has got. The command that
// moves them is killed in the middle, and goes on where it was when it is run
// again: what it did is not done again, what it left open is aborted.
func TestAGrowthThatIsKilledGoesOn(t *testing.T) {
	b := realBroker(t)
	suite.binary.command(t) // takes time of its own
	ctx := deadline(t, 2*time.Minute)
	m := newMoving(t, b, 2000)
	from, to := strconv.Itoa(movingPartitions), strconv.Itoa(2*movingPartitions)
	plan := filepath.Join(m.dir, "growth.json")
	m.done("topic", "grow", "--partitions", to)
	m.done("plan", "growth", "--from", from, "--to", to, "--write", plan)
	worker, producer := m.work(newLog(m.dir, &m.handled, "handled")), m.produce()
	m.more(ctx, m.handled[0], 2000)

	killed := m.command("move", "run", "--plan", plan, "--batch", "64", "--rate", "8", "--format", "json")
	await(ctx, t, "some rounds are done", func() bool { return m.moves() >= 5 })
	killed.die(t)
	again := m.done("move", "run", "--plan", plan, "--rate", "0", "--format", "json")
	said := lastLine(&again.stderr)
	rounds := strings.Count(again.out.String(), "\n")
	if !strings.Contains(said, "2044 of 2044 are where they go") || rounds == 0 || rounds > 8 {
		t.Errorf("the second run made %d moves, and said %q", rounds, said)
	}
	m.more(ctx, m.handled[0], 2000)
	m.end(ctx, []*process{producer}, []*process{worker})
	verifyAll(t, b, m.topic, m.produced, m.handled)
	t.Logf("killed after some rounds, %s", said)
}

// done runs a command of the topic to its end.
func (m *moving) done(args ...string) *process {
	m.t.Helper()
	p := m.command(args...)
	if code := p.wait(m.t); code != 0 {
		m.t.Fatalf("%s ended with %d: %s", strings.Join(args[:2], " "), code, &p.stderr)
	}
	return p
}

// moves counts those that the table holds, open or switched.
func (m *moving) moves() int {
	m.t.Helper()
	return strings.Count(m.done("move", "status", "--format", "json").out.String(), "\n")
}
