package check

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// parser turns lines into Lines. Lines as AppendHandled and AppendProduced
// write them take a fast path that allocates nothing for a known tenant;
// everything else is left to encoding/json. Both read the same, which a fuzz
// test holds.
type parser struct {
	names   map[string]string // one copy of each tenant and producer
	commits []Commit
}

func (p *parser) intern(b []byte) string {
	name, ok := p.names[string(b)]
	if !ok {
		name = string(b)
		p.names[name] = name
	}
	return name
}

// parse reads one line without its newline.
func (p *parser) parse(line []byte) (Line, error) {
	if l, ok := p.fast(line); ok {
		return l, nil
	}
	return p.slow(line)
}

// slowLine has pointers where absent and zero differ.
type slowLine struct {
	Process    *string       `json:"process"`
	Assigned   *slowAssigned `json:"assigned"`
	Commit     *[]slowCommit `json:"commit"`
	Producer   *string       `json:"producer"`
	Tenant     *string       `json:"tenant"`
	TenantHex  *string       `json:"tenant_hex"`
	Sequence   *uint64       `json:"sequence"`
	Partition  *int32        `json:"partition"`
	Offset     *int64        `json:"offset"`
	Attempt    *int          `json:"attempt"`
	Assignment uint64        `json:"assignment"`
	Unordered  bool          `json:"unordered"`
	Time       *time.Time    `json:"time"`
}

type slowAssigned struct {
	Partition  *int32  `json:"partition"`
	Assignment *uint64 `json:"assignment"`
}

type slowCommit struct {
	Partition *int32 `json:"partition"`
	Offset    *int64 `json:"offset"`
}

func (p *parser) slow(line []byte) (Line, error) {
	var s slowLine
	if err := json.Unmarshal(line, &s); err != nil {
		return Line{}, fmt.Errorf("not a log line: %w", err)
	}
	var l Line
	var err error
	switch {
	case s.Commit != nil:
		l.Kind, err = KindCommit, p.slowCommits(*s.Commit)
		l.Commits = p.commits
	case s.Assigned != nil:
		l.Kind, err = KindAssigned, s.Assigned.into(&l)
	case s.Process != nil:
		l.Kind, l.Process = KindProcess, p.intern([]byte(*s.Process))
	default:
		err = p.record(&s, &l)
	}
	if s.Time != nil {
		l.Time = *s.Time
	}
	return l, err
}

func (p *parser) slowCommits(commits []slowCommit) error {
	p.commits = p.commits[:0]
	for _, c := range commits {
		if c.Partition == nil || c.Offset == nil || *c.Partition < 0 || *c.Offset < 0 {
			return errors.New(`"commit" wants objects with "partition" and "offset", from 0`)
		}
		p.commits = append(p.commits, Commit{*c.Partition, *c.Offset})
	}
	return nil
}

func (s *slowAssigned) into(l *Line) error {
	if s.Partition == nil || s.Assignment == nil || *s.Partition < 0 {
		return errors.New(`"assigned" wants "partition", from 0, and "assignment"`)
	}
	l.Partition, l.Assignment = *s.Partition, *s.Assignment
	return nil
}

// record reads a handled or produced record.
func (p *parser) record(s *slowLine, l *Line) error {
	switch {
	case s.Tenant == nil && s.TenantHex == nil:
		return errors.New(`no "tenant"`)
	case s.Sequence == nil:
		return errors.New(`no "sequence"`)
	case s.Partition == nil || *s.Partition < 0:
		return errors.New(`no "partition" from 0`)
	case s.Offset == nil || *s.Offset < 0:
		return errors.New(`no "offset" from 0`)
	}
	l.Kind = KindProduced
	l.Seq, l.Partition, l.Offset = *s.Sequence, *s.Partition, *s.Offset
	l.Assignment, l.Unordered = s.Assignment, s.Unordered
	if s.Producer != nil {
		l.Producer = p.intern([]byte(*s.Producer))
	}
	if s.Attempt != nil {
		l.Kind, l.Attempt = KindHandled, *s.Attempt
	}
	if s.TenantHex == nil {
		l.Tenant = p.intern([]byte(*s.Tenant))
		return nil
	}
	raw, err := hex.DecodeString(*s.TenantHex)
	if err != nil {
		return fmt.Errorf(`"tenant_hex": %w`, err)
	}
	l.Tenant = p.intern(raw)
	return nil
}

// fast reads a record line in the exact layout of appendRecord with plain
// names, and reports false for anything else.
func (p *parser) fast(line []byte) (l Line, ok bool) {
	c := cursor{line, true}
	producer := c.plain(`{"producer":"`)
	tenant := c.plain(`,"tenant":"`)
	l.Seq = c.number(`,"sequence":`)
	partition := c.number(`,"partition":`)
	offset := c.number(`,"offset":`)
	l.Kind = KindProduced
	if c.has(`,"attempt":`) {
		attempt := c.number("")
		c.ok = c.ok && attempt <= math.MaxInt32
		l.Kind, l.Attempt = KindHandled, int(attempt)
	}
	if c.has(`,"assignment":`) {
		l.Assignment = c.number("")
	}
	stamp := c.plain(`,"time":"`)
	if !c.ok || string(c.rest) != "}" || partition > math.MaxInt32 || offset > math.MaxInt64 {
		return Line{}, false
	}
	if l.Time.UnmarshalText(stamp) != nil {
		return Line{}, false
	}
	l.Partition, l.Offset = int32(partition), int64(offset)
	l.Producer, l.Tenant = p.intern(producer), p.intern(tenant)
	return l, true
}

// cursor eats a line from the left; ok turns false at the first surprise.
type cursor struct {
	rest []byte
	ok   bool
}

func (c *cursor) has(prefix string) bool {
	rest, found := bytes.CutPrefix(c.rest, []byte(prefix))
	if found {
		c.rest = rest
	}
	return found
}

// plain eats prefix and a string that needs no unescaping, with its quote.
func (c *cursor) plain(prefix string) []byte {
	c.ok = c.ok && c.has(prefix)
	if !c.ok {
		return nil
	}
	for i, b := range c.rest {
		switch {
		case b == '"':
			text := c.rest[:i]
			c.rest = c.rest[i+1:]
			return text
		case b < ' ' || b >= 0x7f || b == '\\':
			c.ok = false
			return nil
		}
	}
	c.ok = false
	return nil
}

// number eats prefix and a decimal number without sign or leading zeros.
func (c *cursor) number(prefix string) uint64 {
	c.ok = c.ok && c.has(prefix)
	n := 0
	for n < len(c.rest) && c.rest[n] >= '0' && c.rest[n] <= '9' {
		n++
	}
	if !c.ok || n == 0 || n > 1 && c.rest[0] == '0' {
		c.ok = false
		return 0
	}
	value, err := strconv.ParseUint(string(c.rest[:n]), 10, 64)
	c.ok = err == nil
	c.rest = c.rest[n:]
	return value
}
