package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// moving is a topic whose producers all take part in moves, with a table in a
// topic of its own, on which the command's processes work as a user starts them.
type moving struct {
	t            *testing.T
	b            broker
	topic, group string
	table        string // its topic
	dir          string
	rate         int // records a second of each producer

	produced, handled []string // logs
}

const (
	movingPartitions = 12
	movingTable      = "version: 1\nrevision: 1\ntopics:\n  %s: {partitions: %d, producers: wrapped}\n"
)

// newMoving makes the topic and the table.
func newMoving(t *testing.T, b broker, rate int) *moving {
	t.Helper()
	m := &moving{t: t, b: b, rate: rate, topic: b.topic(t, movingPartitions), group: unique(t, "group"), dir: t.TempDir()}
	m.table = m.topic + ".routing"
	file := filepath.Join(m.dir, "routing.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, movingTable, m.topic, movingPartitions), 0o600); err != nil {
		t.Fatal(err)
	}
	push := b.begin(t, "table", "push", file, "--table-topic", m.table, "--create")
	if code := push.wait(t); code != 0 {
		t.Fatalf("table push ended with %d: %s", code, &push.stderr)
	}
	return m
}

// command starts a command of the topic that knows the table.
func (m *moving) command(args ...string) *process {
	own := []string{"--topic", m.topic, "--table-topic", m.table}
	if at := slices.Index(args, "--"); at >= 0 {
		return m.b.begin(m.t, slices.Insert(args, at, own...)...)
	}
	return m.b.begin(m.t, append(args, own...)...)
}

// newLog adds a new log to a list.
func newLog(dir string, list *[]string, what string) string {
	path := filepath.Join(dir, fmt.Sprintf("%s-%d.log", what, len(*list)))
	*list = append(*list, path)
	return path
}

func (m *moving) produce() *process {
	return m.command("loadgen", "--count", "100000000", "--max-errors", "-1", "--rate", strconv.Itoa(m.rate),
		"--seed", strconv.Itoa(len(m.produced)+1), "--log-file", newLog(m.dir, &m.produced, "produced"))
}

func (m *moving) work(log string) *process {
	return m.command("worker", "--group", m.group, "--discard", "--concurrency", "32", "--log-file", log,
		"--session-timeout", sessionTimeout.String())
}

// die kills a process that must still run.
func (p *process) die(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	if code := p.wait(t); code != -1 {
		t.Fatalf("%s ended with %d before it was killed: %s", p.name, code, &p.stderr)
	}
}

// lastLine is what a command said at its end.
func lastLine(out *bytes.Buffer) string {
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[len(lines)-1]
}

// openMoves asks the command how many moves have not ended.
func (m *moving) openMoves() int {
	m.t.Helper()
	status := m.command("move", "status", "--open", "--format", "json")
	if code := status.wait(m.t); code != 0 {
		m.t.Fatalf("move status ended with %d: %s", code, &status.stderr)
	}
	return strings.Count(status.out.String(), "\n")
}

// more waits until a log has grown by some lines.
func (m *moving) more(ctx context.Context, log string, lines int) {
	m.t.Helper()
	text, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	awaitLines(ctx, m.t, log, bytes.Count(text, []byte("\n"))+lines)
}

// end stops the producers, waits until every move has ended and all is handled,
// and stops the workers.
func (m *moving) end(ctx context.Context, producers, workers []*process) {
	m.t.Helper()
	for _, p := range producers {
		p.signal(m.t, syscall.SIGINT)
		if code := p.wait(m.t); code != 130 {
			m.t.Errorf("loadgen ended with %d on SIGINT: %s", code, &p.stderr)
		}
	}
	await(ctx, m.t, "no move is open", func() bool { return m.openMoves() == 0 })
	if err := awaitCommits(ctx, m.b.client(m.t), m.group, m.topic); err != nil {
		m.t.Error(err)
	}
	for _, p := range workers {
		p.signal(m.t, syscall.SIGTERM)
		if code := p.wait(m.t); code != 0 {
			m.t.Errorf("worker ended with %d on SIGTERM: %s", code, &p.stderr)
		}
	}
}
