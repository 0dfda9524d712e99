package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// Order is how a pool's partitions are sorted.
type Order uint8

// The orders.
const (
	// ByTrouble puts what fires first, then the largest lags.
	ByTrouble Order = iota
	// ByNumber goes by the partition's number.
	ByNumber
)

// View is how a snapshot is looked at.
type View struct {
	// Width and Height of the screen, in cells and lines. Height 0 means as
	// many lines as there are.
	Width, Height int
	// Pool is which pool's partitions are listed, counted around.
	Pool  int
	Order Order
	// Plain leaves colors out.
	Plain bool
	// Keys are named in the last line when there is somebody to press them.
	Keys bool
}

// Heights of the parts of a screen that do not share what is left.
const (
	mostAlerts = 5
	mostNotes  = 8
	barWidth   = 24
)

// Render draws a snapshot: what comes first and last in full, and between them
// a pool and the tenants, which share the lines that are left.
func Render(s *Snapshot, v View) string {
	p := painter{view: v}
	p.header(s)
	p.alerts(s)
	left := math.MaxInt32
	if v.Height > 0 {
		left = v.Height - len(p.lines) - notesHeight(s) - footerHeight(v)
	}
	above := len(p.lines)
	p.pool(s, left-min(tenantsHeight(s), left/2))
	p.tenants(s, left-(len(p.lines)-above))
	p.notes(s)
	p.footer()
	return p.text()
}

// painter gathers lines, each cut to the width.
type painter struct {
	view  View
	lines []string
}

type tone uint8

const (
	plain tone = iota
	loud       // fires
	doubt      // not known
	dim
	title
)

func (p *painter) line(t tone, text string) {
	text = ansi.Truncate(text, max(p.view.Width, 1), "…")
	if p.view.Plain || t == plain {
		p.lines = append(p.lines, text)
		return
	}
	p.lines = append(p.lines, t.style().Styled(text))
}

func (t tone) style() ansi.Style {
	switch t {
	case loud:
		return ansi.NewStyle().Bold().ForegroundColor(ansi.Red)
	case doubt:
		return ansi.NewStyle().ForegroundColor(ansi.Yellow)
	case dim:
		return ansi.NewStyle().Faint()
	case title:
		return ansi.NewStyle().Bold()
	case plain:
	}
	return ansi.NewStyle()
}

// text is all lines that fit.
func (p *painter) text() string {
	if p.view.Height > 0 && len(p.lines) > p.view.Height {
		p.lines = p.lines[:p.view.Height]
	}
	return strings.Join(p.lines, "\n")
}

func (p *painter) header(s *Snapshot) {
	if s.Seen == nil {
		p.line(title, "tenantlane  the first look is under way")
		p.problems(s.Problems)
		return
	}
	groups := map[string]bool{}
	partitions, firing := 0, len(s.Seen.Watcher)
	for i := range s.Seen.Groups {
		g := &s.Seen.Groups[i]
		groups[g.Group] = true
		partitions += len(g.Partitions)
		firing += len(g.Firing)
	}
	p.line(title, fmt.Sprintf("tenantlane  %s  cluster %s  groups %d  partitions %d  unknown %d  alerts %d",
		s.At.Format(time.TimeOnly), clean(s.Seen.Cluster), len(groups), partitions, s.Seen.Unknown, firing))
	if s.Seen.Blind {
		p.line(doubt, "not everything could be seen: what is missing here may be worse than what is shown")
	}
	p.problems(s.Seen.Errors)
	p.problems(s.Problems)
}

// problems names the first few.
func (p *painter) problems(all []string) {
	const most = 2
	for _, problem := range all[:min(len(all), most)] {
		p.line(doubt, clean(problem))
	}
	if more := len(all) - most; more > 0 {
		p.line(doubt, fmt.Sprintf("and %d more", more))
	}
}

func (p *painter) alerts(s *Snapshot) {
	if s.Seen == nil {
		return
	}
	rows := [][]string{}
	for _, f := range s.Seen.Watcher {
		rows = append(rows, alertRow(s.At, "lagwatch", &f))
	}
	for i := range s.Seen.Groups {
		g := &s.Seen.Groups[i]
		for k := range g.Firing {
			rows = append(rows, alertRow(s.At, g.Group+"/"+g.Topic, &g.Firing[k]))
		}
	}
	if len(rows) == 0 {
		return
	}
	p.line(plain, "")
	for _, row := range columns(rows[:min(len(rows), mostAlerts)], nil) {
		p.line(loud, row)
	}
	if more := len(rows) - mostAlerts; more > 0 {
		p.line(loud, fmt.Sprintf("and %d more alerts", more))
	}
}

func alertRow(now time.Time, where string, f *lagwatch.Firing) []string {
	whose := ""
	if f.Tenant != "" {
		whose = fmt.Sprintf("%s %.0f %%", printable(f.Tenant), 100*f.Share)
	}
	return []string{strings.ToUpper(f.Severity), f.Alert, clean(where), fmt.Sprint(f.Partitions), whose, "for " + short(now.Sub(f.Since))}
}

// pool lists the partitions of one pool in at most height lines.
func (p *painter) pool(s *Snapshot, height int) {
	if s.Seen == nil || len(s.Seen.Groups) == 0 || height < 4 {
		return
	}
	n := len(s.Seen.Groups)
	at := (p.view.Pool%n + n) % n
	g := &s.Seen.Groups[at]
	p.line(plain, "")
	p.line(title, fmt.Sprintf("%s / %s / %s  (pool %d of %d)  baseline %.0f  skew %.1f  members %d",
		clean(g.Group), clean(g.Topic), clean(g.Pool), at+1, n, g.Baseline, g.Skew, g.Members))
	rows, tones := p.partitionRows(g)
	p.table(head{{"PARTITION", false}, {"LAG", true}, {"DELAY", true}, {"RATIO", true}, {"CLASS", false}, {"", false}}, rows, tones, height-2)
}

func (p *painter) partitionRows(g *lagwatch.PoolEvaluation) (rows [][]string, tones []tone) {
	parts := slices.Clone(g.Partitions)
	if p.view.Order == ByTrouble {
		slices.SortStableFunc(parts, func(a, b lagwatch.PartitionEvaluation) int {
			return cmp.Or(cmp.Compare(rank(&b), rank(&a)), cmp.Compare(b.Lag, a.Lag))
		})
	}
	most := int64(1)
	for i := range parts {
		most = max(most, parts[i].Lag)
	}
	for i := range parts {
		row, t := partitionRow(&parts[i], most)
		rows, tones = append(rows, row), append(tones, t)
	}
	return rows, tones
}

func rank(p *lagwatch.PartitionEvaluation) int {
	switch {
	case p.Firing:
		return 3
	case !p.Known:
		return 2
	case p.Class != lag.OK && p.Class != lag.Idle:
		return 1
	}
	return 0
}

func partitionRow(p *lagwatch.PartitionEvaluation, most int64) ([]string, tone) {
	row := []string{fmt.Sprint(p.Partition), "?", "?", "?", p.Class.String(), ""}
	switch {
	case !p.Known:
		return row, doubt
	case !p.Committed:
		row[1], row[2], row[3] = "-", "-", "-"
		return row, plain
	}
	row[1], row[2], row[3] = fmt.Sprint(p.Lag), short(p.Delay), fmt.Sprintf("%.1f", p.Ratio)
	if p.DelayBound {
		row[2] = "≥ " + row[2]
	}
	row[5] = strings.Repeat("█", int(p.Lag*barWidth/most))
	if p.Firing {
		return row, loud
	}
	return row, plain
}

// tenantsHeight is how many lines all tenants would take.
func tenantsHeight(s *Snapshot) int {
	if s.Workers == 0 {
		return 0
	}
	return 3 + max(len(s.Tenants), 1)
}

func (p *painter) tenants(s *Snapshot, height int) {
	if s.Workers == 0 || height < 4 {
		return
	}
	p.line(plain, "")
	p.line(title, fmt.Sprintf("tenants at %d workers", s.Workers))
	rows, tones := [][]string{}, []tone{}
	for _, t := range deepest(s.Tenants) {
		depth, eta := fmt.Sprint(t.Depth), "-"
		if t.Skipped > 0 {
			depth += "+"
		}
		if t.ETA >= 0 {
			eta = short(t.ETA)
		}
		rows = append(rows, []string{
			printable(t.Name), clean(t.State), depth, fmt.Sprint(t.Running), fmt.Sprintf("%.1f/s", t.Rate), eta, clean(t.Worker),
		})
		mark := plain
		if t.troubled() {
			mark = doubt
		}
		tones = append(tones, mark)
	}
	p.table(head{{"TENANT", false}, {"STATE", false}, {"DEPTH", true}, {"RUNNING", true}, {"RATE", true}, {"ETA", true}, {"WORKER", false}}, rows, tones, height-2)
}

// head is the first line of a table; numbers stand to the right.
type head []struct {
	name  string
	right bool
}

// table draws rows under a head in at most height lines, saying how many are
// left out.
func (p *painter) table(head head, rows [][]string, tones []tone, height int) {
	shown := len(rows)
	if shown > height-1 {
		shown = max(height-2, 0)
	}
	names, right := []string{}, []bool{}
	for _, column := range head {
		names, right = append(names, column.name), append(right, column.right)
	}
	lines := columns(append([][]string{names}, rows[:shown]...), right)
	p.line(dim, lines[0])
	for i, line := range lines[1:] {
		p.line(tones[i], line)
	}
	if more := len(rows) - shown; more > 0 {
		p.line(dim, fmt.Sprintf("and %d more", more))
	}
}

// notesHeight is how many lines notes take.
func notesHeight(s *Snapshot) int {
	if len(s.Notes) == 0 {
		return 0
	}
	return 1 + min(len(s.Notes), mostNotes)
}

func (p *painter) notes(s *Snapshot) {
	if len(s.Notes) == 0 {
		return
	}
	p.line(plain, "")
	for _, note := range s.Notes[max(0, len(s.Notes)-mostNotes):] {
		p.line(plain, clean(note))
	}
}

func footerHeight(v View) int {
	if !v.Keys {
		return 0
	}
	return 2
}

func (p *painter) footer() {
	if !p.view.Keys {
		return
	}
	for p.view.Height > 0 && len(p.lines) < p.view.Height-1 {
		p.line(plain, "")
	}
	p.line(dim, "q quit   ←/→ pool   s sort   space hold still")
}

// columns pads cells to columns. right marks columns that end flush.
func columns(rows [][]string, right []bool) []string {
	widths := []int{}
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	lines := make([]string, 0, len(rows))
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-ansi.StringWidth(cell))
			if i < len(right) && right[i] {
				cell, pad = pad+cell, ""
			}
			b.WriteString(cell + pad + "  ")
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// short is a time in the two units that matter.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return strings.Replace(d.Round(time.Second).String(), "m0s", "m", 1)
	}
	return strings.Replace(d.Round(time.Minute).String(), "m0s", "m", 1)
}
