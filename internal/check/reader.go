package check

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxLine bounds one line of a log, in bytes.
const maxLine = 1 << 20

// Reader reads a log line by line. It is strict: a line that is none is an
// error with file and line number, except where a killed process can have left
// a torn one: at the end of the log, or just before the line that begins the
// next process. Those are counted and skipped, since a record whose line is
// torn did not count as done.
type Reader struct {
	name    string
	in      *bufio.Reader
	parser  parser
	process string    // that the lines belong to
	now     time.Time // latest time so far
	number  int       // of the line read last, from 1
	torn    int
}

// NewReader reads the log in r. name is its file name, for errors and as the
// process of lines before any line that begins a process.
func NewReader(name string, r io.Reader) *Reader {
	return &Reader{
		name: name, process: name,
		in:     bufio.NewReaderSize(r, 1<<16),
		parser: parser{names: map[string]string{}},
	}
}

// Name is the name that the log was given.
func (r *Reader) Name() string { return r.name }

// Torn is how many torn lines were skipped so far.
func (r *Reader) Torn() int { return r.torn }

// Next returns the next line, or io.EOF after the last one.
func (r *Reader) Next() (Line, error) {
	line, err := r.parse()
	var bad *badLine
	if !errors.As(err, &bad) {
		return line, err
	}
	following, err := r.parse() // torn if nothing follows, or a new process
	if errors.Is(err, io.EOF) || err == nil && following.Kind == KindProcess {
		r.torn++
		return following, err
	}
	return Line{}, bad
}

// badLine is a whole line that cannot be understood.
type badLine struct {
	file string
	line int
	err  error
}

func (b *badLine) Error() string { return fmt.Sprintf("%s:%d: %v", b.file, b.line, b.err) }
func (b *badLine) Unwrap() error { return b.err }

func (r *Reader) bad(format string, args ...any) error {
	return &badLine{r.name, r.number, fmt.Errorf(format, args...)}
}

// parse reads lines until one is not blank.
func (r *Reader) parse() (Line, error) {
	for {
		text, err := r.read()
		if err != nil {
			return Line{}, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		line, err := r.parser.parse(text)
		if err != nil {
			return Line{}, r.bad("%w", err)
		}
		if line.Kind == KindProcess {
			r.process = line.Process
		}
		if line.Time.After(r.now) {
			r.now = line.Time
		}
		line.Process, line.Time = r.process, r.now
		return line, nil
	}
}

// read returns one line without its newline. A line that the file ends in the
// middle of is torn: it is counted and not returned.
func (r *Reader) read() ([]byte, error) {
	r.number++
	text, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		text, err = r.long(text)
	}
	switch {
	case errors.Is(err, io.EOF):
		if len(text) > 0 {
			r.torn++
		}
		return nil, io.EOF
	case err != nil && r.number == 1:
		return nil, fmt.Errorf("reading %s: %w", r.name, err)
	case err != nil:
		return nil, fmt.Errorf("reading %s after line %d: %w", r.name, r.number-1, err)
	}
	return text[:len(text)-1], nil
}

// long reads on where a line is longer than the buffer.
func (r *Reader) long(begin []byte) ([]byte, error) {
	text := bytes.Clone(begin)
	for {
		more, err := r.in.ReadSlice('\n')
		text = append(text, more...)
		if len(text) > maxLine {
			return nil, r.bad("longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}
