package main

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// quarantined is a broker on which acme moved from partition 0 to 3, with stale
// records of it: one that its producer sent again, one that it did not, and one
// that came around it.
func quarantined(t *testing.T) (brokers string) {
	t.Helper()
	brokers = wrapped(t)
	moved := one[moveJSON](t, inTopic(brokers, "move", "start", "acme", "--to", "3", "--log-level", "error")...)
	client := connect(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	stamp := func(seq, epoch uint64) []kgo.RecordHeader {
		return []kgo.RecordHeader{{Key: routing.HeaderRoute, Value: routing.RouteHeader{Kind: routing.KindTenant, Epoch: epoch, Session: [16]byte{7}, Seq: seq}.Append(nil)}}
	}
	runArgs(t, "topic", "create", "--topic", "orders"+consumer.QuarantineSuffix, "--partitions", "8", "--brokers", brokers).wantDone(t)
	why := consumer.Staleness{Reason: consumer.StaleEpoch, Move: moved.Move, Fence: moved.Fence[0].Offset, Epoch: moved.Epoch}
	for _, headers := range [][]kgo.RecordHeader{stamp(5, 1), stamp(6, 1), nil} {
		r := &kgo.Record{Topic: "orders", Key: []byte("acme"), Value: []byte("late"), Headers: headers}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if headers == nil {
			why.Reason = consumer.StaleUnstamped
		}
		if err := client.ProduceSync(t.Context(), consumer.Quarantined(r, "orders"+consumer.QuarantineSuffix, "billing", why)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	again := &kgo.Record{Topic: "orders", Partition: 3, Key: []byte("acme"), Value: []byte("late"), Headers: stamp(5, 2)}
	if err := client.ProduceSync(t.Context(), again).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return brokers
}

func TestStaleRecordsAreListedAndReplayed(t *testing.T) {
	brokers := quarantined(t)
	list := rows[staleJSON](t, runArgs(t, inTopic(brokers, "stale", "list", "--topic", "orders", "--format", "json")...))
	if len(list) != 2 || list[0].Reason != "unstamped" || list[0].Session != "" || list[1].Count != 2 || list[1].FirstSeq != 5 || list[1].LastSeq != 6 || list[1].Tenant != "acme" {
		t.Fatalf("%+v", list)
	}
	if text := runArgs(t, inTopic(brokers, "stale", "list", "--topic", "orders")...); !strings.Contains(text.stdout, "5-6") || !strings.Contains(text.stderr, "3 records in quarantine") {
		t.Errorf("%s%s", text.stdout, text.stderr)
	}
	replay := inTopic(brokers, "stale", "replay", "--topic", "orders")
	want := staleReplayJSON{Topic: "orders.tl-quarantine", Records: 3, Replayed: 2, Present: 1, Tenants: 1, Scanned: 1, DryRun: true}
	if got := one[staleReplayJSON](t, append(replay, "--dry-run")...); got != want {
		t.Errorf("dry run: %+v, want %+v", got, want)
	}
	want.DryRun = false
	if got := one[staleReplayJSON](t, replay...); got != want {
		t.Errorf("replay: %+v, want %+v", got, want)
	}
	if got := one[staleReplayJSON](t, replay...); got.Before != 3 || got.Replayed != 0 {
		t.Errorf("replay again: %+v", got)
	}
	if left := rows[staleJSON](t, runArgs(t, inTopic(brokers, "stale", "list", "--topic", "orders", "--format", "json")...)); len(left) != 0 {
		t.Errorf("%+v", left)
	}
	if all := rows[staleJSON](t, runArgs(t, inTopic(brokers, "stale", "list", "--all", "--topic", "orders", "--format", "json")...)); len(all) != 2 || all[1].Done != 2 {
		t.Errorf("%+v", all)
	}
	reader := connect(t, brokers, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {3: kgo.NewOffset().AtStart()}}))
	seqs := map[uint64]int{}
	for n := 0; n < 3; {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for r := range fetches.RecordsAll() {
			n++
			for _, h := range r.Headers {
				if route, err := routing.ParseRouteHeader(h.Value); h.Key == routing.HeaderRoute && err == nil && route.Session == [16]byte{7} {
					seqs[route.Seq]++
				}
			}
		}
	}
	if seqs[5] != 1 || seqs[6] != 1 {
		t.Errorf("sequences in the new place: %v", seqs)
	}
}

func TestStaleRecordsAreDropped(t *testing.T) {
	brokers := quarantined(t)
	drop := inTopic(brokers, "stale", "drop", "acme", "--topic", "orders")
	if got := one[staleReplayJSON](t, append(drop, "--dry-run")...); got.Dropped != 3 {
		t.Errorf("%+v", got)
	}
	text := runArgs(t, drop...)
	text.wantDone(t)
	if !strings.Contains(text.stdout, "3 records of 1 tenants dropped") {
		t.Errorf("%s", text.stdout)
	}
	if got := one[staleReplayJSON](t, inTopic(brokers, "stale", "drop", "--all", "--topic", "orders")...); got.Dropped != 0 || got.Before != 3 {
		t.Errorf("%+v", got)
	}
}

func TestUsageOfStale(t *testing.T) {
	brokers := wrapped(t)
	for _, c := range []struct{ args, want string }{
		{"stale", "replay"},
		{"stale list", "--topic"},
		{"stale list --topic t", "--brokers"},
		{"stale list --topic t xyz --hex", "hexadecimal"},
		{"stale replay --topic t", "needs the table"},
		{"stale replay --topic t --limit -1", "--limit"},
		{"stale drop --topic t", "--all"},
		{"stale drop acme --all --topic t", "--all"},
	} {
		t.Run(c.args, func(t *testing.T) { runArgs(t, strings.Fields(c.args)...).wantError(t, exitUsage, c.want) })
	}
	runArgs(t, inTopic(brokers, "stale", "list", "--topic", "orders")...).wantDone(t) // workers make the quarantine topic when they need it
	runArgs(t, inTopic(brokers, "stale", "list", "--topic", "invoices")...).wantError(t, exitUsage, "invoices")
	runArgs(t, "stale", "list", "--topic", "nope", "--brokers", brokers).wantError(t, exitKafka, `topic "nope" does not exist`)
	runArgs(t, "stale", "list", "--topic", "orders", "--brokers", closedPort(t)).wantError(t, exitKafka, "connection refused")
}
