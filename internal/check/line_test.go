package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 123456789, time.UTC)

func TestLinesAreTheJSONThatTheyPromise(t *testing.T) {
	h := Handling{ID: ID{"p", "a\"c\\m\ne"}, Seq: 7, Partition: 3, Offset: 42, Attempt: 1, Assignment: 2}
	for _, c := range []struct{ got, want string }{
		{string(AppendHandled(nil, &h, noon)), `{"producer":"p","tenant":"a\"c\\m\u000ae","sequence":7,"partition":3,"offset":42,"attempt":1,"assignment":2,"time":"2026-05-04T12:00:00.123456789Z"}`},
		{string(AppendProduced(nil, &Handling{ID: ID{"p", "\xff"}}, noon)), `{"producer":"p","tenant":"�","tenant_hex":"ff","sequence":0,"partition":0,"offset":0,"time":"2026-05-04T12:00:00.123456789Z"}`},
		{string(AppendCommit(nil, []Commit{{Partition: 3, Offset: 43}, {Partition: 4, Frontier: -1}}, noon)), `{"commit":[{"partition":3,"offset":43},{"partition":4,"offset":0}],"time":"2026-05-04T12:00:00.123456789Z"}`},
		{string(AppendCommit(nil, []Commit{{3, 43, 900, []Lane{{7, 43}, {1<<32 - 1, 50}}}, {4, 0, 5, nil}}, noon)), `{"commit":[{"partition":3,"offset":43,"frontier":900,"lanes":[[7,43],[4294967295,50]]},{"partition":4,"offset":0,"frontier":5}],"time":"2026-05-04T12:00:00.123456789Z"}`},
		{string(AppendAssigned(nil, Assignment{3, 9, true}, noon)), `{"assigned":{"partition":3,"assignment":9,"named":true},"time":"2026-05-04T12:00:00.123456789Z"}`},
		{string(AppendAssigned(nil, Assignment{3, 9, false}, noon)), `{"assigned":{"partition":3,"assignment":9},"time":"2026-05-04T12:00:00.123456789Z"}`},
		{string(AppendProcess(nil, "host-1", noon)), `{"process":"host-1","time":"2026-05-04T12:00:00.123456789Z"}`},
	} {
		if c.got != c.want+"\n" {
			t.Errorf("\n got %s\nwant %s", c.got, c.want)
		}
	}
}

func handlings() *rapid.Generator[Handling] {
	name := rapid.OneOf(rapid.StringMatching(`[a-z@/.A-Z-]{1,12}`), rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	return rapid.Custom(func(t *rapid.T) Handling {
		return Handling{
			ID:         ID{Producer: rapid.String().Draw(t, "producer"), Tenant: name.Draw(t, "tenant")},
			Seq:        rapid.Uint64().Draw(t, "seq"),
			Partition:  rapid.Int32Min(0).Draw(t, "partition"),
			Offset:     rapid.Int64Min(0).Draw(t, "offset"),
			Attempt:    rapid.IntMin(1).Draw(t, "attempt"),
			Assignment: rapid.Uint64().Draw(t, "assignment"),
			Unordered:  rapid.Bool().Draw(t, "unordered"),
		}
	})
}

func TestLinesComeBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := parser{names: map[string]string{}}
		h := handlings().Draw(t, "handling")
		at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC()
		text := AppendHandled(nil, &h, at)
		got, err := p.parse(bytes.TrimSuffix(text, []byte("\n")))
		if diff := cmp.Diff(Line{Kind: KindHandled, Time: at, Handling: h}, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%s: %v\n%s", text, err, diff)
		}
		if !json.Valid(text) {
			t.Fatalf("%s is not JSON", text)
		}
	})
}

func TestHandWrittenLinesAreRead(t *testing.T) {
	p := parser{names: map[string]string{}}
	for _, c := range []struct {
		text string
		want Line
	}{
		{`{ "offset": 5, "partition": 1, "sequence": 2, "tenant": "acme", "attempt": 1, "later": {"a": [1]} }`, Line{Kind: KindHandled, Handling: Handling{ID: ID{"", "acme"}, Seq: 2, Partition: 1, Offset: 5, Attempt: 1}}},
		{`{"tenant_hex":"ff00","sequence":2,"partition":1,"offset":5}`, Line{Kind: KindProduced, Handling: Handling{ID: ID{"", "\xff\x00"}, Seq: 2, Partition: 1, Offset: 5}}},
		{`{"commit":[{"partition":1,"offset":5}]}`, Line{Kind: KindCommit, Commits: []Commit{{Partition: 1, Offset: 5, Frontier: 5}}}},
		{`{"commit":[{"partition":1,"offset":5,"frontier":9,"lanes":[[4294967295,5]]}]}`, Line{Kind: KindCommit, Commits: []Commit{{1, 5, 9, []Lane{{1<<32 - 1, 5}}}}}},
		{`{"assigned":{"partition":1,"assignment":3,"named":true}}`, Line{Kind: KindAssigned, Named: true, Handling: Handling{Partition: 1, Assignment: 3}}},
		{`{"commit":[]}`, Line{Kind: KindCommit, Commits: []Commit{}}},
		{`{"assigned":{"partition":1,"assignment":3}}`, Line{Kind: KindAssigned, Handling: Handling{Partition: 1, Assignment: 3}}},
		{`{"process":"w"}`, Line{Kind: KindProcess, Handling: Handling{Process: "w"}}},
	} {
		got, err := p.parse([]byte(c.text))
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", c.text, err, diff)
		}
	}
}

func TestLinesThatAreNoneAreRefused(t *testing.T) {
	p := parser{names: map[string]string{}}
	for text, want := range map[string]string{
		`{"commit":[{"partition":1,"offset":5,"frontier":4}]}`:                      `"frontier"`,
		`{"commit":[{"partition":1,"offset":5,"frontier":9,"lanes":[[1,9]]}]}`:      `"lanes"`,
		`{"commit":[{"partition":1,"offset":5,"lanes":[[1,5]]}]}`:                   `"lanes"`,
		`{"commit":[{"partition":1,"offset":5,"frontier":9,"lanes":[[-1,6]]}]}`:     `lanes`,
		`{"sequence":2,"partition":1,"offset":5}`:                                   `"tenant"`,
		`{"tenant":"a","partition":1,"offset":5}`:                                   `"sequence"`,
		`{"tenant":"a","sequence":2,"offset":5}`:                                    `"partition"`,
		`{"tenant":"a","sequence":2,"partition":1}`:                                 `"offset"`,
		`{"tenant":"a","sequence":-2,"partition":1,"offset":5}`:                     `sequence`,
		`{"tenant":"a","sequence":2,"partition":-1,"offset":5}`:                     `"partition"`,
		`{"tenant":"a","sequence":2,"partition":1,"offset":-5}`:                     `"offset"`,
		`{"tenant":"a","tenant_hex":"x","sequence":2,"partition":1,"offset":5}`:     `tenant_hex`,
		`{"tenant":"a","sequence":2,"partition":1,"offset":5,"time":"soon"}`:        `time`,
		`{"commit":[{"partition":1}]}`:                                              `"offset"`,
		`{"assigned":{"partition":1}}`:                                              `"assignment"`,
		`{"producer":"p","tenant":"a","sequence":2,"partition":1,"offset":5,"time"`: `JSON`,
		`[]`: `log line`,
		``:   `JSON`,
	} {
		if _, err := p.parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}

// readAll reads a log to its end or first error.
func readAll(r *Reader) (lines []Line, err error) {
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		lines = append(lines, line)
	}
}

func handledLine(seq uint64) string {
	return string(AppendHandled(nil, &Handling{ID: ID{"p", "acme"}, Seq: seq, Attempt: 1}, noon))
}

func TestTornLinesAreCountedWhereAKillCanLeaveThem(t *testing.T) {
	whole, torn := handledLine(1), strings.TrimSuffix(handledLine(2), "\n")[:40]
	begin := string(AppendProcess(nil, "second", noon))
	for _, c := range []struct {
		name, log   string
		lines, torn int
		err         string
	}{
		{"nothing", "", 0, 0, ""},
		{"whole", whole + whole, 2, 0, ""},
		{"blank lines", "\n" + whole + "\r\n", 1, 0, ""},
		{"torn at the end", whole + torn, 1, 1, ""},
		{"only the newline is missing", whole + strings.TrimSuffix(whole, "\n"), 1, 1, ""},
		{"torn before a restart", whole + torn + "\n" + begin + whole, 3, 1, ""},
		{"torn twice", torn + "\n" + begin + torn + "\n" + begin + whole + torn, 3, 3, ""},
		{"torn, mended, and killed again", whole + torn + "\n", 1, 1, ""},
		{"torn in the middle", whole + torn + "\n" + whole, 1, 0, "log:2: "},
		{"two torn in a row", whole + torn + "\n" + torn + "\n" + begin, 1, 0, "log:2: "},
		{"too long", whole + strings.Repeat("x", maxLine+1) + "\n" + whole, 1, 0, "log:2: longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader("log", strings.NewReader(c.log))
			lines, err := readAll(r)
			if len(lines) != c.lines || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%d lines, error %v", len(lines), err)
			}
			if c.err == "" && r.Torn() != c.torn {
				t.Errorf("%d torn, want %d", r.Torn(), c.torn)
			}
		})
	}
}

func TestLongLinesAreRead(t *testing.T) {
	h := Handling{ID: ID{"p", strings.Repeat("t", 100_000)}, Attempt: 1}
	lines, err := readAll(NewReader("log", bytes.NewReader(AppendHandled(nil, &h, noon))))
	if err != nil || len(lines) != 1 || lines[0].Tenant != h.Tenant {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

func TestLinesBelongToTheProcessThatBegan(t *testing.T) {
	earlier := string(AppendProcess(nil, "second", noon.Add(-time.Hour)))
	lines, err := readAll(NewReader("log", strings.NewReader(handledLine(1)+earlier+handledLine(2)+`{"commit":[]}`)))
	if err != nil || len(lines) != 3 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if lines[0].Process != "log" || lines[1].Process != "second" || lines[2].Process != "second" {
		t.Errorf("processes %q %q %q", lines[0].Process, lines[1].Process, lines[2].Process)
	}
	if !lines[1].Time.Equal(noon) {
		t.Errorf("a clock that was set back is seen: %v", lines[1].Time)
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(handledLine(1)))
	f.Add(AppendProduced(nil, &Handling{ID: ID{"p", "\xff"}}, noon))
	f.Add(AppendCommit(nil, []Commit{{Partition: 1, Offset: 2}}, noon))
	f.Add(AppendAssigned(nil, Assignment{1, 2, true}, noon))
	f.Add(AppendCommit(nil, []Commit{{1, 2, 9, []Lane{{3, 4}, {5, 8}}}}, noon))
	f.Add([]byte(`{"commit":[{"partition":1,"offset":2,"frontier":1}]}`))
	f.Add([]byte(`{"commit":[{"partition":1,"offset":2,"frontier":9,"lanes":[[4294967296,2],[1]]}]}`))
	f.Add([]byte(`{"producer":"","tenant":"","sequence":18446744073709551615,"partition":2147483647,"offset":9223372036854775807,"attempt":2147483648,"time":"2026-05-04T12:00:00+02:00"}`))
	f.Add([]byte(`{"producer":"","tenant":"","sequence":0,"partition":0,"offset":0,"attempt":0,"time":"0000-01-01T00:00:00+01:00"}`))
	f.Add([]byte(`{"producer":"","tenant":"","sequence":0,"partition":0,"offset":0,"attempt":0,"time":"9999-12-31T23:00:00-05:00"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.TrimSuffix(text, []byte("\n"))
		p := parser{names: map[string]string{}}
		quick, ok := p.fast(text)
		slow, err := p.slow(text)
		if ok && err != nil {
			t.Fatalf("only the fast path reads %q: %v", text, err)
		}
		if diff := cmp.Diff(slow, quick); ok && diff != "" {
			t.Fatalf("%q: -slow +fast\n%s", text, diff)
		}
		if err == nil && slow.Kind == KindCommit {
			commitComesBack(t, &slow)
		}
		if err != nil || slow.Kind != KindHandled {
			return
		}
		again, err := p.parse(bytes.TrimSuffix(AppendHandled(nil, &slow.Handling, slow.Time), []byte("\n")))
		if diff := cmp.Diff(slow.Handling, again.Handling); err != nil || diff != "" {
			t.Fatalf("%q does not come back: %v\n%s", text, err, diff)
		}
	})
}

// commitComesBack holds what was read of a commit to what a commit can say, and
// reads it again as it would be written.
func commitComesBack(t *testing.T, l *Line) {
	t.Helper()
	commits := slices.Clone(l.Commits)
	for _, c := range commits {
		for _, lane := range c.Lanes {
			if c.Frontier < c.Offset || lane.Offset < c.Offset || lane.Offset >= c.Frontier {
				t.Fatalf("read %+v", c)
			}
		}
	}
	p := parser{names: map[string]string{}}
	again, err := p.parse(bytes.TrimSuffix(AppendCommit(nil, commits, l.Time), []byte("\n")))
	if diff := cmp.Diff(commits, again.Commits, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Fatalf("%+v does not come back: %v\n%s", commits, err, diff)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(handledLine(1) + handledLine(2)))
	f.Add([]byte(handledLine(1) + "{\n" + string(AppendProcess(nil, "b", noon))))
	f.Fuzz(func(t *testing.T, log []byte) {
		r := NewReader("log", bytes.NewReader(log))
		lines, err := readAll(r)
		if whole := bytes.Count(log, []byte("\n")); len(lines)+r.Torn() > whole+1 {
			t.Fatalf("%d lines and %d torn of %d, %v", len(lines), r.Torn(), whole, err)
		}
	})
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	h := Handling{ID: ID{"p", "acme"}, Seq: 7, Partition: 3, Offset: 42, Attempt: 1, Assignment: 2}
	buf := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { buf = AppendHandled(buf[:0], &h, noon) }); n != 0 {
		t.Errorf("AppendHandled allocates %v times", n)
	}
	p := parser{names: map[string]string{}}
	line := bytes.TrimSuffix(AppendHandled(nil, &h, noon), []byte("\n"))
	if n := testing.AllocsPerRun(100, func() { _, _ = p.parse(line) }); n != 0 {
		t.Errorf("reading the same line again allocates %v times", n)
	}
}
