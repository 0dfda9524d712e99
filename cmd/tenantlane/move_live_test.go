package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

const wrappedTable = `version: 1
revision: 1
topics:
  orders:
    partitions: 8
    slots: 64
    producers: wrapped
    epoch: 1
    placements:
      acme: {partitions: [0], epoch: 1}
`

// wrapped is an embedded broker with a table in a topic whose producers are
// wrapped.
func wrapped(t *testing.T) (brokers string) {
	t.Helper()
	brokers = startBroker(t)
	runArgs(t, inTopic(brokers, "table", "push", tempFile(t, "routing.yaml", wrappedTable), "--create")...).wantDone(t)
	return brokers
}

func openTable(t *testing.T, brokers string) *store.Topic {
	t.Helper()
	table, err := store.OpenTopic(t.Context(), store.TopicConfig{KafkaOpts: []kgo.Opt{kgo.SeedBrokers(brokers)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

// answering is the session of a producer that has nothing in flight.
func answering(t *testing.T, brokers string) {
	t.Helper()
	table := openTable(t, brokers)
	session, err := table.Register(t.Context(), store.SessionConfig{Client: "billing-api", Topics: []string{"orders"}, Drained: func() (open []string) {
		for _, m := range topicOf(t, table).Moves() {
			if m.Open() {
				open = append(open, m.ID)
			}
		}
		return open
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// wrappedProducer is a Producer that is registered.
func wrappedProducer(t *testing.T, brokers string) *partitioner.Producer {
	t.Helper()
	table := openTable(t, brokers)
	client, err := kgo.NewClient(append(partitioner.ClientOpts(table, partitioner.Config{}), kgo.SeedBrokers(brokers), kgo.ClientID("billing-api"),
		kgo.DefaultProduceTopic("orders"), kgo.ProducerLinger(0))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	p, err := partitioner.NewProducer(client, table, partitioner.ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func topicOf(t *testing.T, table *store.Topic) *routing.Topic {
	t.Helper()
	topic, ok := table.Table().Topic("orders")
	if !ok {
		t.Fatal("no topic orders")
	}
	return topic
}

func TestMoveStartIsStrictWithATableInATopic(t *testing.T) {
	brokers := wrapped(t)
	answering(t, brokers)
	produceKeys(t, connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner())), "acme") // to partition 0
	moved := one[moveJSON](t, inTopic(brokers, "move", "start", "acme", "--to", "3", "--log-level", "error")...)
	want := moveJSON{
		State: "SWITCHED", Mode: "strict", Topic: "orders", Tenant: "acme", TenantHex: "61636d65", From: []int32{0}, To: []int32{3},
		Fence: []fenceJSON{{0, 1}}, Epoch: 2, Revision: 3, WaitingFor: []string{},
	}
	if diff := cmp.Diff(want, moved, cmpopts.IgnoreFields(moveJSON{}, "PauseMS", "Move", "WaitedFor")); diff != "" || len(moved.Move) != 16 || moved.PauseMS <= 0 {
		t.Errorf("move (-want +got):\n%s\n%+v", diff, moved)
	}
	if got := one[routeRow](t, inTopic(brokers, "route", "acme")...); got.Partition != 3 || got.Epoch != 2 {
		t.Errorf("%+v", got)
	}
	status := rows[moveStatusJSON](t, runArgs(t, inTopic(brokers, "move", "status", "--format", "json")...))
	if len(status) != 1 || status[0].Move != moved.Move || status[0].State != "SWITCHED" || status[0].PauseMS != nil || !cmp.Equal(status[0].Fence, moved.Fence) {
		t.Errorf("%+v", status)
	}
	if open := rows[moveStatusJSON](t, runArgs(t, inTopic(brokers, "move", "status", "--open", "--format", "json")...)); len(open) != 0 {
		t.Errorf("%+v", open)
	}
	if text := runArgs(t, inTopic(brokers, "move", "status")...); !strings.Contains(text.stdout, moved.Move) || !strings.Contains(text.stdout, "0/1") {
		t.Errorf("%s", text.stdout)
	}
	runArgs(t, inTopic(brokers, "move", "start", "acme", "--to", "3", "--log-level", "error")...).wantError(t, exitNo, "already")
	runArgs(t, inTopic(brokers, "move", "abort", moved.Move)...).wantError(t, exitNo, "is switched", "another move")
}

// A Producer follows a move between two of its records.
func TestMoveStartTakesARunningProducerAlong(t *testing.T) {
	brokers := wrapped(t)
	p := wrappedProducer(t, brokers)
	produce := func(want int32) {
		t.Helper()
		r := &kgo.Record{Key: []byte("acme"), Value: []byte("x")}
		if err := p.ProduceSync(t.Context(), r).FirstErr(); err != nil || r.Partition != want {
			t.Fatalf("to partition %d, want %d: %v", r.Partition, want, err)
		}
	}
	produce(0)
	moved := one[moveJSON](t, inTopic(brokers, "move", "start", "acme", "--to", "3", "--log-level", "error")...)
	produce(3)
	if !cmp.Equal(moved.Fence, []fenceJSON{{0, 1}}) || len(moved.WaitedFor) > 1 {
		t.Errorf("%+v", moved)
	}
	for _, w := range moved.WaitedFor { // none if it answered before anybody looked
		if !strings.HasPrefix(w.Producer, "billing-api ") {
			t.Errorf("waited for %q", w.Producer)
		}
	}
}

func TestMoveStartTakesSlots(t *testing.T) {
	brokers := wrapped(t)
	moved := one[moveJSON](t, inTopic(brokers, "move", "start", "--slot", "1,9-10", "--to", "7", "--log-level", "error")...)
	want := []slotMoveJSON{{1, 1, 7}, {9, 1, 7}, {10, 2, 7}}
	if !cmp.Equal(moved.Slots, want) || moved.Slot != nil || len(moved.Fence) != 2 || moved.TenantHex != "" {
		t.Errorf("%+v", moved)
	}
	alone := one[moveJSON](t, inTopic(brokers, "move", "start", "--slot", "1", "--to", "2", "--log-level", "error")...)
	if alone.Slot == nil || *alone.Slot != 1 || !cmp.Equal(alone.From, []int32{7}) {
		t.Errorf("%+v", alone)
	}
	text := runArgs(t, inTopic(brokers, "move", "start", "--slot", "1-3", "--to", "0")...)
	text.wantDone(t)
	for _, part := range []string{"orders: 3 slots moved from partition 2-3 to 0", "fence at"} {
		if !strings.Contains(text.stdout, part) {
			t.Errorf("stdout %q does not hold %q", text.stdout, part)
		}
	}
	for _, part := range []string{"no producer is registered", "move prepared", "fences written", "move switched"} {
		if !strings.Contains(text.stderr, part) {
			t.Errorf("stderr %q does not hold %q", text.stderr, part)
		}
	}
}

func TestMoveStartStrictRefuses(t *testing.T) {
	brokers := startBroker(t)
	runArgs(t, inTopic(brokers, "table", "push", tempFile(t, "routing.yaml", strings.ReplaceAll(wrappedTable, "wrapped", "any")), "--create")...).wantDone(t)
	start := func(args ...string) result {
		return runArgs(t, inTopic(brokers, append([]string{"move", "start", "--log-level", "error"}, args...)...)...)
	}
	start("acme", "--to", "3").wantError(t, exitNo, "producers: wrapped", "--mode stopped", "--accept-unordered")
	defer func() { // once all are wrapped, and the table says so
		if got := one[producersJSON](t, inTopic(brokers, "table", "set", "orders", "--producers", "wrapped")...); got.Producers != "wrapped" {
			t.Errorf("%+v", got)
		}
		start("acme", "--to", "4").wantDone(t)
		runArgs(t, inTopic(brokers, "table", "set", "orders", "acme", "--producers", "wrapped")...).wantError(t, exitUsage, "--producers")
		runArgs(t, inTopic(brokers, "table", "set", "nope", "--producers", "any")...).wantError(t, exitUsage, "nope")
	}()
	got := start("acme", "--to", "3", "--accept-unordered")
	got.wantDone(t)
	if !strings.Contains(got.stderr, "order is given up") || !strings.Contains(got.stderr, "do not wait") {
		t.Errorf("stderr %q", got.stderr)
	}
	for _, c := range []struct{ args, want string }{
		{"", "tenant"},
		{"acme --slot 1 --to 3", "--slot"},
		{"--slot 1 --to 3 --spread key", "--spread"},
		{"--slot 1 --to 3 --mode stopped", "--mode strict"},
		{"--slot 64 --to 3", "--slot"},
		{"--slot 1 --to 2-3", "one partition"},
		{"acme --to 3 --drain-timeout 1s", "--drain-timeout does nothing"},
		{"acme --to 3 --mode stopped --deadline 1s", "--deadline does nothing"},
		{"acme --to 3 --deadline 0s", "--deadline"},
		{"acme --to 8", "--to"},
	} {
		start(strings.Fields(c.args)...).wantError(t, exitUsage, c.want)
	}
	file := []string{"--table", tempFile(t, "routing.yaml", wrappedTable), "--brokers", brokers}
	runArgs(t, append([]string{"move", "start", "acme", "--to", "3", "--mode", "strict"}, file...)...).wantError(t, exitUsage, "table push", "--mode stopped")
	runArgs(t, inTopic(brokers, "move", "abort", "acme")...).wantError(t, exitNo, "no open move")
	if text := runArgs(t, inTopic(brokers, "move", "status", "nobody")...); text.stdout != "no moves\n" {
		t.Errorf("%q", text.stdout)
	}
}

// Growth of a live topic, all of it: grow, plan, run, with an interruption.
func TestGrowthOnALiveTopicGoesOnAfterAnInterruption(t *testing.T) {
	brokers := wrapped(t)
	table := openTable(t, brokers)
	answering(t, brokers)
	runArgs(t, inTopic(brokers, "topic", "grow", "--partitions", "16")...).wantDone(t)
	plan := filepath.Join(t.TempDir(), "growth.json")
	runArgs(t, inTopic(brokers, "plan", "growth", "--from", "8", "--to", "16", "--write", plan)...).wantDone(t)
	run := inTopic(brokers, "move", "run", "--plan", plan, "--batch", "5", "--rate", "0", "--format", "json")

	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		defer cancel()
		for changed := table.Changed(); len(topicOf(t, table).Moves()) < 3; changed = table.Changed() {
			select {
			case <-changed:
			case <-t.Context().Done():
				return
			}
		}
	})
	first := runContext(t, ctx, run...)
	watch.Wait()
	if first.code != exitInterrupted || !strings.Contains(first.stderr, "are where they go") {
		t.Fatalf("exit code %d, stderr %q", first.code, first.stderr)
	}
	second := runArgs(t, run...)
	second.wantDone(t)
	if len(rows[moveJSON](t, second)) >= 7 || !strings.Contains(second.stderr, "32 of 32 are where they go") {
		t.Errorf("the second run: %s%s", second.stdout, second.stderr)
	}
	if err := table.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	on := map[int32]int{}
	for slot := range int32(64) {
		on[topicOf(t, table).SlotPartition(slot)]++
	}
	for partition := range int32(16) {
		if on[partition] != 4 {
			t.Errorf("partition %d has %d slots, want 4", partition, on[partition])
		}
	}
	if pruned := one[pruneJSON](t, inTopic(brokers, "table", "prune")...); pruned.Moves != 0 {
		t.Errorf("%+v: moves were forgotten whose records may still be read", pruned)
	}
	third := runArgs(t, run...)
	third.wantDone(t)
	if third.stdout != "" || topicOf(t, table).Moving() {
		t.Errorf("a third run: %q", third.stdout)
	}
}

func TestMoveRunTakesTenants(t *testing.T) {
	brokers := wrapped(t)
	plan := tempFile(t, "plan.json", `{"tenant_moves": [{"tenant": "acme", "to": [4]}, {"tenant_hex": "ff00", "to": [5]}]}`)
	got := runArgs(t, inTopic(brokers, "move", "run", "--plan", plan, "--max-parallel", "2", "--rate", "0")...)
	got.wantDone(t)
	if strings.Count(got.stdout, "moved from partition") != 2 || !strings.Contains(got.stderr, "2 of 2") {
		t.Errorf("%s%s", got.stdout, got.stderr)
	}
}

func TestMoveRunRefuses(t *testing.T) {
	brokers := wrapped(t)
	for content, want := range map[string]string{
		`[]`: "cannot unmarshal",
		`{}`: "neither slot_moves",
		`{"slot_moves": [{"slot": 1, "to": 2}, {"slot": 1, "to": 3}]}`:    "slot 1",
		`{"topic": "invoices", "slot_moves": []}`:                         "invoices",
		`{"tenant_moves": [{"to": [1]}]}`:                                 "without a tenant",
		`{"tenant_moves": [{"tenant": "acme"}]}`:                          "nowhere",
		`{"tenant_moves": [{"tenant_hex": "x", "to": [1]}]}`:              "tenant_hex",
		`{"tenant_moves": [{"tenant_hex": "ff00"}]}`:                      "nowhere",
		`{"tenant_moves": [{"tenant": "a", "to": [1], "spread": "all"}]}`: "spread",
	} {
		runArgs(t, inTopic(brokers, "move", "run", "--plan", tempFile(t, "plan.json", content))...).wantError(t, exitUsage, want)
	}
	plan := tempFile(t, "plan.json", `{"slot_moves": [{"slot": 1, "to": 2}]}`)
	for flag, value := range map[string]string{"--batch": "0", "--max-parallel": "0", "--rate": "-1", "--retries": "-1"} {
		runArgs(t, inTopic(brokers, "move", "run", "--plan", plan, flag, value)...).wantError(t, exitUsage, flag)
	}
	runArgs(t, inTopic(brokers, "move", "run", "--plan", "/does/not/exist")...).wantError(t, exitUsage, "--plan")
	runArgs(t, inTopic(brokers, "move", "run")...).wantError(t, exitUsage, "plan")
	nowhere := tempFile(t, "plan.json", `{"slot_moves": [{"slot": 1, "to": 8}]}`)
	got := runArgs(t, inTopic(brokers, "move", "run", "--plan", nowhere)...)
	if got.code != exitNo || !strings.Contains(got.stderr, "topic grow") {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
}

// Where producers take part in moves, setting a tenant without live records is one.
func TestTableSetIsAMoveWhereProducersAreWrapped(t *testing.T) {
	brokers := wrapped(t)
	answering(t, brokers)
	set := one[changedJSON](t, inTopic(brokers, "table", "set", "orders", "acme", "--partitions", "3", "--reason", "a whale")...)
	if set.Epoch != 2 || !cmp.Equal(set.Partitions, []int32{3}) {
		t.Errorf("%+v", set)
	}
	slot := one[slotChangedJSON](t, inTopic(brokers, "table", "set", "orders", "--slot", "9", "--partitions", "5")...)
	if slot.Partition != 5 || slot.Epoch != 3 {
		t.Errorf("%+v", slot)
	}
	moves := rows[moveStatusJSON](t, runArgs(t, inTopic(brokers, "move", "status", "--format", "json")...))
	if len(moves) != 2 || moves[0].Tenant != "acme" || *moves[1].Slot != 9 {
		t.Errorf("%+v", moves)
	}
	tiered := one[changedJSON](t, inTopic(brokers, "table", "set", "orders", "acme", "--partitions", "3", "--tier", "", "--settle", "1ms")...)
	if tiered.Epoch != 2 {
		t.Errorf("a change of the tier moved it: %+v", tiered)
	}
	runArgs(t, inTopic(brokers, "table", "set", "orders", "globex", "--partitions", "3", "--settle", "1ms")...).wantDone(t)
	unset := one[changedJSON](t, inTopic(brokers, "table", "unset", "orders", "globex", "--settle", "1ms")...)
	if moves = rows[moveStatusJSON](t, runArgs(t, inTopic(brokers, "move", "status", "globex", "--format", "json")...)); !unset.FollowSlot || len(moves) != 2 || unset.Epoch != 6 {
		t.Errorf("%+v after %+v", unset, moves)
	}
	manual := connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := manual.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: 3, Key: []byte("acme"), Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	commitAt(t, manual, "billing", 3, 0)
	runArgs(t, inTopic(brokers, "table", "set", "orders", "acme", "--partitions", "4")...).wantError(t, exitNo, `tenant "acme" is live`, "tenantlane move start acme")
	unsafe := one[changedJSON](t, inTopic(brokers, "table", "set", "orders", "acme", "--partitions", "4", "--unsafe", "--settle", "1ms")...)
	if unsafe.Epoch != 7 {
		t.Errorf("%+v", unsafe)
	}
}

func TestTablePruneForgetsMovesOfWhichNothingIsLeft(t *testing.T) {
	brokers := wrapped(t)
	moved := one[moveJSON](t, inTopic(brokers, "move", "start", "acme", "--to", "3", "--log-level", "error")...)
	gone := kadm.Offsets{}
	gone.AddOffset("orders", 0, moved.Fence[0].Offset+1, -1)
	if _, err := kadm.NewClient(connect(t, brokers)).DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if pruned := one[pruneJSON](t, inTopic(brokers, "table", "prune", "--older", "1h")...); pruned.Moves != 1 {
		t.Errorf("%+v", pruned)
	}
	if left := rows[moveStatusJSON](t, runArgs(t, inTopic(brokers, "move", "status", "--format", "json")...)); len(left) != 0 {
		t.Errorf("%+v", left)
	}
}
