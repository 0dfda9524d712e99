package marks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// span is a run of offsets, both ends included.
type span struct{ from, to int64 }

// Set is a set of offsets. The zero value is empty.
type Set struct {
	spans []span
	dirty bool // spans neither sorted nor joined
}

// Add adds the offsets of a text. A text that Format does not write adds
// nothing and is an error.
func (m *Set) Add(text string) error {
	spans, err := parse(text)
	if err != nil {
		return err
	}
	m.spans, m.dirty = append(m.spans, spans...), true
	return nil
}

// tidy sorts and joins.
func (m *Set) tidy() {
	if !m.dirty {
		return
	}
	m.dirty = false
	slices.SortFunc(m.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	joined := m.spans[:0]
	for _, s := range m.spans {
		if n := len(joined); n > 0 && s.from <= joined[n-1].to+1 {
			joined[n-1].to = max(joined[n-1].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	m.spans = joined
}

// Has tells whether an offset is in the set.
func (m *Set) Has(offset int64) bool {
	m.tidy()
	i, found := slices.BinarySearchFunc(m.spans, offset, func(s span, at int64) int { return cmp.Compare(s.from, at) })
	return found || i > 0 && offset <= m.spans[i-1].to
}

// Format writes offsets that ascend, such as "7,9-12".
func Format(offsets []int64) string {
	var b strings.Builder
	for i := 0; i < len(offsets); {
		end := i
		for end+1 < len(offsets) && offsets[end+1] == offsets[end]+1 {
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(offsets[i], 10))
		if end > i {
			b.WriteByte('-')
			b.WriteString(strconv.FormatInt(offsets[end], 10))
		}
		i = end + 1
	}
	return b.String()
}

// parse reads only what Format writes.
func parse(text string) ([]span, error) {
	var spans []span
	before := int64(-2)
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := parseOffset(first)
		to := from
		if err == nil && isRange {
			to, err = parseOffset(last)
		}
		if err != nil || from-1 <= before || isRange && to <= from {
			return nil, fmt.Errorf("offsets %q: at %q", text, part)
		}
		spans = append(spans, span{from, to})
		before = to
	}
	return spans, nil
}

func parseOffset(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && strconv.FormatInt(n, 10) != text {
		err = strconv.ErrSyntax
	}
	return n, err
}
