package check

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
	Named      bool    `json:"named"`
}

type slowCommit struct {
	Partition *int32      `json:"partition"`
	Offset    *int64      `json:"offset"`
	Frontier  *int64      `json:"frontier"`
	Lanes     [][2]uint64 `json:"lanes"`
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
	if err == nil && !writable(l.Time) {
		err = fmt.Errorf(`"time" %v is outside of the years 0 to 9999 in UTC`, l.Time)
	}
	return l, err
}

// writable says that a time can be written as a log line has it, in UTC: at the
// ends of what RFC 3339 can say, one with a zone cannot.
func writable(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 0 && year <= 9999
}

func (p *parser) slowCommits(commits []slowCommit) error {
	p.commits = p.commits[:0]
	for _, c := range commits {
		if c.Partition == nil || c.Offset == nil || *c.Partition < 0 || *c.Offset < 0 {
			return errors.New(`"commit" wants objects with "partition" and "offset", from 0`)
		}
		commit := Commit{Partition: *c.Partition, Offset: *c.Offset, Frontier: *c.Offset}
		if c.Frontier != nil {
			commit.Frontier = *c.Frontier
		}
		if err := commit.name(c.Lanes); err != nil {
			return err
		}
		p.commits = append(p.commits, commit)
	}
	return nil
}

// name reads the lanes that a commit names.
func (c *Commit) name(lanes [][2]uint64) error {
	if c.Frontier < c.Offset {
		return errors.New(`"frontier" of a commit lies below its "offset"`)
	}
	for _, l := range lanes {
		if l[0] > math.MaxUint32 || l[1] < uint64(c.Offset) || l[1] >= uint64(c.Frontier) {
			return errors.New(`"lanes" of a commit wants [name, offset], names below 2^32 and offsets from "offset" up and below "frontier"`)
		}
		c.Lanes = append(c.Lanes, Lane{Name: uint32(l[0]), Offset: int64(l[1])})
	}
	return nil
}

func (s *slowAssigned) into(l *Line) error {
	if s.Partition == nil || s.Assignment == nil || *s.Partition < 0 {
		return errors.New(`"assigned" wants "partition", from 0, and "assignment"`)
	}
	l.Partition, l.Assignment, l.Named = *s.Partition, *s.Assignment, s.Named
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
	c := Cursor{Rest: line, OK: true}
	producer := c.Plain(`{"producer":"`)
	tenant := c.Plain(`,"tenant":"`)
	l.Seq = c.Number(`,"sequence":`)
	partition := c.Number(`,"partition":`)
	offset := c.Number(`,"offset":`)
	l.Kind = KindProduced
	if c.Has(`,"attempt":`) {
		attempt := c.Number("")
		c.OK = c.OK && attempt <= math.MaxInt32
		l.Kind, l.Attempt = KindHandled, int(attempt)
	}
	if c.Has(`,"assignment":`) {
		l.Assignment = c.Number("")
	}
	stamp := c.Plain(`,"time":"`)
	if !c.OK || string(c.Rest) != "}" || partition > math.MaxInt32 || offset > math.MaxInt64 {
		return Line{}, false
	}
	if l.Time.UnmarshalText(stamp) != nil || !writable(l.Time) {
		return Line{}, false
	}
	l.Partition, l.Offset = int32(partition), int64(offset)
	l.Producer, l.Tenant = p.intern(producer), p.intern(tenant)
	return l, true
}
