package check

import (
	"cmp"
	"slices"
)

// ranges is a set of numbers kept as ascending, non-touching spans, so that a
// gapless sequence takes one span however long it is.
type ranges []span

type span struct{ low, high uint64 } // both included

// add reports whether x is new in the set.
func (r *ranges) add(x uint64) bool {
	s := *r
	if n := len(s); n > 0 && x > 0 && s[n-1].high == x-1 { // the next in sequence
		s[n-1].high = x
		return true
	}
	i := s.at(x)
	if i < len(s) && s[i].low <= x {
		return false
	}
	joinsLeft := i > 0 && x > 0 && s[i-1].high == x-1
	joinsRight := i < len(s) && s[i].low == x+1
	switch {
	case joinsLeft && joinsRight:
		s[i-1].high = s[i].high
		*r = slices.Delete(s, i, i+1)
	case joinsLeft:
		s[i-1].high = x
	case joinsRight:
		s[i].low = x
	default:
		*r = slices.Insert(s, i, span{x, x})
	}
	return true
}

// at is the index of the first span that ends at or after x.
func (r ranges) at(x uint64) int {
	i, _ := slices.BinarySearchFunc(r, x, func(s span, x uint64) int { return cmp.Compare(s.high, x) })
	return i
}

// missing is how many numbers of r are not in other, and the lowest of them.
func (r ranges) missing(other ranges) (n, lowest uint64) {
	note := func(low, high uint64) {
		if n == 0 {
			lowest = low
		}
		n += high - low + 1
	}
	for _, s := range r {
		low, open := s.low, true
		for _, o := range other[other.at(s.low):] {
			if o.low > s.high {
				break
			}
			if o.low > low {
				note(low, o.low-1)
			}
			if o.high >= s.high {
				open = false
				break
			}
			low = o.high + 1
		}
		if open {
			note(low, s.high)
		}
	}
	return n, lowest
}
