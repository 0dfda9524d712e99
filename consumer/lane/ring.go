package lane

import "math/bits"

const (
	// keepRing is the longest ring, in records, that a freed lane takes along.
	keepRing = 16
	// keepRings is how many records the rings that wait to be used again have
	// room for, all together.
	keepRings = 1 << 16
	// ringSizes are the powers of two that a ring may be long and be kept.
	ringSizes = 17
)

// rings keeps the rings of lanes that were freed or grew, for others to grow
// into: a busy tenant's lane is made and freed with each fetch, and making its
// ring anew each time cost a sixth of what a worker with cheap handlers does.
type rings[R any] struct {
	free [ringSizes][][]Item[R] // by the logarithm of their length
	room int                    // records in all of them
}

// grown is how long a ring of n records is next: short ones grow fast, since
// what fills them comes in one fetch.
func grown(n int) int {
	if n < 1024 {
		return max(4*n, 4)
	}
	return 2 * n
}

// get returns an empty ring for n records, a power of two.
func (r *rings[R]) get(n int) []Item[R] {
	if class := bits.Len(uint(n)) - 1; class < ringSizes {
		if last := len(r.free[class]) - 1; last >= 0 {
			ring := r.free[class][last]
			r.free[class][last] = nil
			r.free[class] = r.free[class][:last]
			r.room -= n
			return ring
		}
	}
	return make([]Item[R], n)
}

// put takes a ring back that is all zero, unless enough are kept.
func (r *rings[R]) put(ring []Item[R]) {
	class := bits.Len(uint(len(ring))) - 1
	if class < 0 || class >= ringSizes || r.room+len(ring) > keepRings {
		return
	}
	r.free[class] = append(r.free[class], ring)
	r.room += len(ring)
}
