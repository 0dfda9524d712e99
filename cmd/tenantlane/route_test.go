package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// runInput runs the command line with something on stdin.
func runInput(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// rows reads one JSON object per line.
func rows[T any](t *testing.T, r result) []T {
	t.Helper()
	r.wantDone(t)
	var all []T
	in := json.NewDecoder(strings.NewReader(r.stdout))
	in.DisallowUnknownFields()
	for in.More() {
		var row T
		if err := in.Decode(&row); err != nil {
			t.Fatalf("%v in %q", err, r.stdout)
		}
		all = append(all, row)
	}
	return all
}

// routingData is where the routing package keeps what real clients computed.
const routingData = "../../partitioner/routing/testdata/"

func readLines(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

func TestRouteGivesTheReferenceHashesAndSlots(t *testing.T) {
	var vectors []map[string]string
	raw, err := os.ReadFile(routingData + "hash_vectors.json")
	if err == nil {
		err = json.Unmarshal(raw, &vectors)
	}
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, v := range vectors {
		keys = append(keys, v["key_hex"])
	}
	for _, hash := range []string{"xxhash64", "blake2b-64", "sha256-64", "murmur2-kafka"} {
		got := rows[routeRow](t, runInput(t, strings.Join(keys, "\n"), "route", "--hex", "--hash", hash, "--partitions", "32", "--format", "json", "-"))
		if len(got) != 52 {
			t.Fatalf("%s: %d rows, want 52", hash, len(got))
		}
		for i, v := range vectors {
			sum, err := strconv.ParseUint(v[hash], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if got[i].TenantHex != v["key_hex"] || got[i].Hash != v[hash] || got[i].Slot != int32(sum%4096) || got[i].Partition != int32(sum%32) {
				t.Errorf("%s of %s: %+v, want hash %s, slot %d, partition %d", hash, v["key_hex"], got[i], v[hash], sum%4096, sum%32)
			}
		}
	}
}

func TestRouteGivesThePartitionsOfRealClients(t *testing.T) {
	lines := readLines(t, routingData+"client_placements.tsv")
	var keys []string
	for _, line := range lines[1:] {
		key, _, _ := strings.Cut(line, "\t")
		keys = append(keys, key)
	}
	columns := strings.Split(lines[0], "\t")
	for c, column := range columns[1:] {
		client, partitions, _ := strings.Cut(column, "_")
		got := rows[routeRow](t, runInput(t, strings.Join(keys, "\n"), "route", "--hex", "--clients", client, "--partitions", partitions, "--format", "json", "-"))
		if len(got) != len(keys) {
			t.Fatalf("%s: %d rows, want %d", column, len(got), len(keys))
		}
		for i, line := range lines[1:] {
			if want := strings.Split(line, "\t")[c+1]; strconv.Itoa(int(got[i].Partition)) != want {
				t.Errorf("%s puts %s on partition %s, route says %d", column, keys[i], want, got[i].Partition)
			}
		}
	}
}

const routeTable = `version: 1
revision: 17
topics:
  orders:
    partitions: 32
    shared: "2-31"
    slots: 4080
    tenant_of: header:tenant
    epoch: 12
    slot_overrides: {17: {partition: 5, epoch: 12}}
    placements:
      acme-corp: {partitions: [0], epoch: 9}
      initech: {partitions: [28, 29, 30], spread: key, epoch: 3}
      hooli: {partitions: [2, 3], spread: random, epoch: 4}
      umbrella: {topic: orders-interactive, epoch: 5}
      globex: {topic: elsewhere, epoch: 6}
  orders-interactive:
    partitions: 4
    placements: {umbrella: {partitions: [1]}}
`

func TestRouteOfEachRule(t *testing.T) {
	table := tempFile(t, "routing.yaml", routeTable)
	route := func(args ...string) []routeRow {
		return rows[routeRow](t, runArgs(t, append([]string{"route", "--table", table, "--topic", "orders", "--format", "json"}, args...)...))
	}
	got := route("acme-corp", "hooli", "initech", "umbrella", "globex")
	for i := range got {
		got[i].Hash, got[i].Slot = "", 0
	}
	want := []routeRow{
		{Tenant: "acme-corp", TenantHex: "61636d652d636f7270", Topic: "orders", Partition: 0, Partitions: []int32{0}, Epoch: 9, Rule: "pinned"},
		{Tenant: "hooli", TenantHex: "686f6f6c69", Topic: "orders", Partition: -1, Partitions: []int32{2, 3}, Epoch: 4, Rule: "spread"},
		{Tenant: "initech", TenantHex: "696e6974656368", Topic: "orders", Partition: -1, Partitions: []int32{28, 29, 30}, Epoch: 3, Rule: "spread"},
		{Tenant: "umbrella", TenantHex: "756d6272656c6c61", Topic: "orders-interactive", Partition: 1, Partitions: []int32{1}, Rule: "pinned"},
		{Tenant: "globex", TenantHex: "676c6f626578", Topic: "elsewhere", Partition: -1, Partitions: []int32{}, Epoch: 6, Rule: "pinned"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if got := route("--key", "order-1", "initech")[0]; got.Partition < 28 || got.Partition > 30 {
		t.Errorf("with a key initech goes to %d, want one of 28 to 30", got.Partition)
	}
	if got := route(tenantOfSlot(t, 17, 4080))[0]; got.Slot != 17 || got.Partition != 5 || got.Epoch != 12 || got.Rule != "slot_override" {
		t.Errorf("tenant of slot 17: %+v, want partition 5 by the override of epoch 12", got)
	}
	if got := route(tenantOfSlot(t, 18, 4080))[0]; got.Slot != 18 || got.Partition != 20 || got.Rule != "slot" {
		t.Errorf("tenant of slot 18: %+v, want partition 20 by its slot", got)
	}
}

// tenantOfSlot searches a tenant that xxhash64 puts into a slot.
func tenantOfSlot(t *testing.T, slot, slots int32) string {
	t.Helper()
	for i := range 1 << 20 {
		name := "tenant-" + strconv.Itoa(i)
		if routing.XXHash64.Slot(routing.XXHash64.Sum([]byte(name)), slots) == slot {
			return name
		}
	}
	t.Fatalf("no tenant found for slot %d", slot)
	return ""
}

func TestRouteAsTextSaysWhatOrderIsLeft(t *testing.T) {
	table := tempFile(t, "routing.yaml", routeTable)
	got := runArgs(t, "route", "--table", table, "--topic", "orders", "hooli", "initech", "globex", "a\nb")
	got.wantDone(t)
	for _, want := range []string{"TENANT", "no order at all", "order holds per (tenant, key)", "that topic is not in this table", "0x610a62"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("stdout %q does not hold %q", got.stdout, want)
		}
	}
}

func TestRouteRefuses(t *testing.T) {
	table := tempFile(t, "routing.yaml", routeTable)
	broken := func(name, from, to string) string {
		return tempFile(t, name, strings.Replace(routeTable, from, to, 1))
	}
	for _, c := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"acme"}, []string{"--table FILE", "--partitions"}},
		{[]string{"--table", table, "acme"}, []string{"2 topics", "--topic", "orders, orders-interactive"}},
		{[]string{"--table", table, "--topic", "order", "acme"}, []string{`"order"`, "orders"}},
		{[]string{"--table", table, "--hash", "xxhash64", "acme"}, []string{"--hash", "--table"}},
		{[]string{"--table", "/does/not/exist", "acme"}, []string{"/does/not/exist", "table init"}},
		{[]string{"--table", broken("field.yaml", "slots: 4080", "slotz: 4080"), "acme"}, []string{"field.yaml:7", "slotz"}},
		{[]string{"--table", broken("tenant.yaml", "hooli:", "acme-corp:"), "acme"}, []string{"tenant.yaml:14", "acme-corp"}},
		{[]string{"--table", broken("outside.yaml", "[0]", "[32]"), "acme"}, []string{"outside.yaml:12", "32"}},
		{[]string{"--partitions", "4", "--hex", "xyz"}, []string{`"xyz"`, "--hex"}},
		{[]string{"--partitions", "4", ""}, []string{"empty tenant"}},
		{[]string{"--partitions", "4", "--shared", "2-5", "acme"}, []string{"partition 4", "0 to 3"}},
		{[]string{"--partitions", "4", "--hash", "md5", "acme"}, []string{"md5", "xxhash64"}},
		{[]string{"--partitions", "4", "--clients", "rust", "acme"}, []string{"rust", "librdkafka"}},
		{[]string{"--partitions", "4", "--clients", "java", "--slots", "8", "acme"}, []string{"--clients"}},
		{[]string{"--partitions", "-4", "acme"}, []string{"partitions", "-4"}},
		{[]string{"--partitions", "4", "--slots", "3", "acme"}, []string{"slots"}},
		{[]string{"--table", table}, []string{"requires at least 1 arg"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			runArgs(t, append([]string{"route"}, c.args...)...).wantError(t, exitUsage, c.parts...)
		})
	}
}

func TestRouteNamesTheLineOfBadInput(t *testing.T) {
	got := runInput(t, "61\n\nxyz\n", "route", "--partitions", "4", "--hex", "--format", "json", "-")
	if got.code != exitUsage || !strings.Contains(got.stderr, "line 3") || strings.Count(got.stdout, "\n") != 1 {
		t.Errorf("exit code %d, stdout %q, stderr %q, want one row and an error that names line 3", got.code, got.stdout, got.stderr)
	}
}

// What is known is printed while stdin stays open, and a cancel ends the wait.
func TestRouteAnswersAStreamAsItComes(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	in, feed := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan int, 1)
	var command sync.WaitGroup
	command.Go(func() {
		done <- run(ctx, []string{"route", "--partitions", "4", "--format", "json", "-"}, in, out, io.Discard)
	})
	if _, err := io.WriteString(feed, "acme\n"); err != nil {
		t.Fatal(err)
	}
	var row routeRow
	if err := json.NewDecoder(answers).Decode(&row); err != nil || row.TenantHex != hex.EncodeToString([]byte("acme")) {
		t.Errorf("row %+v, %v", row, err)
	}
	cancel(stopSignal{os.Interrupt})
	if code := <-done; code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if err := feed.Close(); err != nil {
		t.Error(err)
	}
}
