package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/internal/stale"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// TestVerifyLooksIntoTheQuarantine: a record that lies there need not be
// handled when the topic is read, and must not have been acknowledged.
func TestVerifyLooksIntoTheQuarantine(t *testing.T) {
	brokers := startBroker(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	quarantine := "orders" + consumer.QuarantineSuffix
	if _, err := kadm.NewClient(client).CreateTopics(t.Context(), 8, 1, nil, quarantine); err != nil {
		t.Fatal(err)
	}
	recorder := load.Recorder{Topic: "orders", Producer: "p"}
	for range 3 {
		r, _ := recorder.Record("acme", noon)
		r.Partition = 2
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if r.Offset == 1 {
			letter := consumer.Quarantined(r, quarantine, "g", consumer.Staleness{Reason: consumer.StaleEpoch, Move: "m", Epoch: 2})
			letter.Partition = 2
			mark := &kgo.Record{Topic: quarantine, Partition: 2, Headers: []kgo.RecordHeader{{Key: stale.HeaderDone, Value: []byte("0")}}}
			if err := client.ProduceSync(t.Context(), letter, mark).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	log := func(handled bool, offsets ...int64) string {
		var lines []byte
		for _, offset := range offsets {
			h := check.Handling{ID: check.ID{Producer: "p", Tenant: "acme"}, Seq: uint64(offset) + 1, Partition: 2, Offset: offset, Attempt: 1}
			if handled {
				lines = check.AppendHandled(lines, &h, noon)
			} else {
				lines = check.AppendProduced(lines, &h, noon)
			}
		}
		return tempFile(t, "log", string(lines))
	}
	verify := func(args ...string) (check.Report, result) {
		r := runArgs(t, append([]string{"verify", "--topic", "orders", "--brokers", brokers, "--format", "json"}, args...)...)
		var report check.Report
		if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		return report, r
	}
	others := log(true, 0, 2)
	if report, r := verify("--log", others); r.code != exitDone || report.Produced != 2 || report.Quarantined != 1 || strings.Contains(r.stderr, "left out") {
		t.Errorf("by the topic: %+v", r)
	}
	if report, r := verify("--log", others, "--produced", log(false, 0, 2)); r.code != exitDone || report.Quarantined != 1 {
		t.Errorf("not acknowledged: %+v", r)
	}
	report, r := verify("--log", log(true, 0, 1, 2), "--produced", log(false, 0, 1, 2))
	if r.code != exitNo || report.QuarantinedAcknowledged != 1 || !strings.Contains(r.stderr, "1 acknowledged and set aside in quarantine") {
		t.Errorf("acknowledged: %+v", r)
	}
}
