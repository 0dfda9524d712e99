package consumer

import (
	"runtime"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stage holds what the last poll brought until there is room for it. The client
// asks a broker for more only once all of its last response was polled, so a
// poll that took no more than there is room for would keep it idle, and what it
// has fetched is in memory either way.
//
// Each part belongs to the assignment that it was polled under: once that has
// ended, the part is dropped.
type stage struct {
	parts []staged // from next on not admitted yet
	next  int
}

// staged is a fetched partition, or what of it is not admitted yet.
type staged struct {
	topic string
	of    *partition // nil: it was not open
	fetch kgo.FetchPartition
}

func (s *stage) empty() bool { return s.next == len(s.parts) }

// fill takes a fetched partition over.
func (s *stage) fill(topic string, of *partition, fetch *kgo.FetchPartition) {
	s.parts = append(s.parts, staged{topic, of, *fetch})
}

// front is the part that comes next.
func (s *stage) front() *staged { return &s.parts[s.next] }

// pop forgets what is left of the front, and all memory with the last one.
func (s *stage) pop() {
	s.parts[s.next] = staged{}
	if s.next++; s.empty() {
		s.parts, s.next = s.parts[:0], 0
	}
}

// cut takes up to n records off the front. The part without records that a
// partition at its end brings is taken whole.
func (s *staged) cut(n int) (fetch kgo.FetchPartition, last bool) {
	fetch = s.fetch
	n = min(n, len(fetch.Records))
	fetch.Records, s.fetch.Records = fetch.Records[:n], fetch.Records[n:]
	return fetch, len(s.fetch.Records) == 0
}

// admitAtOnce is how many records are admitted before the bounds are looked at
// again.
const admitAtOnce = 4096

// admitStaged admits what is staged until there is no room, and says how many
// records that was.
func (e *engine) admitStaged(a *admission) (records int) {
	for !a.stage.empty() {
		free := e.free()
		if free == 0 {
			break
		}
		part := a.stage.front()
		fetch, last := part.cut(min(free, admitAtOnce))
		records += len(fetch.Records)
		e.admit(a, part.topic, part.of, &fetch)
		if last {
			a.stage.pop()
		}
		runtime.Gosched() // a worker that was woken waits for this goroutine's processor
	}
	return records
}
