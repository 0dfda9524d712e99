package routing

import (
	"errors"
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

	path  []string
	cause error // a sentinel, or nil
}

// Unwrap gives the sentinel that a caller may look for, such as ErrMoving, or
// nil.
func (e *Error) Unwrap() error { return e.cause }

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

// fault makes the error of what path names, relative to where it is found;
// whoever passes it up adds its own part with under. So a path is built only
// when there is an error, not for each of 100,000 entries that are fine.
func fault(msg string, path ...string) *Error {
	return &Error{Field: renderPath(path), Msg: msg, path: path}
}

// under puts a path before that of an *Error, and leaves other errors alone.
func under(err error, path ...string) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		e.path = append(path, e.path...)
		e.Field = renderPath(e.path)
	}
	return err
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
