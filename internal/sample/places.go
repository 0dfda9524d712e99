package sample

import "math/rand/v2"

// places draws at most n ascending offsets from [from, to), one at random from
// each of n equal parts.
func places(rng *rand.Rand, from, to int64, n int) []int64 {
	span := to - from
	if span <= 0 || n <= 0 {
		return nil
	}
	n = int(min(int64(n), span))
	out := make([]int64, n)
	for i := range out {
		// Split like this, span × n need not fit an int64 for large offsets.
		lo := from + span/int64(n)*int64(i) + span%int64(n)*int64(i)/int64(n)
		hi := from + span/int64(n)*int64(i+1) + span%int64(n)*int64(i+1)/int64(n)
		out[i] = lo + rng.Int64N(hi-lo)
	}
	return out
}
