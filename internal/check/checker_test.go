package check

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

// event is one thing that happens to one tenant in one partition, where the
// offset of a sequence is ten times that sequence.
type event struct {
	kind       byte // p produced, a assigned, h handled, c committed
	process    string
	from, to   uint64 // sequences; c: from is the offset
	assignment uint64
	named      bool   // a
	lanes      []Lane // c, whose frontier is to
}

func produced(from, to uint64) event                 { return event{kind: 'p', from: from, to: to} }
func handled(process string, seqs ...uint64) []event { return handledIn(process, 0, seqs...) }
func committed(process string, offset uint64) event {
	return event{kind: 'c', process: process, from: offset}
}

func handledIn(process string, assignment uint64, seqs ...uint64) []event {
	events := make([]event, 0, len(seqs))
	for _, seq := range seqs {
		events = append(events, event{kind: 'h', process: process, from: seq, assignment: assignment})
	}
	return events
}

func assigned(process string, assignment uint64) event {
	return event{kind: 'a', process: process, assignment: assignment}
}

func resumed(process string, assignment uint64) event {
	return event{kind: 'a', process: process, assignment: assignment, named: true}
}

func frontier(process string, offset, frontier uint64, lanes ...Lane) event {
	return event{kind: 'c', process: process, from: offset, to: frontier, lanes: lanes}
}

// acme is the name of the tenant's lane.
var acme = offset.Name([]byte("acme"))

// history joins events and slices of events.
func history(parts ...any) []event {
	var events []event
	for _, part := range parts {
		switch part := part.(type) {
		case event:
			events = append(events, part)
		case []event:
			events = append(events, part...)
		}
	}
	return events
}

func judge(events []event) Report {
	c := New()
	id := ID{"p", "acme"}
	for _, e := range events {
		switch e.kind {
		case 'p':
			for seq := e.from; seq <= e.to; seq++ {
				c.Produced(id, seq)
			}
		case 'a':
			c.Assigned(e.process, Assignment{Number: e.assignment, Named: e.named})
		case 'h':
			c.Handled(Handling{Process: e.process, ID: id, Seq: e.from, Offset: int64(10 * e.from), Attempt: 1, Assignment: e.assignment})
		case 'c':
			c.Committed(e.process, Commit{Offset: int64(e.from), Frontier: int64(e.to), Lanes: e.lanes})
		}
	}
	return c.Report()
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []event
		want   Report // without Tenants and Worst
	}{
		{"all in order", history(produced(1, 5), handled("A", 1, 2, 3, 4, 5)), Report{Produced: 5, Handled: 5}},
		{"lost at the end", history(produced(1, 5), handled("A", 1, 2, 3)), Report{Produced: 5, Handled: 3, Lost: 2}},
		{"lost in the middle", history(produced(1, 5), handled("A", 1, 2, 4, 5)), Report{Produced: 5, Handled: 4, Lost: 1}},
		{"all lost", history(produced(1, 5)), Report{Produced: 5, Lost: 5}},
		{"a failed produce leaves a hole", history(produced(1, 2), produced(4, 5), handled("A", 1, 2, 4, 5)), Report{Produced: 4, Handled: 4}},
		{"acknowledgement unknown", history(produced(1, 2), handled("A", 1, 2, 3)), Report{Produced: 2, Handled: 3, Unacknowledged: 1}},
		{"overtaken", history(produced(1, 3), handled("A", 1, 3, 2)), Report{Produced: 3, Handled: 3, OrderViolations: 1}},
		{"overtaken by another process", history(produced(1, 3), handled("A", 1, 3), handled("B", 2)), Report{Produced: 3, Handled: 3, OrderViolations: 1}},
		{"each overtaken one counts", history(produced(1, 4), handled("A", 4, 2, 3, 1)), Report{Produced: 4, Handled: 4, OrderViolations: 3}},

		{
			"repeat after a crash, above the commit",
			history(produced(1, 5), handled("A", 1, 2, 3, 4), committed("A", 30), handled("B", 3, 4, 5)),
			Report{Produced: 5, Handled: 5, Duplicates: 2, DuplicatesAllowed: 2},
		},
		{
			"repeat below the commit",
			history(produced(1, 5), handled("A", 1, 2, 3, 4), committed("A", 31), handled("B", 3, 4, 5)),
			Report{Produced: 5, Handled: 5, Duplicates: 2, DuplicatesAllowed: 1},
		},
		{
			"repeat by the process that committed",
			history(produced(1, 3), handled("A", 1, 2, 3), committed("A", 30), handled("A", 2)),
			Report{Produced: 3, Handled: 3, Duplicates: 1},
		},
		{
			"two crashes before any commit",
			history(produced(1, 3), handled("A", 1, 2), handled("B", 1, 2), handled("C", 1, 2, 3)),
			Report{Produced: 3, Handled: 3, Duplicates: 4, DuplicatesAllowed: 4},
		},
		{
			"a late handler of a lost partition",
			history(produced(1, 3), handled("A", 1), committed("A", 20), handled("B", 2, 3), committed("B", 40), handled("A", 2)),
			Report{Produced: 3, Handled: 3, Duplicates: 1, DuplicatesAllowed: 1},
		},
		{
			"a late handler whose first line comes after the new owner's commit",
			history(produced(1, 3), assigned("A", 1), handledIn("B", 1, 1, 2, 3), committed("B", 40), handledIn("A", 1, 1)),
			Report{Produced: 3, Handled: 3, Duplicates: 1, DuplicatesAllowed: 1},
		},
		{
			"the same without knowing the assignment's begin",
			history(produced(1, 3), handledIn("B", 1, 1, 2, 3), committed("B", 40), handledIn("A", 1, 1)),
			Report{Produced: 3, Handled: 3, Duplicates: 1},
		},
		{
			"a handler that returns after its partition left and came back",
			history(produced(1, 3), handledIn("A", 1, 1), handledIn("B", 1, 2, 3), committed("B", 40), assigned("A", 2), handledIn("A", 1, 2)),
			Report{Produced: 3, Handled: 3, Duplicates: 1, DuplicatesAllowed: 1},
		},
		{
			"committed before it was handled",
			history(produced(1, 3), handled("A", 1), committed("A", 30), handled("A", 2, 3)),
			Report{Produced: 3, Handled: 3, EarlyCommits: 1},
		},
		{
			"committed before it was handled, seen after a restart",
			history(produced(1, 3), handled("A", 1), committed("A", 30), handled("B", 2, 3)),
			Report{Produced: 3, Handled: 3, EarlyCommits: 1},
		},

		{
			"repeat below the frontier, of a lane that is not named",
			history(produced(1, 5), handledIn("A", 1, 1, 2, 3), frontier("A", 5, 40, Lane{acme, 30}), resumed("B", 1), handledIn("B", 1, 2, 3, 4, 5)),
			Report{Produced: 5, Handled: 5, Duplicates: 2, DuplicatesAllowed: 1},
		},
		{
			"repeats below the frontier, of a worker that did not go by it",
			history(produced(1, 5), handledIn("A", 1, 1, 2, 3), frontier("A", 5, 40), assigned("B", 1), handledIn("B", 1, 1, 2, 3, 4, 5)),
			Report{Produced: 5, Handled: 5, Duplicates: 3, DuplicatesAllowed: 3},
		},
		{
			"repeats below the frontier, of a lane that may be part of the tenant",
			history(produced(1, 3), handledIn("A", 1, 1, 2), frontier("A", 5, 30, Lane{acme + 1, 10}), resumed("B", 1), handledIn("B", 1, 1, 2, 3)),
			Report{Produced: 3, Handled: 3, Duplicates: 2, DuplicatesAllowed: 2},
		},
		{
			"a frontier above what is not done",
			history(produced(1, 3), handledIn("A", 1, 1), frontier("A", 15, 40), resumed("B", 1), handledIn("B", 1, 2, 3)),
			Report{Produced: 3, Handled: 3, EarlyCommits: 2},
		},
		{
			"an early frontier of the process itself",
			history(produced(1, 2), handledIn("A", 1, 1), frontier("A", 15, 40), handledIn("A", 1, 2)),
			Report{Produced: 2, Handled: 2, EarlyCommits: 1},
		},
		{
			"a repeat run ascends",
			history(produced(1, 7), handled("A", 1, 2, 3, 4, 5, 6), handled("A", 3, 4, 5, 6, 7)),
			Report{Produced: 7, Handled: 7, Duplicates: 4, DuplicatesAllowed: 4},
		},
		{
			"a repeat run descends",
			history(produced(1, 6), handled("A", 1, 2, 3, 4, 5, 6), handled("A", 3, 5, 4)),
			Report{Produced: 6, Handled: 6, Duplicates: 3, DuplicatesAllowed: 3, OrderViolations: 1},
		},
		{
			"a repeat run twice",
			history(produced(1, 3), handled("A", 1, 2, 3), handled("A", 2, 3), handled("A", 2, 3)),
			Report{Produced: 3, Handled: 3, Duplicates: 4, DuplicatesAllowed: 4},
		},
		{
			"in a known assignment nothing repeats",
			history(produced(1, 3), handledIn("A", 1, 1, 2, 3), handledIn("A", 1, 2)),
			Report{Produced: 3, Handled: 3, Duplicates: 1, DuplicatesAllowed: 1, OrderViolations: 1},
		},
		{
			"a new assignment begins a new run",
			history(produced(1, 3), handledIn("A", 1, 1, 2, 3), handledIn("A", 2, 1, 2), handledIn("A", 3, 1, 2, 3)),
			Report{Produced: 3, Handled: 3, Duplicates: 5, DuplicatesAllowed: 5},
		},
		{
			"a repeat by another process has its own run",
			history(produced(1, 3), handled("A", 1, 2, 3), handled("B", 1), handled("C", 1, 2), handled("B", 2)),
			Report{Produced: 3, Handled: 3, Duplicates: 4, DuplicatesAllowed: 4},
		},
		{"produced twice is one", history(produced(1, 2), produced(1, 2), handled("A", 1, 2)), Report{Produced: 2, Handled: 2}},
		{"sequences from 0", history(produced(0, 1), handled("A", 0, 1)), Report{Produced: 2, Handled: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judge(c.events)
			got.Tenants, got.Worst = 0, nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			bad := c.want.Lost + c.want.OrderViolations + c.want.EarlyCommits + c.want.Duplicates - c.want.DuplicatesAllowed
			if got.OK() != (bad == 0) {
				t.Errorf("OK is %v: %q", got.OK(), got.Problem())
			}
		})
	}
}

func TestUnorderedRecordsMayComeInAnyOrder(t *testing.T) {
	c := New()
	for _, seq := range []uint64{3, 1, 2, 2} {
		c.Handled(Handling{Process: "A", ID: ID{"p", "t"}, Seq: seq, Offset: int64(seq), Unordered: true})
	}
	if r := c.Report(); r.OrderViolations != 0 || r.Handled != 3 || r.Duplicates != 1 {
		t.Errorf("%+v", r)
	}
}

func TestWorstNamesTheTenantAndShowsAnExample(t *testing.T) {
	c := New()
	for i := range 20 {
		id := ID{"p", strings.Repeat("t", i+1)}
		for seq := range uint64(i + 1) {
			c.Produced(id, seq+1)
		}
	}
	c.Produced(ID{"p", "\xffbin"}, 1)
	c.Handled(Handling{Process: "A", ID: ID{"p", "\xffbin"}, Seq: 2, Partition: 4, Offset: 9})
	c.Handled(Handling{Process: "A", ID: ID{"p", "\xffbin"}, Seq: 1, Partition: 4, Offset: 8})
	r := c.Report()
	if len(r.Worst) != worstTenants || r.Worst[0].Lost != 20 || r.Worst[0].Example != "sequence 1 was acknowledged and never handled" {
		t.Errorf("%+v", r.Worst)
	}
	if r.Tenants != 21 || !strings.Contains(r.Problem(), "210 lost, 1 out of order") {
		t.Errorf("%d tenants, %q", r.Tenants, r.Problem())
	}
	found := c.faults[c.sequences[ID{"p", "\xffbin"}]].finding(ID{"p", "\xffbin"}, 0, 0)
	if found.TenantHex != "ff62696e" || !strings.Contains(found.Example, "sequence 1 (partition 4, offset 8, process A)") {
		t.Errorf("%+v", found)
	}
}

func TestReportOfNothing(t *testing.T) {
	c := New()
	c.Quarantined(0, 2)
	c.Quarantined(1, 2)
	c.Quarantined(1, 2) // by another group
	if diff := cmp.Diff(Report{Quarantined: 2, Worst: []Finding{}}, c.Report()); diff != "" {
		t.Error(diff)
	}
}

// TestQuarantine: what was acknowledged where it lay must not be set aside; the
// copy that was sent again elsewhere is another record.
func TestQuarantine(t *testing.T) {
	c := New()
	c.Quarantined(3, 7)
	c.ProducedAt(Handling{ID: ID{"p", "a"}, Seq: 1, Partition: 4, Offset: 7})
	c.Handled(Handling{Process: "A", ID: ID{"p", "a"}, Seq: 1, Partition: 4, Offset: 7})
	if r := c.Report(); !r.OK() || r.Quarantined != 1 {
		t.Errorf("%+v", r)
	}
	c.ProducedAt(Handling{ID: ID{"p", "a"}, Seq: 2, Partition: 3, Offset: 7})
	c.Handled(Handling{Process: "A", ID: ID{"p", "a"}, Seq: 2, Partition: 4, Offset: 9})
	r := c.Report()
	if r.QuarantinedAcknowledged != 1 || !strings.Contains(r.Problem(), "1 acknowledged and set aside in quarantine") ||
		len(r.Worst) != 1 || !strings.Contains(r.Worst[0].Example, "partition 3, offset 7") {
		t.Errorf("%+v", r)
	}
}
