package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/store"
)

func TestMoveStartWaitsForTheGroupAndSwitches(t *testing.T) {
	brokers := startBroker(t)
	manual := connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produceKeys(t, manual, "acme", "acme") // to partition 0
	commitAt(t, manual, "billing", 0, 1)
	path := tempFile(t, "routing.yaml", liveTable)
	move := []string{"move", "start", "acme", "--to", "3", "--table", path, "--brokers", brokers, "--settle", "1ms"}

	got := runArgs(t, append(move, "--drain-timeout", "1ms")...)
	got.wantError(t, exitNo, "nothing has changed", `tenant "acme" is live`, `group "billing"`)
	if table := readTable(t, path); table.Revision() != 3 {
		t.Fatalf("after a move that ended early the table has revision %d, want 3", table.Revision())
	}

	// The group commits while the move waits.
	var group sync.WaitGroup
	group.Go(func() { commitAt(t, manual, "billing", 0, 2) })
	moved := one[moveJSON](t, move...)
	group.Wait()
	want := moveJSON{
		Move: "orders/61636d65", State: "SWITCHED", Mode: "stopped", Topic: "orders", Tenant: "acme", TenantHex: "61636d65",
		From: []int32{0}, To: []int32{3}, Fence: []fenceJSON{}, Revision: 4, WaitingFor: []string{},
	}
	if diff := cmp.Diff(want, moved, cmpopts.IgnoreFields(moveJSON{}, "PauseMS")); diff != "" || moved.PauseMS <= 0 {
		t.Errorf("move (-want +got):\n%s\npause %v ms", diff, moved.PauseMS)
	}
	if topic, _ := readTable(t, path).Topic("orders"); topic.Partition([]byte("acme"), nil) != 3 {
		t.Error("the table does not send acme to partition 3")
	}
	runArgs(t, move...).wantError(t, exitNo, "already")
}

// A producer that was not stopped is named.
func TestMoveStartNamesARecordThatCameTooLate(t *testing.T) {
	brokers := startBroker(t)
	manual := connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	path := tempFile(t, "routing.yaml", liveTable)
	source, err := store.OpenFile(t.Context(), path, store.FileConfig{Interval: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	changed := source.Changed()
	var late sync.WaitGroup
	late.Go(func() {
		<-changed
		produceKeys(t, manual, "acme")
	})
	got := runArgs(t, "move", "start", "acme", "--to", "3", "--table", path, "--brokers", brokers, "--settle", "1500ms")
	late.Wait()
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	if got.code != exitNo || !strings.Contains(got.stderr, `tenant "acme" to partition 0`) || !strings.Contains(got.stdout, "moved from partition 0 to 3") {
		t.Errorf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
}

func TestMoveStartRefusesWhatItCannotDo(t *testing.T) {
	path := tempFile(t, "routing.yaml", liveTable)
	for _, c := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"acme"}, []string{"--to"}},
		{[]string{"acme", "--to", "3"}, []string{"no brokers"}},
		{[]string{"acme", "--to", "3", "--mode", "strict"}, []string{"--mode", "stopped"}},
		{[]string{"acme", "--to", "3", "--drain-timeout", "-1s"}, []string{"--drain-timeout"}},
		{[]string{"zz", "--hex", "--to", "3"}, []string{"hexadecimal"}},
	} {
		runArgs(t, append(append([]string{"move", "start"}, c.args...), "--table", path)...).wantError(t, exitUsage, c.parts...)
	}
	brokers := startBroker(t)
	for to, part := range map[string]string{"8": "--to", "1,2": "spread", "x": "--to"} {
		runArgs(t, "move", "start", "acme", "--to", to, "--table", path, "--brokers", brokers).wantError(t, exitUsage, part)
	}
	if table := readTable(t, path); table.Revision() != 3 {
		t.Errorf("the table has revision %d, want 3", table.Revision())
	}
}
