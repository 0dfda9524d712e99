package check

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// logs writes a history as each process would, with times of one clock.
func logs(steps []step) (produced []byte, workers map[string][]byte) {
	workers = map[string][]byte{}
	for i, s := range steps {
		at := noon.Add(time.Duration(i) * time.Millisecond)
		log := workers[s.h.Process]
		if len(log) == 0 {
			log = AppendProcess(log, s.h.Process, at)
		}
		switch s.kind {
		case KindProduced:
			produced = AppendProduced(produced, &s.h, at)
			continue
		case KindHandled:
			log = AppendHandled(log, &s.h, at)
		case KindAssigned:
			log = AppendAssigned(log, Assignment{s.h.Partition, s.h.Assignment, s.named}, at)
		case KindCommit:
			log = AppendCommit(log, []Commit{s.said}, at)
		}
		workers[s.h.Process] = log
	}
	return produced, workers
}

func TestLogsAreJudgedLikeTheEventsTheyTell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := promise(t, rapid.Bool().Draw(t, "numbered"))
		produced, workers := logs(steps)
		c := New()
		if err := FeedProduced(c, NewReader("produced", bytes.NewReader(produced))); err != nil {
			t.Fatal(err)
		}
		var readers []*Reader
		for name, log := range workers {
			readers = append(readers, NewReader(name+".log", bytes.NewReader(log)))
		}
		if err := Feed(c, readers...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(replay(steps), c.Report()); diff != "" {
			t.Fatalf("-events +logs\n%s", diff)
		}
	})
}

func TestLogsGivenInTheWrongPlaceAreRefused(t *testing.T) {
	produced := string(AppendProduced(nil, &Handling{ID: ID{"p", "t"}}, noon))
	if err := Feed(New(), NewReader("a.log", strings.NewReader(produced))); err == nil || !strings.Contains(err.Error(), `a.log:1: has no "attempt"`) {
		t.Errorf("error %v", err)
	}
	if err := FeedProduced(New(), NewReader("b.log", strings.NewReader(handledLine(1)))); err == nil || !strings.Contains(err.Error(), "b.log:1: is a worker's line") {
		t.Errorf("error %v", err)
	}
	if err := Feed(New(), NewReader("c.log", strings.NewReader(handledLine(1)+"x\n"+handledLine(2)))); err == nil || !strings.Contains(err.Error(), "c.log:2:") {
		t.Errorf("error %v", err)
	}
}

func ExampleChecker() {
	c := New()
	acme := ID{Producer: "billing", Tenant: "acme"}
	for seq := uint64(1); seq <= 4; seq++ {
		c.Produced(acme, seq)
	}
	for _, seq := range []uint64{1, 3, 2} {
		c.Handled(Handling{Process: "worker-1", ID: acme, Seq: seq, Partition: 0, Offset: int64(seq), Attempt: 1})
	}
	report := c.Report()
	fmt.Println(report.Problem())
	fmt.Println(report.Worst[0].Tenant, report.Worst[0].Example)
	// Output:
	// 1 lost, 1 out of order
	// acme sequence 2 (partition 0, offset 2, process worker-1) was handled for the first time after sequence 3
}

func BenchmarkHandled(b *testing.B) {
	c := New()
	h := Handling{Process: "w", ID: ID{"p", "t0"}, Assignment: 1}
	names := make([]string, 4096)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%d", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h.Tenant, h.Seq, h.Offset = names[i%len(names)], uint64(i/len(names)), int64(i)
		c.Handled(h)
	}
}

func BenchmarkAppendHandled(b *testing.B) {
	h := Handling{ID: ID{"loadgen-1", "some-tenant"}, Seq: 123456, Partition: 17, Offset: 987654321, Attempt: 1, Assignment: 1}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendHandled(buf[:0], &h, noon)
	}
}

func BenchmarkParse(b *testing.B) {
	p := parser{names: map[string]string{}}
	line := []byte(strings.TrimSuffix(handledLine(123456), "\n"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.parse(line); err != nil {
			b.Fatal(err)
		}
	}
}
