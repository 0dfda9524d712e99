package lane

import (
	"encoding/binary"
	"math/bits"
)

// recentBits is the logarithm of how many lanes a partition finds again fast.
const recentBits = 8

// recent remembers lanes that a partition met lately, each in the one place
// that its key may have. A busy tenant's is found there without the seeded hash
// and the probe of table. Keys that crowd into one place only make that the way
// again, so the place need not be hard to guess.
type recent[R any] [1 << recentBits]*lane[R]

// place is where the lane of a key may be: it follows from the key's ends and
// its length.
func (r *recent[R]) place(key []byte) **lane[R] {
	const odd = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	n := len(key)
	mix := uint64(n)
	switch {
	case n >= 8:
		mix ^= binary.LittleEndian.Uint64(key) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(key[n-8:])*odd, 32)
	case n >= 4:
		mix ^= uint64(binary.LittleEndian.Uint32(key)) | uint64(binary.LittleEndian.Uint32(key[n-4:]))<<32
	case n > 0:
		mix ^= uint64(key[0])<<8 | uint64(key[n/2])<<16 | uint64(key[n-1])<<24
	}
	return &r[mix*odd>>(64-recentBits)]
}
