package routing

import (
	"strconv"
	"strings"
)

// Error is what is wrong with a table, and where. Every error of Parse,
// NewTable, Table.Edit and Table.MayReplace that concerns a table's content is
// an *Error.
type Error struct {
	// File is the name handed to Parse; empty for a table not read from one.
	File string
	// Line counts from 1; 0 when the table was not read from text.
	Line int
	// Field is the path of what is wrong, like topics.orders.slots. Parts that
	// are not plain words are quoted.
	Field string
	// Msg says what is wrong and what is allowed, in one line.
	Msg string

	path []string
}

// Error gives one line: file:line: field: message, leaving out what is unknown.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			b.WriteString(":" + strconv.Itoa(e.Line))
		}
		b.WriteString(": ")
	} else if e.Line > 0 {
		b.WriteString("line " + strconv.Itoa(e.Line) + ": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Msg)
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// field is one step of a path, linked upwards so that walking a table of
// 100,000 entries builds a path only when there is an error to report.
type field struct {
	up   *field
	name string
}

func (f *field) in(name string) *field { return &field{up: f, name: name} }

func (f *field) path() []string {
	if f == nil {
		return nil
	}
	return append(f.up.path(), f.name)
}

// errorf makes the error of a field.
func (f *field) error(msg string) *Error {
	path := f.path()
	return &Error{Field: renderPath(path), Msg: msg, path: path}
}

func renderPath(path []string) string {
	parts := make([]string, len(path))
	for i, p := range path {
		parts[i] = renderName(p)
	}
	return strings.Join(parts, ".")
}

// renderName quotes what would be unreadable within a dotted path.
func renderName(s string) string {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c == '"' || c == '.' || c == ':' {
			return strconv.Quote(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}
