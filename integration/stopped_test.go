package integration

import (
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A producer that stands still (SIGSTOP) cannot answer a move. A coordinator that
// is killed while it waits leaves a move that somebody else aborts at its
// deadline, and the producer goes on where it was. A move that waits longer than
// the producer's lease goes on without it: what the producer then still sends to
// the old partition is set aside, and sent again to the new one before it is
// acknowledged. What came around the Producer is set aside too, and listed.
func TestAProducerStandsStillAcrossAMove(t *testing.T) {
	b := realBroker(t)
	suite.binary.command(t) // takes time of its own
	ctx := deadline(t, 3*time.Minute)
	const whale = "lru-cache"
	m := newMoving(t, b, 4000)
	worker, producer := m.work(newLog(m.dir, &m.handled, "handled")), m.produce()
	m.more(ctx, m.handled[0], 2000)

	producer.signal(t, syscall.SIGSTOP)
	killed := m.command("move", "start", "--to", "3", "--deadline", "8s", "--", whale)
	await(ctx, t, "the move is open", func() bool { return m.openMoves() == 1 })
	killed.die(t)
	await(ctx, t, "somebody aborts the move", func() bool { return m.openMoves() == 0 })
	producer.signal(t, syscall.SIGCONT)
	m.more(ctx, m.produced[0], 2000)

	from := m.whereIs(whale)
	producer.signal(t, syscall.SIGSTOP)
	to := strconv.Itoa(int(from+1) % movingPartitions)
	start := m.command("move", "start", "--to", to, "--", whale)
	if code := start.wait(t); code != 0 {
		t.Fatalf("move start ended with %d: %s", code, &start.stderr)
	}
	producer.signal(t, syscall.SIGCONT)
	m.more(ctx, m.produced[0], 2000)

	client := b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	around := &kgo.Record{Topic: m.topic, Partition: from, Key: []byte(whale), Value: []byte("around the producer")}
	if err := client.ProduceSync(ctx, around).FirstErr(); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "stale list names the record that came around the producer", func() bool { return m.unstamped(whale) > 0 })
	replayed := m.replay()
	if replayed.Replayed != 1 || replayed.Present != replayed.Records-1 {
		t.Errorf("replay: %+v, want the one around the producer sent, and all others found where they were sent again", replayed)
	}

	m.end(ctx, []*process{producer}, []*process{worker})
	report := verifyAll(t, b, m.topic, m.produced, m.handled)
	if report.Quarantined < 1 {
		t.Errorf("%d records in quarantine, want at least the one around the producer", report.Quarantined)
	}
	t.Logf("%d records in quarantine", report.Quarantined)
}

// whereIs asks the command for a tenant's partition.
func (m *moving) whereIs(tenant string) int32 {
	m.t.Helper()
	route := m.command("route", "--format", "json", "--", tenant)
	if code := route.wait(m.t); code != 0 {
		m.t.Fatalf("route ended with %d: %s", code, &route.stderr)
	}
	var answer struct{ Partition int32 }
	if err := json.Unmarshal(route.out.Bytes(), &answer); err != nil {
		m.t.Fatal(err)
	}
	return answer.Partition
}

// replayAnswer is what stale replay did.
type replayAnswer struct{ Records, Replayed, Present int }

func (m *moving) replay() (answer replayAnswer) {
	m.t.Helper()
	replay := m.command("stale", "replay", "--format", "json")
	if code := replay.wait(m.t); code != 0 {
		m.t.Fatalf("stale replay ended with %d: %s", code, &replay.stderr)
	}
	if err := json.Unmarshal(replay.out.Bytes(), &answer); err != nil {
		m.t.Fatal(err)
	}
	return answer
}

// unstamped counts the records of a tenant in quarantine that no session sent.
func (m *moving) unstamped(tenant string) (n int) {
	m.t.Helper()
	list := m.command("stale", "list", "--format", "json")
	if code := list.wait(m.t); code != 0 && !strings.Contains(list.stderr.String(), "quarantine") {
		m.t.Fatalf("stale list ended with %d: %s", code, &list.stderr)
	}
	for line := range strings.Lines(list.out.String()) {
		var row struct {
			Tenant, Session string
			Count           int
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			m.t.Fatalf("stale list printed %q: %v", line, err)
		}
		if row.Tenant == tenant && row.Session == "" {
			n += row.Count
		}
	}
	return n
}
