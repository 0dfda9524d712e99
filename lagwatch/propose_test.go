package lagwatch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// A page about a tenant that is more than a partition's share proposes what a
// plan by the arrivals would do, with its numbers.
func TestPageProposesAPlanWithItsNumbers(t *testing.T) {
	t.Parallel()
	y := newYard(t, func(cfg *Config) { cfg.CommandFlags = []string{"--table-topic", "tenantlane.routing"} })
	y.evaluate(y.snapshot())
	in := newInflow(y.at)
	y.engine.inflow["orders"] = in
	in.this.Add([]byte("importer"), 60_000)
	for i := range 200 {
		in.this.Add(fmt.Appendf(nil, "tenant-%d", i), 200)
	}
	p, ok := y.engine.propose("orders", "importer")
	if !ok || len(p.to) == 0 || p.after >= p.before {
		t.Fatalf("%+v, %v", p, ok)
	}
	got := y.engine.commands(pairKey{"billing", "orders"}, &lag.Evidence{Partition: 1}, attribution{tenant: "importer", proposal: &p})
	_, about := p.words("orders", "importer")
	if len(got) != 2 || !strings.HasPrefix(got[1], "tenantlane move start importer --topic orders --to ") ||
		!strings.HasSuffix(got[1], "--table-topic tenantlane.routing") || strings.Contains(got[1], "--spread key") != (len(p.to) > 1) {
		t.Fatalf("%s", strings.Join(got, "\n"))
	}
	if want := fmt.Sprintf("from %.1f to %.1f times the mean", p.before, p.after); !strings.Contains(about, want) {
		t.Fatalf("%q lacks %q", about, want)
	}
	if _, ok := y.engine.propose("orders", "tenant-7"); ok {
		t.Error("an ordinary tenant is to be moved")
	}
	if _, ok := y.engine.propose("mails", "importer"); ok {
		t.Error("a topic of which nothing is known has a plan")
	}
}

// Windows turn: what arrived long ago no longer counts.
func TestInflowForgets(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	in := newInflow(y.at)
	in.this.Add([]byte("old"), 10*weightScale)
	for range 2 {
		y.at = y.at.Add(inflowWindow)
		in.turn(y.at)
	}
	in.this.Add([]byte("new"), 30*weightScale)
	y.at = y.at.Add(time.Minute)
	top := in.top(y.engine, y.at)
	if len(top) != 1 || top[0].Tenant != "new" || top[0].Share != 1 || top[0].PerSecond != rounded(30/(6*time.Minute).Seconds()) {
		t.Fatalf("%+v", top)
	}
}

// Looks fall where records arrive, in proportion, and stand for all of them.
func TestArrivalsAreLookedAtInProportion(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	logs := &topicLogs{logs: make([]lag.Log, 3)}
	y.engine.logs["orders"] = logs
	observe := func(ends ...int64) {
		y.at = y.at.Add(time.Minute)
		for p, end := range ends {
			logs.logs[p].Observe(y.at, 0, end, end)
		}
	}
	observe(100, 100, 100)
	if looks := y.engine.arrivals(y.at); len(looks) != 0 {
		t.Fatalf("what was there before is looked at: %+v", looks)
	}
	observe(100, 200, 1000)
	looks := y.engine.arrivals(y.at)
	sum, quiet := 0.0, 0
	for _, a := range looks {
		sum += a.weight
		if a.partition == 0 {
			t.Fatal("looks where nothing arrived")
		}
		if a.partition == 1 {
			quiet++
		}
	}
	if len(looks) != 32 || sum < 999 || sum > 1001 || quiet > 16 {
		t.Fatalf("%d looks that stand for %.0f records, %d of them at a tenth of the arrivals", len(looks), sum, quiet)
	}
	if looks := y.engine.arrivals(y.at); len(looks) != 0 {
		t.Fatalf("looked at twice: %+v", looks)
	}
}
