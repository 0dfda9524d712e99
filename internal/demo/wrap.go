package demo

import (
	"strings"
	"unicode/utf8"
)

// width is how many characters lines for people have at the most, unless a
// single word is longer.
const width = 100

// wrap breaks text into lines behind a head; those after the first one begin
// below its text.
func wrap(head, text string) string {
	var b strings.Builder
	indent := utf8.RuneCountInString(head)
	b.WriteString(head)
	at := indent
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
