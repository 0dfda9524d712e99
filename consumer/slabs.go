package consumer

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// slabLeast is the fewest records of a batch whose memory is used again:
	// with fewer it would cost more than it saves.
	slabLeast = 16
	// slabMost is the most.
	slabMost = 1 << 20
	// slabClasses are the sizes that slabs have.
	slabClasses = 9 * 20
	// slabMemory is how long a slab of the client's is remembered that does
	// not come to be admitted, as one of a fetch that was dropped.
	slabMemory = 10 * time.Second
)

// slabs is where the client gets the memory of records from, a batch at a time,
// and where it goes back to once every record of the batch is done: without that
// two thirds of what a worker allocates would be records. It is a kgo.Pool. The
// bytes that records refer to are no part of it, and what nobody gives back is
// left to the collector.
//
//	client ──GetRecords──▶ out ──claim──▶ arrivals ──all done──▶ put ──▶ free
type slabs struct {
	free [slabClasses]sync.Pool

	mu sync.Mutex
	// guards everything below
	out   map[*kgo.Record]*slab // by their first records
	since time.Time             // none of them is older
}

// slab is the memory of one batch's records.
type slab struct {
	records []kgo.Record
	class   int
	done    int // guarded by the engine's lock
}

// part is so many records of a slab that are in an arrival.
type part struct {
	of *slab
	n  int
}

// slabClass is the class of slabs for n records, and how many they have room
// for: at most a quarter more.
func slabClass(n int) (class, room int) {
	shift := bits.Len(uint(n-1)) - 3
	steps := (n-1)>>shift + 1
	return 9*(shift-1) + steps, steps << shift
}

// GetRecords is called by the client for a batch of n records.
func (s *slabs) GetRecords(n int) []kgo.Record {
	if n < slabLeast || n > slabMost {
		return nil
	}
	class, room := slabClass(n)
	b, _ := s.free[class].Get().(*slab)
	if b == nil {
		b = &slab{records: make([]kgo.Record, room), class: class}
	}
	b.records, b.done = b.records[:n], 0
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := time.Now(); {
	case s.out == nil || len(s.out) > 0 && now.Sub(s.since) > slabMemory:
		s.out, s.since = make(map[*kgo.Record]*slab), now
	case len(s.out) == 0:
		s.since = now
	}
	s.out[&b.records[0]] = b
	return b.records
}

// PutRecords is called by the client where a batch has no record that counts,
// and when a handler recycles its records by itself: such memory is not used
// again.
func (s *slabs) PutRecords([]kgo.Record) {}

// forget gives up what the client has of slabs: it may drop its fetches.
func (s *slabs) forget() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = nil
}

func (s *slabs) claim(first *kgo.Record) *slab {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.out[first]
	delete(s.out, first)
	return b
}

// put takes slabs back whose records nobody refers to any more. There are none
// where s is nil.
func (s *slabs) put(done []*slab) {
	if s == nil {
		return
	}
	for _, b := range done {
		for i := range b.records {
			r := &b.records[i]
			r.Key, r.Value, r.Headers, r.Context = nil, nil, nil, nil // they pin their fetch
		}
		s.free[b.class].Put(b)
	}
}

// claims follows records from slab to slab as they are admitted.
type claims struct {
	of    *slab        // of the last record; nil: of none, or all of it was there
	rest  []kgo.Record // of it, that were not there yet
	parts []part       // memory of follow
}

// follow says which parts of slabs records are. It takes the client's note of
// the slab off them, so that a copy does not pin the slab.
func (c *claims) follow(s *slabs, records []*kgo.Record) []part {
	parts, n := c.parts[:0], 0 // n: records of the slab that are among these
	for _, r := range records {
		r.Context = nil //nolint:fatcontext // it is taken away
		if c.of == nil || r != &c.rest[0] {
			if n > 0 {
				parts = append(parts, part{c.of, n})
			}
			if c.of, n = s.claim(r), 0; c.of == nil {
				continue
			}
			c.rest = c.of.records
		}
		n++
		if c.rest = c.rest[1:]; len(c.rest) == 0 { // it may be another batch's soon
			parts = append(parts, part{c.of, n})
			c.of, n = nil, 0
		}
	}
	if n > 0 {
		parts = append(parts, part{c.of, n})
	}
	own := slices.Clone(parts)
	clear(parts)
	c.parts = parts
	return own
}

// giveUpSlabs counts the records of an arrival as done in their slabs: all of
// them are, or were copied. Those of an arrival in which one has failed are never
// done with, since a log or a letter may refer to it.
func (e *engine) giveUpSlabs(in *arrival) {
	if in.kept {
		in.parts = nil
	}
	for _, p := range in.parts {
		if p.of.done += p.n; p.of.done == len(p.of.records) {
			e.spent = append(e.spent, p.of)
		}
	}
	in.parts = nil
}

// takeSpent are the slabs to put back once the lock is released.
func (e *engine) takeSpent() []*slab {
	spent := e.spent
	e.spent = nil
	return spent
}
