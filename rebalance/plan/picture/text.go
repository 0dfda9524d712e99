package picture

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// blocks are the eighths of a character cell.
var blocks = [...]string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"}

// fills draws a whole cell of each tone, told apart without color; a hot bar
// is told by its length.
var fills = [tones]string{Plain: "█", Accent: "▓", Hot: "█"}

const (
	narrowest = 40 // columns below which bars would be of no use
	longest   = 24 // runes of a label or of a value
	shortest  = 8  // columns of a bar, whatever else a line must hold
)

// Text draws the chart for a terminal of width columns; less than 40 counts
// as 40. Lines end in a newline and have no trailing spaces.
func Text(c Chart, width int) string {
	width = max(width, narrowest)
	var b strings.Builder
	line := func(s string) { b.WriteString(strings.TrimRight(s, " ") + "\n") }
	line(c.Title)
	if c.Subtitle != "" {
		line(c.Subtitle)
	}
	label, shown := c.columns()
	room := width - label - shown - 2
	notes := min(c.notes(), room/2)
	bar := max(shortest, room-notes-min(notes, 2))
	for _, p := range c.Panels {
		b.WriteByte('\n')
		line(p.heading())
		for _, row := range p.Bars {
			drawn := drawBar(row, c.top(), bar)
			line(fmt.Sprintf("%s %s %s  %s", padLeft(cut(row.Label, longest), label), padRight(drawn, bar),
				padLeft(cut(row.Shown, longest), shown), cut(row.Note, notes)))
		}
	}
	if words := c.Legend[Accent]; words != "" && c.uses()[Accent] {
		line("\n" + fills[Accent] + " " + words)
	}
	return b.String()
}

func (p Panel) heading() string {
	if p.Mark.Label == "" {
		return p.Title
	}
	return p.Title + " (" + p.Mark.Label + ")"
}

// columns are the widths that labels and values need.
func (c Chart) columns() (label, shown int) {
	for _, p := range c.Panels {
		for _, b := range p.Bars {
			label = max(label, utf8.RuneCountInString(cut(b.Label, longest)))
			shown = max(shown, utf8.RuneCountInString(cut(b.Shown, longest)))
		}
	}
	return label, shown
}

// notes is the length of the longest note.
func (c Chart) notes() int {
	most := 0
	for _, p := range c.Panels {
		for _, b := range p.Bars {
			most = max(most, utf8.RuneCountInString(b.Note))
		}
	}
	return most
}

// drawBar fills the parts in whole cells and ends in eighths. A value above
// zero always shows at least a sliver.
func drawBar(row Bar, top float64, width int) string {
	eighths := int(row.value()/top*float64(width*8) + 0.5)
	if eighths == 0 && row.value() > 0 {
		eighths = 1
	}
	var b strings.Builder
	drawn, sum := 0, 0.0
	for _, p := range row.Parts {
		sum += p.Value
		for end := int(sum / top * float64(width)); drawn < min(end, eighths/8); drawn++ {
			b.WriteString(fills[p.Tone])
		}
	}
	for ; drawn < eighths/8; drawn++ {
		b.WriteString(fills[row.Parts[len(row.Parts)-1].Tone])
	}
	b.WriteString(blocks[eighths%8])
	return b.String()
}

func padLeft(s string, n int) string {
	return strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s))) + s
}

func padRight(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}
