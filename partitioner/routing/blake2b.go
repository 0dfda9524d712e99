package routing

import (
	"encoding/binary"
	"math/bits"
)

// blake2b64 is BLAKE2b (RFC 7693) without a key and with a digest of 8 bytes,
// read big-endian. x/crypto offers digests of that size only behind an
// interface, which allocates for each call and makes every tenant escape to
// the heap; its results are what the tests compare with.
func blake2b64(b []byte) uint64 {
	iv := blake2bIV()
	h := iv
	h[0] ^= 0x01010000 ^ 8 // fan-out 1, depth 1, no key, digest length 8

	var block [128]byte
	var done uint64
	for len(b) > len(block) {
		copy(block[:], b)
		b = b[len(block):]
		done += uint64(len(block))
		blake2bCompress(&h, &iv, &block, done, false)
	}
	clear(block[copy(block[:], b):])
	blake2bCompress(&h, &iv, &block, done+uint64(len(b)), true)
	return bits.ReverseBytes64(h[0]) // the digest is little-endian words
}

func blake2bIV() [8]uint64 {
	return [8]uint64{
		0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
		0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
	}
}

// blake2bSigma is the message schedule, 16 bytes for each of ten rounds; rounds
// 10 and 11 begin again.
const blake2bSigma = "" +
	"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f" +
	"\x0e\x0a\x04\x08\x09\x0f\x0d\x06\x01\x0c\x00\x02\x0b\x07\x05\x03" +
	"\x0b\x08\x0c\x00\x05\x02\x0f\x0d\x0a\x0e\x03\x06\x07\x01\x09\x04" +
	"\x07\x09\x03\x01\x0d\x0c\x0b\x0e\x02\x06\x05\x0a\x04\x00\x0f\x08" +
	"\x09\x00\x05\x07\x02\x04\x0a\x0f\x0e\x01\x0b\x0c\x06\x08\x03\x0d" +
	"\x02\x0c\x06\x0a\x00\x0b\x08\x03\x04\x0d\x07\x05\x0f\x0e\x01\x09" +
	"\x0c\x05\x01\x0f\x0e\x0d\x04\x0a\x00\x07\x06\x03\x09\x02\x08\x0b" +
	"\x0d\x0b\x07\x0e\x0c\x01\x03\x09\x05\x00\x0f\x04\x08\x06\x02\x0a" +
	"\x06\x0f\x0e\x09\x0b\x03\x00\x08\x0c\x02\x0d\x07\x01\x04\x0a\x05" +
	"\x0a\x02\x08\x04\x07\x06\x01\x05\x0f\x0b\x09\x0e\x03\x0c\x0d\x00"

func blake2bCompress(h, iv *[8]uint64, block *[128]byte, done uint64, last bool) {
	var m [16]uint64
	for i := range m {
		m[i] = binary.LittleEndian.Uint64(block[8*i:])
	}
	// Sixteen variables, not an array: the compiler keeps them in registers.
	v0, v1, v2, v3, v4, v5, v6, v7 := h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
	v8, v9, va, vb, vc, vd, ve, vf := iv[0], iv[1], iv[2], iv[3], iv[4]^done, iv[5], iv[6], iv[7]
	if last {
		ve = ^ve
	}
	for round := range 12 {
		s := blake2bSigma[round%10*16:][:16]
		v0, v4, v8, vc = blake2bMix(v0, v4, v8, vc, m[s[0]&15], m[s[1]&15])
		v1, v5, v9, vd = blake2bMix(v1, v5, v9, vd, m[s[2]&15], m[s[3]&15])
		v2, v6, va, ve = blake2bMix(v2, v6, va, ve, m[s[4]&15], m[s[5]&15])
		v3, v7, vb, vf = blake2bMix(v3, v7, vb, vf, m[s[6]&15], m[s[7]&15])
		v0, v5, va, vf = blake2bMix(v0, v5, va, vf, m[s[8]&15], m[s[9]&15])
		v1, v6, vb, vc = blake2bMix(v1, v6, vb, vc, m[s[10]&15], m[s[11]&15])
		v2, v7, v8, vd = blake2bMix(v2, v7, v8, vd, m[s[12]&15], m[s[13]&15])
		v3, v4, v9, ve = blake2bMix(v3, v4, v9, ve, m[s[14]&15], m[s[15]&15])
	}
	for i, v := range [8]uint64{v0 ^ v8, v1 ^ v9, v2 ^ va, v3 ^ vb, v4 ^ vc, v5 ^ vd, v6 ^ ve, v7 ^ vf} {
		h[i] ^= v
	}
}

func blake2bMix(a, b, c, d, x, y uint64) (uint64, uint64, uint64, uint64) {
	a += b + x
	d = bits.RotateLeft64(d^a, -32)
	c += d
	b = bits.RotateLeft64(b^c, -24)
	a += b + y
	d = bits.RotateLeft64(d^a, -16)
	c += d
	return a, bits.RotateLeft64(b^c, -63), c, d
}
