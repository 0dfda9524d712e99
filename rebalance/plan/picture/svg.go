package picture

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Measures of an SVG, in pixels.
const (
	svgWidth  = 960
	svgMargin = 24
	svgRow    = 20
	svgBar    = 13
	svgHead   = 92 // above the first bar
	svgGap    = 36 // between panels
	svgGlyph  = 7  // width of a character, about
	svgFoot   = 58
)

// style colors every tone for a light and a dark page; hot parts have an
// outline too, and values a halo in the page's color where a line passes.
const style = `<style>
.bg{fill:#fff}.t{fill:#1f2328}.m{fill:#59636e}.p{fill:#8c9bab}.a{fill:#2f6fde}.h{fill:#d1522f;stroke:#8f2d12}.l{stroke:#59636e;stroke-dasharray:4 3}.o{stroke:#fff;stroke-width:4px;paint-order:stroke}
text{font:12px ui-sans-serif,system-ui,"DejaVu Sans",sans-serif}.t1{font-size:18px;font-weight:600}.t2{font-size:13px;font-weight:600}.e{text-anchor:end}
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}.t{fill:#e6edf3}.m{fill:#9198a1}.p{fill:#66727f}.a{fill:#5a97f5}.h{fill:#ef7a55;stroke:#ffb199}.l{stroke:#9198a1}.o{stroke:#0d1117}}
</style>`

// classes are the style of each tone.
var classes = [tones]string{Plain: "p", Accent: "a", Hot: "h"}

// SVG draws the chart as a stand-alone file, panels side by side.
func SVG(c Chart) []byte {
	rows := 0
	for _, p := range c.Panels {
		rows = max(rows, len(p.Bars))
	}
	height := svgHead + rows*svgRow + svgFoot
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title desc">`+"\n",
		svgWidth, height, svgWidth, height)
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>\n%s\n", escape(c.Title), escape(c.Subtitle), style)
	fmt.Fprintf(&b, `<rect class="bg" width="%d" height="%d"/>`+"\n", svgWidth, height)
	text(&b, "t t1", svgMargin, 34, c.Title)
	text(&b, "m", svgMargin, 54, c.Subtitle)
	wide := (svgWidth - 2*svgMargin - svgGap*(len(c.Panels)-1)) / max(1, len(c.Panels))
	for i, p := range c.Panels {
		c.panel(&b, p, svgMargin+i*(wide+svgGap), wide, rows)
	}
	c.legend(&b, height-18)
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// panel draws one panel at x, wide pixels wide: labels, bars, values with notes.
func (c Chart) panel(b *strings.Builder, p Panel, x, wide, rows int) {
	label, shown := c.columns()
	left := x + label*svgGlyph + 8
	room := wide - label*svgGlyph - 8 - max(shown, c.tails())*svgGlyph - 8
	scale := float64(max(room, 40)) / c.top()
	text(b, "t t2", x, svgHead-14, p.Title)
	p.mark(b, float64(left)+p.Mark.Value*scale, rows)
	for i, bar := range p.Bars {
		y := svgHead + i*svgRow
		fmt.Fprintf(b, "<g><title>%s</title>\n", escape(bar.Label+": "+join(bar.Shown, bar.Note)))
		text(b, "m e", left-8, y+14, cut(bar.Label, longest))
		end := drawParts(b, bar, float64(left), y+3, scale)
		text(b, "t o", int(end)+6, y+14, join(bar.Shown, cut(bar.Note, c.noteRunes())))
		b.WriteString("</g>\n")
	}
}

// mark draws the panel's line of comparison, below all else.
func (p Panel) mark(b *strings.Builder, x float64, rows int) {
	if p.Mark.Label == "" {
		return
	}
	bottom := svgHead + rows*svgRow
	fmt.Fprintf(b, `<line class="l" x1="%s" x2="%s" y1="%d" y2="%d"/>`+"\n", number(x), number(x), svgHead-6, bottom+2)
	fmt.Fprintf(b, `<text class="m" text-anchor="middle" x="%s" y="%d">%s</text>`+"\n", number(x), bottom+16, escape(p.Mark.Label))
}

// noteRunes is how much of a note an SVG shows; its tooltip has the whole.
func (c Chart) noteRunes() int { return 52 / max(1, len(c.Panels)) }

// tails is how many characters the longest value with its note takes beyond
// the longest bar.
func (c Chart) tails() int {
	most := 0
	for _, p := range c.Panels {
		for _, bar := range p.Bars {
			// A short bar leaves room for its own note.
			free := int((1 - bar.value()/c.top()) * 30)
			most = max(most, utf8.RuneCountInString(bar.Shown)+3+min(utf8.RuneCountInString(bar.Note), c.noteRunes())-free)
		}
	}
	return most
}

// drawParts draws a bar's parts from x on and gives where they end.
func drawParts(b *strings.Builder, bar Bar, x float64, y int, scale float64) float64 {
	for _, p := range bar.Parts {
		if p.Value == 0 {
			continue
		}
		fmt.Fprintf(b, `<rect class="%s" x="%s" y="%d" width="%s" height="%d"/>`+"\n",
			classes[p.Tone], number(x), y, number(max(p.Value*scale, 0.5)), svgBar)
		x += p.Value * scale
	}
	return x
}

// legend explains the tones that the bars use.
func (c Chart) legend(b *strings.Builder, y int) {
	used, x := c.uses(), svgMargin
	for tone, words := range c.Legend {
		if !used[tone] || words == "" {
			continue
		}
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="12" height="12"/>`+"\n", classes[tone], x, y-10)
		text(b, "m", x+18, y, words)
		x += 18 + utf8.RuneCountInString(words)*svgGlyph + 20
	}
}

func text(b *strings.Builder, class string, x, y int, s string) {
	fmt.Fprintf(b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, escape(s))
}

// join puts a note behind a value.
func join(shown, note string) string {
	if note == "" {
		return shown
	}
	return shown + " · " + note
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

// escape makes text of any origin safe to stand in XML.
func escape(s string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xFFFE || r == 0xFFFF {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	return html.EscapeString(clean)
}
