package lagwatch

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

//go:embed web
var webFiles embed.FS

// web is the read-only page: no script, no other host, everything from the
// last evaluation and the heat map.
type web struct {
	last      func() *Evaluation
	heat      *heatMap
	templates *template.Template
	style     []byte
}

// Rows per page; a page of any cluster stays small.
const (
	webPools      = 50
	webPartitions = 100
)

func newWeb(last func() *Evaluation, heat *heatMap) (*web, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"seconds": short,
		"clock":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"percent": func(x float64) string { return strconv.Itoa(int(100*x+0.5)) + " %" },
		"number":  groupDigits,
		"list":    partitionsText,
		"ratio":   func(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) },
	}).ParseFS(webFiles, "web/*.html")
	if err != nil {
		return nil, err
	}
	style, err := webFiles.ReadFile("web/style.css")
	if err != nil {
		return nil, err
	}
	return &web{last, heat, t, style}, nil
}

func (w *web) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", w.overview)
	mux.HandleFunc("GET /pool", w.pool)
	mux.HandleFunc("GET /style.css", func(rw http.ResponseWriter, _ *http.Request) {
		w.secure(rw, "text/css; charset=utf-8")
		_, _ = rw.Write(w.style) // a reader that went away
	})
}

// secure allows nothing but the page's own style.
func (*web) secure(rw http.ResponseWriter, contentType string) {
	h := rw.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// render writes a page whole or not at all.
func (w *web) render(rw http.ResponseWriter, name string, data any) {
	var page bytes.Buffer
	if err := w.templates.ExecuteTemplate(&page, name, data); err != nil {
		http.Error(rw, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.secure(rw, "text/html; charset=utf-8")
	_, _ = page.WriteTo(rw) // a reader that went away
}

// overviewPage is the data of the first page.
type overviewPage struct {
	Evaluation *Evaluation
	Query      string
	Firing     []firingRow
	Pools      []poolRow
	Total      int
	Pager      pager
}

type firingRow struct {
	Firing
	Group, Topic, Pool string
	Commands, Markers  []string
	Impact, Muted      string
	Runbook            string
	Link               string
}

type poolRow struct {
	*PoolEvaluation
	Unknown, Bad int
	WorstLag     int64
	WorstDelay   time.Duration
	Worst        string
	Link         string
}

func (w *web) overview(rw http.ResponseWriter, r *http.Request) {
	e := w.last()
	if e == nil {
		w.render(rw, "empty.html", nil)
		return
	}
	q := r.URL.Query().Get("q")
	page := overviewPage{Evaluation: e, Query: q, Firing: firingRows(e)}
	rows := poolRows(e, q)
	page.Total = len(rows)
	page.Pager = newPager(r.URL, len(rows), webPools)
	page.Pools = rows[page.Pager.from:page.Pager.to]
	w.render(rw, "overview.html", page)
}

// firingRows are the open alerts, loudest first, with what to do.
func firingRows(e *Evaluation) (out []firingRow) {
	for i := range e.alerts {
		a := &e.alerts[i]
		if a.Name == lag.AlertWatchdog {
			continue
		}
		row := firingRow{
			Firing: Firing{
				Alert: a.Name, Partitions: a.Partitions, Tenant: a.Tenant, Share: a.Share, Severity: a.Severity, Since: a.Since, Summary: a.Summary,
			},
			Group: a.Group, Topic: a.Topic, Pool: a.Pool, Commands: a.Commands, Runbook: a.Runbook,
			Markers: a.Markers, Impact: a.Impact, Muted: e.Muted[a.Key()],
		}
		if a.Topic != "" && a.Group != "" {
			row.Link = poolLink(a.Group, a.Topic, cmp.Or(a.Pool, lag.SharedPool))
		}
		out = append(out, row)
	}
	rank := map[string]int{"critical": 0, "page": 1, "ticket": 2}
	slices.SortStableFunc(out, func(a, b firingRow) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	return out
}

// poolRows are the pools whose names hold the query, worst first.
func poolRows(e *Evaluation, query string) (out []poolRow) {
	for i := range e.Groups {
		g := &e.Groups[i]
		if !strings.Contains(g.Group+" "+g.Topic+" "+g.Pool, query) {
			continue
		}
		row := poolRow{PoolEvaluation: g, Link: poolLink(g.Group, g.Topic, g.Pool)}
		worst := heatWell
		for j := range g.Partitions {
			p := &g.Partitions[j]
			h := heatOf(p)
			worst = max(worst, h)
			switch h {
			case heatUnknown:
				row.Unknown++
			case heatLate, heatBad:
				row.Bad++
			case heatNone, heatWell:
			}
			row.WorstLag, row.WorstDelay = max(row.WorstLag, p.Lag), max(row.WorstDelay, p.Delay)
		}
		if len(g.Partitions) == 0 && g.State == "" {
			worst = heatUnknown
		}
		row.Worst = worst.String()
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b poolRow) int {
		return cmp.Or(cmp.Compare(b.Bad, a.Bad), cmp.Compare(b.Unknown, a.Unknown), cmp.Compare(b.WorstLag, a.WorstLag))
	})
	return out
}

func poolLink(group, topic, pool string) string {
	return "/pool?" + url.Values{"group": {group}, "topic": {topic}, "pool": {pool}}.Encode()
}

// poolPage is the data of a pool's page.
type poolPage struct {
	Evaluation *Evaluation
	Pool       *PoolEvaluation
	Rows       []partitionRow
	Columns    int
	Since      time.Time
	Pager      pager
	Firing     []firingRow
}

type partitionRow struct {
	PartitionEvaluation
	Y     int
	Runs  []run
	Heat  string
	Label string
}

func (w *web) pool(rw http.ResponseWriter, r *http.Request) {
	e := w.last()
	v := r.URL.Query()
	id := poolID{v.Get("group"), v.Get("topic"), v.Get("pool")}
	g := poolNamed(e, id)
	if g == nil {
		w.secure(rw, "text/html; charset=utf-8")
		rw.WriteHeader(http.StatusNotFound)
		_ = w.templates.ExecuteTemplate(rw, "empty.html", "There is no such pool.") // a reader that went away
		return
	}
	sorted := g.worst(len(g.Partitions))
	page := poolPage{Evaluation: e, Pool: g, Pager: newPager(r.URL, len(sorted), webPartitions)}
	shown := sorted[page.Pager.from:page.Pager.to]
	partitions := make([]int32, len(shown))
	for i := range shown {
		partitions[i] = shown[i].Partition
	}
	rows, since := w.heat.rows(id, partitions)
	page.Since = since
	for i := range shown {
		h := heatOf(&shown[i])
		page.Columns = len(rows[i].Heats)
		page.Rows = append(page.Rows, partitionRow{
			PartitionEvaluation: shown[i], Y: i, Runs: rows[i].runs(), Heat: h.String(),
			Label: fmt.Sprintf("partition %d: worst of the last hour is %s", shown[i].Partition, rows[i].worstHeat()),
		})
	}
	for _, f := range firingRows(e) {
		if f.Group == id.group && f.Topic == id.topic && (f.Pool == id.pool || f.Pool == "") {
			page.Firing = append(page.Firing, f)
		}
	}
	w.render(rw, "pool.html", page)
}

func poolNamed(e *Evaluation, id poolID) *PoolEvaluation {
	if e == nil {
		return nil
	}
	for i := range e.Groups {
		if g := &e.Groups[i]; g.Group == id.group && g.Topic == id.topic && g.Pool == id.pool {
			return g
		}
	}
	return nil
}

// pager says which rows a page shows, and where the others are.
type pager struct {
	from, to       int
	First, Last    int // numbers of the rows shown, from 1
	Total          int
	Previous, Next string // links; empty at the ends
}

func newPager(u *url.URL, total, size int) pager {
	n, err := strconv.Atoi(u.Query().Get("page"))
	if err != nil || n < 1 {
		n = 1
	}
	n = min(n, max((total+size-1)/size, 1))
	p := pager{from: (n - 1) * size, Total: total}
	p.to = min(p.from+size, total)
	p.First, p.Last = min(p.from+1, total), p.to
	link := func(n int) string {
		v := u.Query()
		v.Set("page", strconv.Itoa(n))
		return u.Path + "?" + v.Encode()
	}
	if n > 1 {
		p.Previous = link(n - 1)
	}
	if p.to < total {
		p.Next = link(n + 1)
	}
	return p
}

// groupDigits writes a number with thin spaces between thousands.
func groupDigits(n int64) string {
	s := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && c != '-' && s[i-1] != '-' && (len(s)-i)%3 == 0 {
			b.WriteString("\u202f")
		}
		b.WriteRune(c)
	}
	return b.String()
}
