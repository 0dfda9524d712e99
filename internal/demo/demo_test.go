package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func population(t testing.TB) load.Population {
	t.Helper()
	p, err := load.DefaultPopulation()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// small is a demo that is over in a few seconds.
func small(told func(Line)) Config {
	return Config{Duration: 6 * time.Second, Partitions: 12, Rate: 400, Import: 20_000, Tell: told, shortest: time.Second}
}

func TestTheWholeStory(t *testing.T) {
	var mu sync.Mutex
	var told []string
	report, err := Run(t.Context(), small(func(l Line) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, l.Text)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if report.Problem != "" || report.Lost != 0 || report.OrderViolations != 0 || report.Handled != report.Produced || report.Produced != 22_400 {
		t.Errorf("%+v", report)
	}
	if len(report.Moves) != 1 || report.Moves[0].Mode != "strict" || report.Moves[0].To[0] != 11 {
		t.Errorf("moves %+v", report.Moves)
	}
	if len(report.Alerts) == 0 || report.Alerts[0].Alert != "partition_hot" || report.Alerts[0].Tenant != report.Import.Tenant ||
		report.Alerts[0].Partitions[0] != report.Import.Partition {
		t.Errorf("alerts %+v", report.Alerts)
	}
	if lag := float64(report.Import.DrainS); lag < 5 {
		t.Errorf("the import lagged for %.1f s, want at least 5", lag)
	}
	all := strings.Join(told, "\n")
	for _, part := range []string{"embedded", "one more worker joins", "imports 20,000 records", "PAGE", "moves to partition 11", "sped up"} {
		if !strings.Contains(all, part) {
			t.Errorf("nobody told %q:\n%s", part, all)
		}
	}
}

func TestCancelEndsTheStory(t *testing.T) {
	for _, moment := range []string{"records/s of the population", "one more worker joins", "the import is produced"} {
		t.Run(moment, func(t *testing.T) {
			running := goleak.IgnoreCurrent()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			report, err := Run(ctx, small(func(l Line) {
				if strings.Contains(l.Text, moment) {
					cancel()
				}
			}))
			if report != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("report %v, error %v", report, err)
			}
			goleak.VerifyNone(t, running)
		})
	}
}

func TestConfigNamesTheFlagThatIsWrong(t *testing.T) {
	few := load.NewPopulation([]routing.Volume{{Tenant: "a", Volume: 1}})
	for want, cfg := range map[string]Config{
		"--duration":   {Duration: time.Second},
		"--partitions": {Partitions: 7},
		"--workers":    {Workers: -1},
		"--tenants":    {Tenants: few},
		"rate":         {Rate: -1},
	} {
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestScheduleLetsTheImportLagAndDrain(t *testing.T) {
	for _, d := range []time.Duration{minDuration, 20 * time.Second, time.Minute, 10 * time.Minute} {
		cfg, err := Config{Duration: d}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		s := cfg.schedule()
		lag := s.cost * time.Duration(cfg.Import)
		if lag < 5*time.Second || s.imports+lag > s.end*9/10 {
			t.Errorf("%s: the import lags %s from %s on", d, lag, s.imports)
		}
		if !(s.join < s.quiet && s.quiet < s.imports && s.imports < s.move && s.move < s.end) {
			t.Errorf("%s: %+v", d, s)
		}
	}
}

func TestCostIsExactOnAverage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCost(40 * time.Microsecond)
		begun := time.Now()
		for range 100_000 {
			if err := c.pay(t.Context(), "import"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took < 3880*time.Millisecond || took > 4*time.Second {
			t.Errorf("100,000 records of 40 µs took %s, want 4 s less the credit", took)
		}
		c.atLeast(time.Nanosecond) // is less than it costs already
		before := time.Now()
		if err := c.pay(t.Context(), "quiet"); err != nil || time.Since(before) != 0 {
			t.Errorf("a quiet tenant waited %s, %v", time.Since(before), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 5000 {
			if err := c.pay(ctx, "import"); err == nil {
				t.Fatal("paid although the context has ended")
			}
		}
	})
}

func TestQuantilesAreOfTheirWindow(t *testing.T) {
	var l latencies
	at := time.Unix(1000, 0)
	for i := range 100 {
		l.add(at.Add(time.Duration(i)*time.Second), time.Duration(i+1)*time.Millisecond)
	}
	if got := l.quantile(0.99, at, at.Add(time.Hour)); got != 99 {
		t.Errorf("p99 of 1…100 ms is %v", got)
	}
	if got := l.quantile(0.5, at, at.Add(10*time.Second)); got != 5 {
		t.Errorf("p50 of 1…10 ms is %v", got)
	}
	if got := l.quantile(0.5, at.Add(time.Hour), at.Add(2*time.Hour)); !math.IsNaN(float64(got)) {
		t.Errorf("p50 of nothing is %v", got)
	}
}

func TestTheImporterIsOrdinaryAndHasCompany(t *testing.T) {
	c, err := newCast("demo", population(t), 32)
	if err != nil {
		t.Fatal(err)
	}
	topic, _ := c.table.Topic("demo")
	route := topic.Lookup([]byte(c.importer), nil)
	if c.isWhale(c.importer) || route.Partition != c.partition || c.neighbors < 1 {
		t.Errorf("%q in partition %d with %d neighbors", c.importer, route.Partition, c.neighbors)
	}
	if !c.isWhale("lru-cache") || !c.isWhale(c.moving) || c.spare != 31 {
		t.Errorf("whales %v, %q moves to %d", c.whales, c.moving, c.spare)
	}
	for _, v := range population(t).Tenants {
		if p := topic.Partition([]byte(v.Tenant), nil); p == c.spare {
			t.Fatalf("%q is in the spare partition", v.Tenant)
		}
	}
}

func TestPopulationsWithoutAStoryAreRefused(t *testing.T) {
	equal := population(t).Uniform()
	if _, err := newCast("demo", equal, 32); err == nil || !strings.Contains(err.Error(), "--tenants") {
		t.Errorf("error %v", err)
	}
}

func TestThePagerKeepsEachPageOnce(t *testing.T) {
	var told atomic.Int32
	p, err := newPager(func(notify.WebhookAlert) { told.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	post := func(body string) int {
		response, err := http.Post(p.url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		return response.StatusCode
	}
	for _, status := range []string{"firing", "firing", "resolved"} {
		if code := post(`{"version":1,"alerts":[{"dedup_key":"k","status":"` + status + `","alert":"partition_hot"}]}`); code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
	if code := post("no JSON"); code != http.StatusBadRequest {
		t.Errorf("status %d", code)
	}
	if n := told.Load(); n != 2 {
		t.Errorf("told %d times, want once for the begin and once for the end", n)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := p.close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLinesForPeopleAreBrokenBelowTheirText(t *testing.T) {
	line := Line{8500 * time.Millisecond, strings.Repeat("a partition is behind ", 20) + strings.Repeat("x", 120)}
	lines := strings.Split(line.String(), "\n")
	if len(lines) < 6 || !strings.HasPrefix(lines[0], "  8.5s  a partition") || !strings.HasPrefix(lines[1], "        ") {
		t.Errorf("%q", lines)
	}
	for i, l := range lines {
		if len(l) > width && strings.Contains(strings.TrimSpace(l), " ") || i > 0 && strings.TrimSpace(l) == "" {
			t.Errorf("line %d has %d characters: %q", i, len(l), l)
		}
	}
	if got, want := strings.Join(strings.Fields(line.String())[1:], " "), line.Text; got != want {
		t.Errorf("%q, want the words of %q", got, want)
	}
}

func TestReportInWordsAndJSON(t *testing.T) {
	r := &Report{Broker: "embedded", Population: 4033, RecordsPerS: 1234.567, QuietP99: Before{3.14159, Figure(math.NaN())}, SkewMaxMedian: Figure(math.Inf(1)), Moves: []Move{}, Alerts: []Alert{}}
	r.take(check.Report{Tenants: 1200, Produced: 240_000, Handled: 239_999, Lost: 1})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"broker":"embedded"`, `"population":4033,"tenants":1200`, `"records_per_s":1234.57`, `"quiet_p99_ms":{"before":3.14,"during":null}`, `"skew_max_median":null`, `"moves":[]`, `"alerts":[]`, `"lost":1`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s does not hold %s", text, part)
		}
	}
	words := r.String()
	for _, part := range []string{"BROKEN: 1 lost", "239,999 records of 1,200 tenants", "other 2,833 of the population's 4,033", "3.1 ms before", "? ms during", "none was sent"} {
		if !strings.Contains(words, part) {
			t.Errorf("%s\ndoes not hold %q", words, part)
		}
	}
}
