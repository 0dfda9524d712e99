package check

import (
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"
)

// Kind says what a log line tells.
type Kind uint8

const (
	// KindProduced is a line of a load generator: a record was acknowledged.
	KindProduced Kind = iota + 1
	// KindHandled is a line of a worker: a record was handled.
	KindHandled
	// KindCommit is a line of a worker: a commit was acknowledged.
	KindCommit
	// KindAssigned is a line of a worker: it was given a partition.
	KindAssigned
	// KindProcess is the first line that a worker process writes.
	KindProcess
)

// Line is one line of a log. Logs are JSON, one object a line:
//
//	{"process":"host-4711-1f3a","time":"…"}
//	{"assigned":{"partition":3,"assignment":1},"time":"…"}
//	{"producer":"p","tenant":"acme","sequence":7,"partition":3,"offset":42,"attempt":1,"assignment":1,"time":"…"}
//	{"commit":[{"partition":3,"offset":43}],"time":"…"}
//	{"commit":[{"partition":3,"offset":43,"frontier":900,"lanes":[[2166136261,43]]}],"time":"…"}
//
// A load generator's lines are like the third without attempt and assignment.
// A tenant that is not text has "tenant_hex" too, which then counts;
// "unordered":true marks a record that has no order. An assignment with
// "named":true goes on from the frontier and the lanes of the last commit; each
// lane is its name and its first unfinished offset. A commit without a frontier,
// as workers before 1.0 wrote it, has its offset for one. Times are RFC 3339 with
// nanoseconds. Readers skip fields that they do not know.
type Line struct {
	Kind Kind
	// Time is never before that of the line before, whose time it takes if it
	// has none of its own.
	Time time.Time
	// Handling is whole for KindProduced and KindHandled. Of every line the
	// Process is set, and of KindAssigned Partition and Assignment.
	Handling
	// Named is for KindAssigned.
	Named bool
	// Commits is for KindCommit, and valid until the next line is read.
	Commits []Commit
}

// AppendProcess appends the line that begins a worker process in its log. A
// process must have its own name, also among restarts.
func AppendProcess(dst []byte, process string, at time.Time) []byte {
	dst = append(dst, `{"process":`...)
	dst = AppendString(dst, process)
	return appendEnd(dst, at)
}

// AppendAssigned appends the line that says that the process was given a
// partition. It belongs before the first handling of that assignment.
func AppendAssigned(dst []byte, a Assignment, at time.Time) []byte {
	dst = append(dst, `{"assigned":{"partition":`...)
	dst = strconv.AppendInt(dst, int64(a.Partition), 10)
	dst = append(dst, `,"assignment":`...)
	dst = strconv.AppendUint(dst, a.Number, 10)
	if a.Named {
		dst = append(dst, `,"named":true`...)
	}
	dst = append(dst, '}')
	return appendEnd(dst, at)
}

// AppendHandled appends the line of a handled record. The line belongs into
// the log, in one write, before the record counts as done.
func AppendHandled(dst []byte, h *Handling, at time.Time) []byte {
	dst = appendRecord(dst, h)
	dst = append(dst, `,"attempt":`...)
	dst = strconv.AppendInt(dst, int64(h.Attempt), 10)
	if h.Assignment != 0 {
		dst = append(dst, `,"assignment":`...)
		dst = strconv.AppendUint(dst, h.Assignment, 10)
	}
	if h.Unordered {
		dst = append(dst, `,"unordered":true`...)
	}
	return appendEnd(dst, at)
}

// AppendProduced appends the line of a record that was acknowledged to its
// producer.
func AppendProduced(dst []byte, h *Handling, at time.Time) []byte {
	return appendEnd(appendRecord(dst, h), at)
}

// AppendCommit appends the line of an acknowledged commit.
func AppendCommit(dst []byte, commits []Commit, at time.Time) []byte {
	dst = append(dst, `{"commit":[`...)
	for i, c := range commits {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"partition":`...)
		dst = strconv.AppendInt(dst, int64(c.Partition), 10)
		dst = append(dst, `,"offset":`...)
		dst = strconv.AppendInt(dst, c.Offset, 10)
		dst = appendFrontier(dst, &c)
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	return appendEnd(dst, at)
}

func appendFrontier(dst []byte, c *Commit) []byte {
	if c.Frontier <= c.Offset {
		return dst
	}
	dst = append(dst, `,"frontier":`...)
	dst = strconv.AppendInt(dst, c.Frontier, 10)
	for i, l := range c.Lanes {
		if i == 0 {
			dst = append(dst, `,"lanes":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = strconv.AppendUint(dst, uint64(l.Name), 10)
		dst = append(dst, ',')
		dst = strconv.AppendInt(dst, l.Offset, 10)
		dst = append(dst, ']')
	}
	if len(c.Lanes) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

func appendRecord(dst []byte, h *Handling) []byte {
	dst = append(dst, `{"producer":`...)
	dst = AppendString(dst, h.Producer)
	dst = append(dst, `,"tenant":`...)
	dst = AppendString(dst, h.Tenant)
	if !utf8.ValidString(h.Tenant) {
		dst = append(dst, `,"tenant_hex":"`...)
		dst = hex.AppendEncode(dst, []byte(h.Tenant))
		dst = append(dst, '"')
	}
	dst = append(dst, `,"sequence":`...)
	dst = strconv.AppendUint(dst, h.Seq, 10)
	dst = append(dst, `,"partition":`...)
	dst = strconv.AppendInt(dst, int64(h.Partition), 10)
	dst = append(dst, `,"offset":`...)
	return strconv.AppendInt(dst, h.Offset, 10)
}

func appendEnd(dst []byte, at time.Time) []byte {
	dst = append(dst, `,"time":"`...)
	dst = at.UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"', '}', '\n')
}
