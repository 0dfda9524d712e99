package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/deliver"
)

func TestTopicGrowAddsPartitionsAndTellsTheTable(t *testing.T) {
	brokers := startBroker(t)
	path := tempFile(t, "routing.yaml", "version: 1\nrevision: 3\ntopics:\n  orders: {partitions: 8, slots: 64}\n")
	runArgs(t, inTopic(brokers, "table", "push", path, "--create")...).wantDone(t)
	grow := inTopic(brokers, "topic", "grow", "--topic", "orders", "--partitions", "12")
	want := topicGrown{Topic: "orders", Partitions: 12, Added: 4, Before: 8, Revision: 4}
	if got := one[topicGrown](t, grow...); got != want {
		t.Errorf("grown: %+v, want %+v", got, want)
	}
	want = topicGrown{Topic: "orders", Partitions: 12, Before: 12, Revision: 4}
	if got := one[topicGrown](t, grow...); got != want {
		t.Errorf("grown twice: %+v, want %+v", got, want)
	}
	runArgs(t, inTopic(brokers, "topic", "grow", "--partitions", "11")...).wantError(t, exitUsage, "cannot shrink", "12 partitions")

	got := one[growthJSON](t, inTopic(brokers, "plan", "growth", "--from", "8", "--to", "12")...)
	if got.Topic != "orders" || len(got.SlotMoves) != 20 { // 64 slots, 8 on each of 8: a third of them goes, the rest is 5 or 6
		t.Errorf("plan after the growth: %+v", got)
	}
	for _, m := range got.SlotMoves {
		if m.To < 8 || m.From >= 8 {
			t.Errorf("slot %d goes from %d to %d, not onto a new partition", m.Slot, m.From, m.To)
		}
	}
	runArgs(t, inTopic(brokers, "plan", "growth", "--from", "8", "--to", "16")...).wantError(t, exitUsage, "not grown to 16")
	runArgs(t, inTopic(brokers, "plan", "growth", "--from", "13", "--to", "16")...).wantError(t, exitUsage, "--from is 13")
}

// Cut off between the topic and the table, it goes on where it was.
func TestTopicGrowGoesOn(t *testing.T) {
	brokers := startBroker(t)
	path := tempFile(t, "routing.yaml", "version: 1\nrevision: 3\ntopics:\n  orders: {partitions: 4, slots: 64}\n")
	args := []string{"topic", "grow", "--partitions", "8", "--table", path, "--brokers", brokers}
	want := topicGrown{Topic: "orders", Partitions: 8, Before: 4, Revision: 4}
	if got := one[topicGrown](t, args...); got != want {
		t.Errorf("grown: %+v, want %+v", got, want)
	}
	if got := readTable(t, path).Spec().Topics["orders"]; got.Partitions != 8 || len(got.Shared) != 4 {
		t.Errorf("the table has %d partitions, of which %v are shared; want 8, and shared as before", got.Partitions, got.Shared)
	}
	text := runArgs(t, append(args[:3:3], append([]string{"9"}, args[4:]...)...)...)
	text.wantDone(t)
	for _, part := range []string{"9 partitions, 1 of them new", "plan growth --topic orders --from 8 --to 9", "move run --plan", path} {
		if !strings.Contains(text.stdout, part) {
			t.Errorf("%s does not hold %q", text.stdout, part)
		}
	}
}

func TestTopicGrowRefuses(t *testing.T) {
	path := tempFile(t, "routing.yaml", liveTable)
	for _, c := range []struct{ args, want string }{
		{"topic grow --topic orders", "partitions"},
		{"topic grow --topic orders --partitions 16", "--table"},
		{"topic grow --topic orders --partitions 16 --brokers x --table " + path + " --table-topic tenantlane.routing", "not both"},
		{"topic grow --topic orders --partitions 16 --table " + path, "--brokers"},
		{"topic grow --topic nope --partitions 16 --table " + path, "nope"},
	} {
		runArgs(t, strings.Fields(c.args)...).wantError(t, exitUsage, c.want)
	}
	runArgs(t, "topic", "grow", "--partitions", "16", "--table", path, "--brokers", closedPort(t)).wantError(t, exitKafka, "refused")
}

// A group that began at the end of the topic reads new partitions from when it
// began, not from their ends.
func TestAGroupThatBeganAtTheEndLosesNothingOfNewPartitions(t *testing.T) {
	brokers := startBroker(t)
	manual := connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produce := func(partitions ...int32) {
		for _, p := range partitions {
			if err := manual.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: p, Key: []byte("acme"), Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	worker := func() uint64 {
		got := runArgs(t, "worker", "--topic", "orders", "--group", "g", "--discard", "--start", "latest", "--brokers", brokers,
			"--until-idle", "300ms", "--format", "json", "--log-level", "error")
		got.wantDone(t)
		lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
		var last deliver.Stats
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
			t.Fatalf("%q: %v", got.stdout, err)
		}
		return last.Handled
	}
	produce(0, 1, 2)
	if handled := worker(); handled != 0 {
		t.Fatalf("a group that begins at the end handled %d records of before", handled)
	}
	path := tempFile(t, "routing.yaml", "version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, slots: 64}\n")
	runArgs(t, "topic", "grow", "--partitions", "12", "--table", path, "--brokers", brokers).wantDone(t)
	manual = connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner())) // knows the new ones
	produce(8, 9, 10, 11, 11, 0)                                                 // while nobody of the group is there
	if handled := worker(); handled != 6 {
		t.Errorf("%d records handled, want all 6", handled)
	}
}
