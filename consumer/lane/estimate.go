package lane

import "math/bits"

// averages remembers tenants' mean handler times after their entries are gone:
// a four-way set-associative cache of fixed size without pointers, in which
// the least recently used of a set gives way. A tenant is known by its 64-bit
// hash alone; two that share one share an estimate, which is all it is.
type averages struct {
	sets [][4]average
	mask uint64
}

type average struct {
	hash uint32  // the upper half; the set is found by the lower
	mean float32 // seconds per cost unit; 0: empty
}

func newAverages(n int) averages {
	sets := 1
	if n > 4 {
		sets = 1 << bits.Len(uint(n/4-1))
	}
	return averages{sets: make([][4]average, sets), mask: uint64(sets - 1)}
}

// get returns the mean kept for hash, or 0.
func (a *averages) get(hash uint64) float64 {
	set := &a.sets[hash&a.mask]
	for i := range set {
		if set[i].hash == uint32(hash>>32) && set[i].mean > 0 {
			return float64(set[i].mean)
		}
	}
	return 0
}

// put keeps mean for hash as the most recently used of its set.
func (a *averages) put(hash uint64, mean float64) {
	set := &a.sets[hash&a.mask]
	last := len(set) - 1
	for i := range set {
		if set[i].hash == uint32(hash>>32) {
			last = i
			break
		}
	}
	copy(set[1:last+1], set[:last])
	set[0] = average{hash: uint32(hash >> 32), mean: float32(mean)}
}

// histogram estimates the 90th percentile of a tier's recent handler times, in
// buckets of a quarter octave from 16 ns: what is expected of a tenant that
// nothing is known of.
type histogram struct {
	buckets [histogramBuckets]float64
	total   float64
	fresh   int     // samples since p90 was computed
	p90     float64 // seconds; 0: no sample yet
}

const (
	histogramBuckets = 160
	histogramMemory  = 4096 // the weight of samples after which all are halved
	histogramRefresh = 64
)

// add notes n records that took seconds each.
func (h *histogram) add(seconds, n float64) {
	h.buckets[bucketOf(seconds)] += n
	h.total += n
	h.fresh++
	if h.total > histogramMemory {
		for i := range h.buckets {
			h.buckets[i] /= 2
		}
		h.total /= 2
	}
	if h.fresh >= histogramRefresh || h.p90 == 0 {
		h.fresh = 0
		h.p90 = h.quantile(0.9)
	}
}

func (h *histogram) quantile(q float64) float64 {
	left := h.total * (1 - q)
	for i := histogramBuckets - 1; i >= 0; i-- {
		left -= h.buckets[i]
		if left < 0 {
			return bucketTop(i)
		}
	}
	return bucketTop(0)
}

// bucketOf finds a duration's bucket from the exponent and the two highest
// bits of the mantissa of its count of nanoseconds.
func bucketOf(seconds float64) int {
	ns := uint64(min(max(seconds, 16e-9), 1e6) * 1e9)
	exp := bits.Len64(ns) - 1
	return min((exp-4)*4+int(ns>>(exp-2)&3), histogramBuckets-1)
}

// bucketTop is the upper edge of a bucket, in seconds.
func bucketTop(i int) float64 {
	return float64(uint64(5+i%4)<<(i/4+2)) * 1e-9
}
