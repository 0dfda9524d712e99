package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker acknowledges records at once, but for those that fail.
type broker struct {
	records []*kgo.Record
	fail    func(n int) error
	flush   error
}

func (b *broker) Produce(_ context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	b.records = append(b.records, r)
	r.Partition, r.Offset = 3, int64(len(b.records))
	var err error
	if b.fail != nil {
		err = b.fail(len(b.records))
	}
	promise(r, err)
}

func (b *broker) Flush(context.Context) error { return b.flush }

func tableOf(t testing.TB, yaml string) store.Source {
	t.Helper()
	table, err := routing.Parse("table.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return store.Fixed(table)
}

func mixOf(t testing.TB, count int64) *Mix {
	t.Helper()
	m, err := NewMix(NewPopulation([]routing.Volume{{Tenant: "a", Volume: 3}, {Tenant: "b", Volume: 1}}), count, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAcknowledgedRecordsAreLoggedAndGapless(t *testing.T) {
	var log bytes.Buffer
	acks := NewAckLog(&log)
	b := &broker{}
	g := Generator{Producer: b, Recorder: &Recorder{Topic: "orders", Producer: "p", Size: 200}, Acknowledged: acks.Acknowledged}
	result, err := g.Run(t.Context(), mixOf(t, 1000))
	if err != nil || result.Produced != 1000 || result.Errors != 0 || result.PerSecond() <= 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	if err := acks.Flush(); err != nil {
		t.Fatal(err)
	}
	c := check.New()
	if err := check.FeedProduced(c, check.NewReader("log", &log)); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.records {
		v, err := Decode(r.Value)
		if err != nil || v.Tenant != string(r.Key) || len(r.Value) != 200 || r.Topic != "orders" {
			t.Fatalf("%s: %v", r.Value, err)
		}
		c.Handled(check.Handling{Process: "w", ID: v.ID, Seq: v.Seq, Offset: r.Offset, Attempt: 1})
	}
	if report := c.Report(); !report.OK() || report.Produced != 1000 || report.Handled != 1000 || report.Tenants != 2 {
		t.Errorf("%+v", report)
	}
}

func TestRateIsKeptOverTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Generator{Producer: &broker{}, Recorder: &Recorder{Topic: "orders", Producer: "p"}, Rate: 500}
		begun := time.Now()
		if _, err := g.Run(t.Context(), mixOf(t, 1001)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("1001 records at 500/s took %s, want 2s", took)
		}
	})
}

func TestCancelStopsARunThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		g := Generator{Producer: &broker{}, Recorder: &Recorder{Topic: "orders", Producer: "p"}, Rate: 1}
		result, err := g.Run(ctx, mixOf(t, 1000))
		if !errors.Is(err, context.DeadlineExceeded) || result.Produced != 4 {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

func TestFailuresAreCountedAndEndARun(t *testing.T) {
	bad := errors.New("no leader")
	b := &broker{fail: func(n int) error {
		if n%2 == 0 {
			return bad
		}
		return nil
	}}
	g := Generator{Producer: b, Recorder: &Recorder{Topic: "orders", Producer: "p"}}
	result, err := g.Run(t.Context(), mixOf(t, 100))
	if err != nil || result.Produced != 50 || result.Errors != 50 || !errors.Is(result.First, bad) {
		t.Errorf("%+v, %v", result, err)
	}
	g = Generator{Producer: b, Recorder: &Recorder{Topic: "orders", Producer: "p"}}
	result, err = g.Run(t.Context(), mixOf(t, 100_000))
	if !errors.Is(err, bad) || result.Errors != DefaultMaxErrors {
		t.Errorf("%+v, %v", result, err)
	}
	g = Generator{Producer: b, Recorder: &Recorder{Topic: "orders", Producer: "p"}, MaxErrors: -1}
	result, err = g.Run(t.Context(), mixOf(t, 1000))
	if err != nil || result.Errors != 500 {
		t.Errorf("no end: %+v, %v", result, err)
	}
}

func TestALogThatCannotBeWrittenEndsARun(t *testing.T) {
	full := errors.New("disk full")
	g := Generator{
		Producer: &broker{}, Recorder: &Recorder{Topic: "orders", Producer: "p"},
		Acknowledged: func(check.Handling, time.Time) error { return full },
	}
	if _, err := g.Run(t.Context(), mixOf(t, 1000)); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	g = Generator{Producer: &broker{flush: full}, Recorder: &Recorder{Topic: "orders", Producer: "p"}}
	if _, err := g.Run(t.Context(), mixOf(t, 10)); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}

func TestRecordsCarryTheTenantWhereTheTableSays(t *testing.T) {
	for _, rule := range []string{"key", "header:who", `"prefix:|"`} {
		src := tableOf(t, "version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, tenant_of: "+rule+"}\n")
		topic, _ := src.Table().Topic("orders")
		r := &Recorder{Topic: "orders", Producer: "p", Table: src}
		for seq := range uint64(40) {
			record, h := r.Record("acme", noon)
			tenant, ok := partitioner.TenantOf(topic.TenantRule(), record)
			if !ok || string(tenant) != "acme" || h.Seq != seq+1 || h.Unordered {
				t.Fatalf("%s: tenant %q, %+v", rule, tenant, h)
			}
		}
	}
}

func TestSpreadTenantsAreNumberedByWhatKeepsOrder(t *testing.T) {
	src := tableOf(t, `
version: 1
revision: 1
topics:
  orders:
    partitions: 8
    tenant_of: header:who
    placements:
      keyed: {partitions: [1, 2], spread: key}
      loose: {partitions: [3, 4], spread: random}
`)
	r := &Recorder{Topic: "orders", Producer: "p", Table: src}
	next := map[string]uint64{}
	for range 100 {
		record, h := r.Record("keyed", noon)
		next[string(record.Key)]++
		if want := "p/" + string(record.Key); h.Producer != want || h.Seq != next[string(record.Key)] || h.Unordered {
			t.Fatalf("key %s: %+v", record.Key, h)
		}
		if _, h := r.Record("loose", noon); !h.Unordered || h.Producer != "p" {
			t.Fatalf("%+v", h)
		}
	}
	if len(next) != keysPerTenant {
		t.Errorf("%d keys", len(next))
	}
}

func TestTenantsThatCannotBeReadBackAreRefused(t *testing.T) {
	src := tableOf(t, "version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, tenant_of: \"prefix:/\"}\n")
	r := &Recorder{Topic: "orders", Producer: "p", Table: src}
	p := NewPopulation([]routing.Volume{{Tenant: "@babel/core", Volume: 1}})
	if err := r.CheckTenants(p); err == nil || !strings.Contains(err.Error(), "@babel/core") {
		t.Errorf("error %v", err)
	}
	r.Topic = "other"
	if err := r.CheckTenants(p); err != nil {
		t.Errorf("error %v", err)
	}
}

func ExampleGenerator() {
	tenants := NewPopulation([]routing.Volume{{Tenant: "acme", Volume: 3}, {Tenant: "globex", Volume: 1}})
	mix, err := NewMix(tenants, 100, []Burst{{Tenant: "acme", Count: 50}}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	g := Generator{
		Producer: &broker{}, // a *partitioner.Producer
		Recorder: &Recorder{Topic: "orders", Producer: "nightly-1", Size: 200},
	}
	result, err := g.Run(context.Background(), mix)
	fmt.Println(result.Produced, result.Errors, err)
	// Output: 150 0 <nil>
}
