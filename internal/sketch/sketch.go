package sketch

import (
	"cmp"
	"slices"
)

// Entry is one kept key with its bounds: Count − Err ≤ true weight ≤ Count.
type Entry struct {
	// Key is the key's bytes; it need not be text.
	Key string
	// Count is the estimate of the key's weight, never below the truth.
	Count uint64
	// Err is the most that Count can be above the truth.
	Err uint64
}

// counter is an entry and its place in the heap.
type counter struct {
	Entry
	at int
}

// Sketch is a weighted Space-Saving summary with at most k counters. The zero
// value is not usable; call New.
type Sketch struct {
	k     int
	total uint64
	byKey map[string]*counter
	heap  []*counter // smallest Count first
}

// New returns an empty sketch with k counters; k below 1 is taken as 1. Keys
// above 1/k of the total weight are never missed.
func New(k int) *Sketch {
	k = max(k, 1)
	return &Sketch{k: k, byKey: make(map[string]*counter)}
}

// Add counts weight n for key. The key's bytes are copied only when the key is
// not known yet. A weight of 0 changes nothing.
func (s *Sketch) Add(key []byte, n uint64) {
	if n == 0 {
		return
	}
	s.total += n
	if c, ok := s.byKey[string(key)]; ok {
		c.Count += n
		s.down(c.at)
		return
	}
	if len(s.heap) < s.k {
		s.insert(Entry{Key: string(key), Count: n})
		return
	}
	s.replaceMin(string(key), n)
}

// Top returns the n entries with the largest counts, largest first, equal
// counts by key. All entries when n is negative or above their number.
func (s *Sketch) Top(n int) []Entry {
	out := make([]Entry, len(s.heap))
	for i, c := range s.heap {
		out[i] = c.Entry
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})
	if n < 0 || n > len(out) {
		return out
	}
	return out[:n]
}

// Total is the weight added so far, N.
func (s *Sketch) Total() uint64 { return s.total }

// Len is the number of keys kept, at most k.
func (s *Sketch) Len() int { return len(s.heap) }

// Reset forgets everything and keeps the memory.
func (s *Sketch) Reset() {
	s.total = 0
	clear(s.byKey)
	clear(s.heap)
	s.heap = s.heap[:0]
}

// Merge adds what other has seen, as in "Mergeable Summaries" (Agarwal et al.,
// 2012): a key that only one side kept may have weighed up to the other side's
// smallest counter there, so that counter goes into its estimate and error.
// The k largest estimates stay. Other is not changed.
func (s *Sketch) Merge(other *Sketch) {
	mine, theirs := s.floor(), other.floor()
	merged := make([]Entry, 0, len(s.heap)+len(other.heap))
	for _, c := range s.heap {
		e := c.Entry
		if o, ok := other.byKey[e.Key]; ok {
			e.Count, e.Err = e.Count+o.Count, e.Err+o.Err
		} else {
			e.Count, e.Err = e.Count+theirs, e.Err+theirs
		}
		merged = append(merged, e)
	}
	for _, c := range other.heap {
		if _, ok := s.byKey[c.Key]; !ok {
			merged = append(merged, Entry{Key: c.Key, Count: c.Count + mine, Err: c.Err + mine})
		}
	}
	slices.SortFunc(merged, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})
	total := s.total + other.total
	s.Reset()
	s.total = total
	for _, e := range merged[:min(s.k, len(merged))] {
		s.insert(e)
	}
}

// floor bounds the weight of a key that is not kept.
func (s *Sketch) floor() uint64 {
	if len(s.heap) < s.k {
		return 0
	}
	return s.heap[0].Count
}

func (s *Sketch) insert(e Entry) {
	c := &counter{Entry: e, at: len(s.heap)}
	s.byKey[e.Key] = c
	s.heap = append(s.heap, c)
	s.up(c.at)
}

func (s *Sketch) replaceMin(key string, n uint64) {
	c := s.heap[0]
	delete(s.byKey, c.Key)
	c.Entry = Entry{Key: key, Count: c.Count + n, Err: c.Count}
	s.byKey[key] = c
	s.down(0)
}

func (s *Sketch) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if s.heap[parent].Count <= s.heap[i].Count {
			return
		}
		s.swap(parent, i)
		i = parent
	}
}

func (s *Sketch) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(s.heap) {
			return
		}
		if right := least + 1; right < len(s.heap) && s.heap[right].Count < s.heap[least].Count {
			least = right
		}
		if s.heap[i].Count <= s.heap[least].Count {
			return
		}
		s.swap(i, least)
		i = least
	}
}

func (s *Sketch) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].at, s.heap[j].at = i, j
}
