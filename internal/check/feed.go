package check

import (
	"container/heap"
	"errors"
	"io"
)

// FeedProduced tells the checker what a load generator's log acknowledges.
func FeedProduced(c *Checker, log *Reader) error {
	for {
		line, err := log.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if line.Kind != KindProduced {
			return log.bad("is a worker's line, not a load generator's")
		}
		c.ProducedAt(line.Handling)
	}
}

// Feed tells the checker what workers' logs say, each in its own order and
// merged by their lines' times; of equal times the log given first goes first.
func Feed(c *Checker, logs ...*Reader) error {
	var merged merge
	for i, log := range logs {
		if err := merged.read(&source{log: log, index: i}); err != nil {
			return err
		}
	}
	for len(merged) > 0 {
		first := merged[0]
		if err := first.feed(c); err != nil {
			return err
		}
		switch err := first.advance(); {
		case errors.Is(err, io.EOF):
			heap.Pop(&merged)
		case err != nil:
			return err
		default:
			heap.Fix(&merged, 0)
		}
	}
	return nil
}

// source is one log and its next line.
type source struct {
	log   *Reader
	index int
	line  Line
}

func (s *source) advance() (err error) {
	s.line, err = s.log.Next()
	return err
}

func (s *source) feed(c *Checker) error {
	line := &s.line
	switch line.Kind {
	case KindHandled:
		c.Handled(line.Handling)
	case KindCommit:
		for _, commit := range line.Commits {
			c.Committed(line.Process, commit)
		}
	case KindAssigned:
		c.Assigned(line.Process, Assignment{Partition: line.Partition, Number: line.Assignment, Named: line.Named})
	case KindProduced:
		return s.log.bad(`has no "attempt": is it a load generator's line?`)
	}
	return nil
}

// merge is a heap of logs by the time of their next lines.
type merge []*source

func (m *merge) read(s *source) error {
	err := s.advance()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		heap.Push(m, s)
	}
	return err
}

func (m merge) Len() int { return len(m) }

func (m merge) Less(i, j int) bool {
	if order := m[i].line.Time.Compare(m[j].line.Time); order != 0 {
		return order < 0
	}
	return m[i].index < m[j].index
}

func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }

func (m *merge) Push(x any) { *m = append(*m, x.(*source)) }

func (m *merge) Pop() any {
	old := *m
	last := old[len(old)-1]
	*m = old[:len(old)-1]
	return last
}
