package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// inTopic is a table's life in a topic: every command on it, by its flags.
func inTopic(brokers string, args ...string) []string {
	return append(args, "--table-topic", "tenantlane.routing", "--brokers", brokers)
}

func TestTableInATopic(t *testing.T) {
	brokers := startBroker(t)
	client := connect(t, brokers)
	produceKeys(t, client, tenantNames(50)...)

	init := one[initJSON](t, inTopic(brokers, "table", "init", "--from-topic", "orders", "--clients", "franz-go")...)
	if init.Revision != 1 || init.Partitions != 8 {
		t.Errorf("init: %+v", init)
	}
	if got := one[verifyJSON](t, inTopic(brokers, "table", "verify", "--topic", "orders")...); got.Records != 50 || got.Matching != 1 {
		t.Errorf("verify: %+v", got)
	}
	set := one[changedJSON](t, inTopic(brokers, "table", "set", "orders", "acme", "--partitions", "3", "--settle", "1ms", "--actor", "ann", "--reason", "a whale")...)
	if set.Revision != 2 || set.Epoch != 1 {
		t.Errorf("set: %+v", set)
	}
	if got := one[routeRow](t, inTopic(brokers, "route", "acme")...); got.Partition != 3 || got.Rule != "pinned" || got.Epoch != 1 {
		t.Errorf("route: %+v", got)
	}
	runArgs(t, inTopic(brokers, "table", "set", "orders", "hooli", "--partitions", "9")...).wantError(t, exitUsage, "partition 9", "0 to 7")

	edited := tempFile(t, "edited.yaml", strings.Replace(runArgs(t, inTopic(brokers, "table", "get")...).stdout, "[3]", "[5]", 1))
	diff := one[diffJSON](t, inTopic(brokers, "table", "diff", edited)...)
	pushed := one[pushJSON](t, inTopic(brokers, "table", "push", edited, "--settle", "1ms", "--reason", "by hand")...)
	if pushed.Revision != 3 || !cmp.Equal(pushed.diffJSON, diff) || len(diff.Placements) != 1 || !cmp.Equal(diff.Placements[0].To.Partitions, []int32{5}) {
		t.Errorf("diff %+v, push %+v", diff, pushed)
	}
	back := one[pushJSON](t, inTopic(brokers, "table", "rollback", "2", "--settle", "1ms")...)
	got := one[placementJSON](t, inTopic(brokers, "table", "get", "orders", "acme")...)
	if back.Revision != 4 || !cmp.Equal(got.Partitions, []int32{3}) || got.Epoch != 3 {
		t.Errorf("rollback: %+v, acme is placed %+v", back, got)
	}
	history := rows[historyJSON](t, runArgs(t, inTopic(brokers, "table", "history", "--format", "json")...))
	if len(history) != 4 || history[0].Revision != 4 || history[2].Actor != "ann" || history[2].Reason != "a whale" || len(history[2].Changes) == 0 {
		t.Errorf("history: %+v", history)
	}
	if text := runArgs(t, inTopic(brokers, "table", "history", "--limit", "3")...); strings.Count(text.stdout, "\n") != 3 || !strings.Contains(text.stdout, "by ann: a whale") {
		t.Errorf("history as text: %q", text.stdout)
	}
}

func TestTableInATopicRefusesToRerouteALiveTenant(t *testing.T) {
	brokers := startBroker(t)
	manual := connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	path := tempFile(t, "routing.yaml", liveTable)
	runArgs(t, inTopic(brokers, "table", "push", path, "--create")...).wantDone(t)
	produceKeys(t, manual, "acme") // to partition 0
	commitAt(t, manual, "billing", 0, 0)
	runArgs(t, inTopic(brokers, "table", "set", "orders", "acme", "--partitions", "3")...).
		wantError(t, exitNo, `tenant "acme" is live`, "tenantlane move start acme", "--table-topic tenantlane.routing`")
	runArgs(t, inTopic(brokers, "tenant", "forget", "acme", "--unsafe")...).wantDone(t)
	if got := one[placementJSON](t, inTopic(brokers, "table", "get", "orders", "acme")...); !got.FollowSlot {
		t.Errorf("acme is placed %+v", got)
	}
}

// A topic that is adopted holds records where its clients put them, so the first
// table to name it may place nobody who has records that are not handled yet.
func TestTheFirstTableOfATopicPlacesNoLiveTenant(t *testing.T) {
	brokers := startBroker(t)
	manual := connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	bare, _, _ := strings.Cut(liveTable, "    placements:")
	adopted := tempFile(t, "adopted.yaml", bare)
	hashed := one[routeRow](t, "route", "acme", "--table", adopted).Partition
	placed := tempFile(t, "placed.yaml", strings.Replace(liveTable, "[0]", fmt.Sprintf("[%d]", (hashed+1)%8), 1))
	if err := manual.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: hashed, Key: []byte("acme")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	commitAt(t, manual, "billing", hashed, 0)
	runArgs(t, inTopic(brokers, "table", "push", placed, "--create")...).
		wantError(t, exitNo, `tenant "acme" is live`, "`tenantlane table init`", "tenantlane move start acme")
	runArgs(t, inTopic(brokers, "table", "push", adopted, "--create")...).wantDone(t)
	runArgs(t, "table", "push", placed, "--table-topic", "other.routing", "--brokers", brokers, "--create", "--unsafe").wantDone(t)
	commitAt(t, manual, "billing", hashed, 1)
	runArgs(t, "table", "push", placed, "--table-topic", "third.routing", "--brokers", brokers, "--create", "--settle", "1ms").wantDone(t)
}

func TestTableTopicRefuses(t *testing.T) {
	brokers := startBroker(t)
	path := tempFile(t, "routing.yaml", liveTable)
	for _, c := range []struct {
		args  []string
		code  int
		parts []string
	}{
		{[]string{"route", "acme", "--table-topic", "tenantlane.routing", "--brokers", brokers}, exitKafka, []string{"tenantlane.routing", "does not exist"}},
		{[]string{"route", "acme", "--table-topic", "tenantlane.routing", "--brokers", "127.0.0.1:1"}, exitKafka, []string{"127.0.0.1:1"}},
		{[]string{"route", "acme", "--table-topic", "tenantlane.routing"}, exitUsage, []string{"--brokers"}},
		{[]string{"route", "acme", "--table-topic", "tables", "--brokers", brokers}, exitUsage, []string{`must end in "routing"`}},
		{[]string{"route", "acme", "--table-topic", "tenantlane.routing", "--table", path, "--brokers", brokers}, exitUsage, []string{"not both"}},
		{[]string{"table", "push", path, "--table-topic", "tenantlane.routing", "--brokers", brokers}, exitKafka, []string{"does not exist"}},
		{[]string{"table", "history"}, exitUsage, []string{"--table-topic"}},
		{[]string{"table", "rollback", "2"}, exitUsage, []string{"--table-topic"}},
		{[]string{"table", "rollback", "two"}, exitUsage, []string{"two"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Setenv("KAFKA_BROKERS", "")
			runArgs(t, c.args...).wantError(t, c.code, c.parts...)
		})
	}
	runArgs(t, inTopic(brokers, "table", "init", "--from-topic", "orders", "--clients", "java")...).wantDone(t)
	runArgs(t, inTopic(brokers, "table", "rollback", "7")...).wantError(t, exitUsage, "revision 7")
	runArgs(t, inTopic(brokers, "table", "init", "--from-topic", "orders", "--clients", "java")...).wantError(t, exitNo, "already in topic")
}
