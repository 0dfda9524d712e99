package lagwatch

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/mute"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// page serves an evaluation's pages.
func page(t *testing.T, evaluations ...*Evaluation) func(path string) (int, string, http.Header) {
	t.Helper()
	heat := newHeatMap()
	var last *Evaluation
	for _, e := range evaluations {
		heat.add(e, heatColumn)
		last = e
	}
	w, err := newWeb(func() *Evaluation { return last }, heat)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	w.register(mux)
	return func(path string) (int, string, http.Header) {
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		return rec.Code, rec.Body.String(), rec.Header()
	}
}

// crowd is an evaluation of many groups, with a bit of everything.
func crowd(at time.Time, groups, partitions int) *Evaluation {
	e := &Evaluation{At: at, Cluster: "prod", Unknown: 3, Blind: true, Errors: []string{"listing offsets: <refused>"}}
	for g := range groups {
		pool := PoolEvaluation{Group: fmt.Sprintf("group-with-a-rather-long-name-%02d", g), Topic: "orders", Pool: lag.SharedPool, State: "Stable", Members: 4}
		for p := range partitions {
			v := PartitionEvaluation{Partition: int32(p), Known: true, Committed: true, Lag: int64(p), Class: lag.OK}
			switch p % 97 {
			case 3:
				v = PartitionEvaluation{Partition: int32(p), Class: lag.Unknown}
			case 5:
				v.Class, v.Firing, v.Lag, v.Delay, v.DelayBound = lag.Hot, true, 1_234_567, 90*time.Second, true
			case 7:
				v.Class, v.Hold = lag.Recovering, lag.HoldDraining
			}
			pool.Partitions = append(pool.Partitions, v)
		}
		e.Groups = append(e.Groups, pool)
	}
	e.alerts = []notify.Alert{
		{Name: lag.AlertWatchdog},
		{
			Name: lag.AlertHot, Group: e.Groups[0].Group, Topic: "orders", Pool: lag.SharedPool, Severity: "page", Since: at,
			Tenant: `<script>alert("x")</script>`, Share: 0.91, Summary: `Tenant <img src=x> is 91 %`, Runbook: "https://example.com/hot.md",
			Commands: []string{"tenantlane lagwatch explain a b 5"}, Impact: "Tenants wait.", Markers: []string{"2026-01-01 10:00 UTC deploy of a thing with a rather long name (ci)"},
		},
		{Name: lag.AlertStaleRecords, Topic: "orders", Severity: "ticket", Since: at, Summary: "7 stale records."},
	}
	e.Muted = map[string]string{e.alerts[1].Key(): "silence 5f0c11aa of ops: import"}
	e.Silences = []mute.Silence{{ID: "5f0c11aa", Match: mute.Match{Group: "group-*"}, Until: at.Add(time.Hour), By: "ops", Reason: "import"}}
	e.Topics = []TopicEvaluation{{
		Topic: "orders",
		Top:   []TenantShare{{Tenant: `<b>bold</b>`, Share: 0.6, PerSecond: 812.5}, {Tenant: strings.Repeat("long-", 40), Share: 0.1, PerSecond: 3}},
		Moves: []MoveEvaluation{
			{Move: "5a5a", State: "prepare", Tenant: "acme", From: []int32{3}, To: []int32{5, 6}, Since: at},
			{Move: "6b6b", State: "switched", Slots: 128, From: []int32{0, 1}, To: []int32{7}, Since: at, WaitingFor: []string{"billing", e.Groups[0].Group}},
		},
	}}
	return e
}

func TestPageStaysSmallAndEscapesTenants(t *testing.T) {
	t.Parallel()
	e := crowd(time.Now(), 50, 1000)
	get := page(t, e)
	code, body, header := get("/")
	if code != http.StatusOK || len(body) > 200<<10 {
		t.Fatalf("status %d, %d bytes", code, len(body))
	}
	if strings.Contains(body, "<script") || strings.Contains(body, "<img") || strings.Contains(body, "watchdog") {
		t.Fatal("a tenant's name is markup, or the watchdog is shown")
	}
	for _, want := range []string{"group <b>billing</b>", "tenant <b>acme</b>", "&lt;b&gt;bold", "812.5", "silence 5f0c11aa of ops", "deploy of a thing", "1 silences", "Blind: 3 partitions", "91 %", "&lt;script&gt;", "explain a b 5", "1\u202f234\u202f567", "listing offsets: &lt;refused&gt;"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("policy %q", csp)
	}
	code, body, _ = get(poolLink(e.Groups[0].Group, "orders", lag.SharedPool))
	if code != http.StatusOK || len(body) > 200<<10 || strings.Count(body, "<svg") != webPartitions {
		t.Fatalf("status %d, %d bytes, %d rows", code, len(body), strings.Count(body, "<svg"))
	}
	for _, want := range []string{`class="mark unknown">UNKNOWN`, "≥ 1m30s", "RECOVERING: draining", `rel="next"`, "1–100 of 1000"} {
		if !strings.Contains(body, want) {
			t.Errorf("the pool's page lacks %q", want)
		}
	}
	if _, body, _ = get("/?q=name-07"); strings.Count(body, "<tr>\n<th scope=\"row\"><a") != 1 {
		t.Errorf("the filter leaves %d rows", strings.Count(body, "<tr>\n<th scope=\"row\"><a"))
	}
	if _, body, _ = get("/?page=99999999"); !strings.Contains(body, "1–50 of 50") {
		t.Error("a page beyond the end")
	}
	if code, _, _ = get("/pool?group=absent"); code != http.StatusNotFound {
		t.Errorf("status %d for a pool that does not exist", code)
	}
}

func TestPageWithoutAnEvaluationIsNotHealth(t *testing.T) {
	t.Parallel()
	_, body, _ := page(t)("/")
	if !strings.Contains(body, "nothing is known") || strings.Contains(body, "Everything was seen") {
		t.Fatal(body)
	}
}

// Nothing is loaded from elsewhere, and every control has a name.
func TestPageIsSelfContainedAndLabelled(t *testing.T) {
	t.Parallel()
	e := crowd(time.Now(), 2, 120)
	get := page(t, e)
	loads := regexp.MustCompile(`(?:src|<link[^>]*href)="([^"]*)"`)
	for _, path := range []string{"/", poolLink(e.Groups[0].Group, "orders", lag.SharedPool)} {
		_, body, _ := get(path)
		for _, m := range loads.FindAllStringSubmatch(body, -1) {
			if m[1] != "/style.css" {
				t.Errorf("%s loads %s", path, m[1])
			}
		}
		for _, input := range regexp.MustCompile(`<input id="(\w+)"`).FindAllStringSubmatch(body, -1) {
			if !strings.Contains(body, `<label for="`+input[1]+`">`) {
				t.Errorf("%s: input %s has no label", path, input[1])
			}
		}
		for _, region := range regexp.MustCompile(`<[^>]*tabindex="0"[^>]*>`).FindAllString(body, -1) {
			if !strings.Contains(region, "aria-label=") {
				t.Errorf("%s: %s has no name", path, region)
			}
		}
		for _, tag := range []string{"main", "table", "section", "article", "ul", "form", "svg", "details"} {
			if open, closed := strings.Count(body, "<"+tag), strings.Count(body, "</"+tag+">"); open != closed {
				t.Errorf("%s: %d <%s>, %d closed", path, open, tag, closed)
			}
		}
	}
}

// WCAG 2 contrast of every pair of text and background in the style sheet, in
// both color schemes.
func TestTextHasContrast(t *testing.T) {
	t.Parallel()
	_, css, _ := page(t)("/style.css")
	light, dark, _ := strings.Cut(css, "@media (prefers-color-scheme: dark)")
	pairs := [][2]string{
		{"ink", "paper"},
		{"quiet", "paper"},
		{"link", "paper"},
		{"well-ink", "well"},
		{"late-ink", "late"},
		{"bad-ink", "bad"},
		{"unknown-ink", "unknown"},
	}
	for name, scheme := range map[string]string{"light": light, "dark": dark} {
		for _, p := range pairs {
			if c := contrast(color(t, scheme, p[0]), color(t, scheme, p[1])); c < 4.5 {
				t.Errorf("%s: %s on %s has contrast %.2f", name, p[0], p[1], c)
			}
		}
	}
}

func color(t *testing.T, css, name string) [3]float64 {
	t.Helper()
	m := regexp.MustCompile(`--` + name + `: #([0-9a-f]{6})`).FindStringSubmatch(css)
	if m == nil {
		t.Fatalf("no color %s", name)
	}
	var rgb [3]float64
	for i := range rgb {
		v, err := strconv.ParseUint(m[1][2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		rgb[i] = float64(v) / 255
	}
	return rgb
}

// contrast is WCAG 2's ratio of relative luminances.
func contrast(a, b [3]float64) float64 {
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(rgb [3]float64) float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := rgb[i]
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestHeatMapKeepsTheWorstOfEachMinuteForAnHour(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	m := newHeatMap()
	bad := crowd(at, 1, 8)
	well := crowd(at, 1, 8)
	for i := range well.Groups[0].Partitions {
		well.Groups[0].Partitions[i] = PartitionEvaluation{Partition: int32(i), Known: true, Committed: true}
	}
	for i := range 70 * 6 {
		e := *well
		if i == 61 { // for one round, in minute 10
			e = *bad
		}
		e.At = at.Add(time.Duration(i) * 10 * time.Second)
		m.add(&e, heatColumn)
	}
	rows, since := m.rows(poolID{well.Groups[0].Group, "orders", lag.SharedPool}, []int32{3, 5, 0, 99})
	if got := len(rows[0].Heats); got != heatColumns || !since.Equal(at.Add(10*time.Minute)) {
		t.Fatalf("%d columns since %v", got, since)
	}
	if rows[0].Heats[0] != heatUnknown || rows[1].Heats[0] != heatBad || rows[2].worstHeat() != heatWell || rows[3].worstHeat() != heatNone {
		t.Fatalf("%v", rows)
	}
	if runs := rows[1].runs(); len(runs) != 1 || runs[0] != (run{0, 1, heatBad}) {
		t.Fatalf("%v", runs)
	}
}
