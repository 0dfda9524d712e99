package check

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Cursor eats JSON of a known layout from the left, without allocating. OK
// turns false at the first surprise, and what it returned before is then not
// to be used: the caller reads the text again with encoding/json.
type Cursor struct {
	Rest []byte
	OK   bool
}

// Has eats prefix if it comes next.
func (c *Cursor) Has(prefix string) bool {
	rest, found := bytes.CutPrefix(c.Rest, []byte(prefix))
	if found {
		c.Rest = rest
	}
	return found
}

// Plain eats prefix, which ends in a quote, and a string of plain ASCII that
// needs no unescaping, with its closing quote. The string is a part of Rest.
func (c *Cursor) Plain(prefix string) []byte {
	c.OK = c.OK && c.Has(prefix)
	if !c.OK {
		return nil
	}
	for i, b := range c.Rest {
		switch {
		case b == '"':
			text := c.Rest[:i]
			c.Rest = c.Rest[i+1:]
			return text
		case b < ' ' || b >= 0x7f || b == '\\':
			c.OK = false
			return nil
		}
	}
	c.OK = false
	return nil
}

// Number eats prefix and a decimal number without sign or leading zeros.
func (c *Cursor) Number(prefix string) uint64 {
	c.OK = c.OK && c.Has(prefix)
	n := 0
	for n < len(c.Rest) && c.Rest[n] >= '0' && c.Rest[n] <= '9' {
		n++
	}
	if !c.OK || n == 0 || n > 1 && c.Rest[0] == '0' {
		c.OK = false
		return 0
	}
	value, err := strconv.ParseUint(string(c.Rest[:n]), 10, 64)
	c.OK = err == nil
	c.Rest = c.Rest[n:]
	return value
}

// AppendString appends s as a JSON string; bytes that are not UTF-8 become
// U+FFFD, as in encoding/json.
func AppendString(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}
