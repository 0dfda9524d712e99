package picture

import (
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Chart is one picture: panels of bars, all to one scale.
type Chart struct {
	Title, Subtitle string
	Panels          []Panel
	// Legend says what each tone means; a tone without words is not explained.
	Legend [tones]string
}

// Panel is one group of bars.
type Panel struct {
	Title string
	Bars  []Bar
	Mark  Mark
}

// Mark is a value to compare bars with, such as a mean; none when it has no label.
type Mark struct {
	Value float64
	Label string
}

// Bar is one row.
type Bar struct {
	// Label stands before the bar, Shown is its value in words, Note follows.
	Label, Shown, Note string
	// Parts lie one after another; none is negative.
	Parts []Part
}

// Part is a stretch of a bar.
type Part struct {
	Value float64
	Tone  Tone
}

// Tone says what a part is about.
type Tone uint8

// The tones.
const (
	Plain  Tone = iota // slots of ordinary tenants, or nothing in particular
	Accent             // tenants with a placement, or what is recommended
	Hot                // far above the others

	tones // how many there are
)

func (b Bar) value() float64 {
	var sum float64
	for _, p := range b.Parts {
		sum += p.Value
	}
	return sum
}

// top is the largest value of the chart, above 0.
func (c Chart) top() float64 {
	top := 0.0
	for _, p := range c.Panels {
		top = max(top, p.Mark.Value)
		for _, b := range p.Bars {
			top = max(top, b.value())
		}
	}
	if top == 0 {
		return 1
	}
	return top
}

// uses says which tones the bars show.
func (c Chart) uses() [tones]bool {
	var used [tones]bool
	for _, p := range c.Panels {
		for _, bar := range p.Bars {
			for _, part := range bar.Parts {
				used[part.Tone] = used[part.Tone] || part.Value > 0
			}
		}
	}
	return used
}

// Tenant writes a tenant for people: as it is when it is printable text, else
// in hexadecimal.
func Tenant(tenant string) string {
	if utf8.ValidString(tenant) && strings.IndexFunc(tenant, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return tenant
	}
	return "0x" + hex.EncodeToString([]byte(tenant))
}

// cut shortens s to n runes.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(0, n-1)]) + "…"
}
