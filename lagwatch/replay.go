package lagwatch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// recorded is a line of a recording.
type recorded struct {
	Snapshot *Snapshot            `json:"snapshot"`
	Named    map[string]savedName `json:"named,omitempty"`
}

// recordLine bounds a line of a recording, 1 GiB.
const recordLine = 1 << 30

// Replay runs the rule over a recording made by Config.Record and calls visit
// with each evaluation, in order: the same that were made live under the same
// rule. Of cfg only the rule, the table and the names of alerts matter. It
// ends at the first error of visit, or at a line that cannot be read, which
// the error numbers; a last line that is cut off, as by a crash, is left out.
func Replay(recording io.Reader, cfg Config, visit func(*Evaluation) error) error {
	cfg = cfg.withDefaults()
	if err := cfg.Rule.Validate(); err != nil {
		return fmt.Errorf("lagwatch: config: Rule: %w", err)
	}
	e := newEngine(&cfg)
	lines := bufio.NewReaderSize(recording, 1<<20)
	for n := 1; ; n++ {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("recording, line %d: %w", n, err)
		}
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("recording, line %d: %w", n, err)
		}
		if r.Snapshot == nil {
			return fmt.Errorf("recording, line %d: not a sample", n)
		}
		e.observe(r.Snapshot)
		e.useNames(r.Named)
		if err := visit(e.evaluate(r.Snapshot)); err != nil {
			return err
		}
	}
}

// readLine reads up to a newline; what comes after the last one is io.EOF.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > recordLine:
			return nil, errors.New("longer than 1 GiB")
		}
	}
}
