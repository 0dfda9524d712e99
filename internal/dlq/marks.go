package dlq

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// HeaderReplayed makes a record a mark. Its value are the offsets of the letters
// in the record's own partition that were replayed, ascending, as text such as
// "7,9-12".
const HeaderReplayed = "tl-dlq-replayed"

// span is a run of offsets, both ends included.
type span struct{ from, to int64 }

// Marks are the letters of a partition that were replayed.
type Marks struct{ spans []span }

// add notes what one mark says.
func (m *Marks) add(spans []span) { m.spans = append(m.spans, spans...) }

// tidy sorts and joins. It comes between the last add and the first Has.
func (m *Marks) tidy() {
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

// Has says that the letter at an offset was replayed.
func (m *Marks) Has(offset int64) bool {
	i, found := slices.BinarySearchFunc(m.spans, offset, func(s span, at int64) int { return cmp.Compare(s.from, at) })
	return found || i > 0 && offset <= m.spans[i-1].to
}

// markOf reads a record's mark. False: it is none.
func markOf(r *kgo.Record) (spans []span, ok bool, err error) {
	for _, h := range r.Headers {
		if h.Key == HeaderReplayed && r.Key == nil && r.Value == nil {
			spans, err = parseSpans(string(h.Value))
			return spans, true, err
		}
	}
	return nil, false, nil
}

// mark makes the record that says that letters of a partition were replayed.
// Their offsets ascend.
func mark(topic string, partition int32, offsets []int64) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: partition,
		Headers: []kgo.RecordHeader{{Key: HeaderReplayed, Value: []byte(formatSpans(offsets))}},
	}
}

func formatSpans(offsets []int64) string {
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

// parseSpans reads only what formatSpans writes.
func parseSpans(text string) ([]span, error) {
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
