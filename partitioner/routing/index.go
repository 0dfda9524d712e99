package routing

import "math/bits"

// entry is what a table holds of one tenant. Entries never change, so that one
// is shared by every table that came from another by an edit elsewhere.
type entry struct {
	tenant string
	sum    uint64 // the topic's hash of the tenant
	place  Placement
}

// index finds a tenant's entry by the hash that a lookup has computed anyway.
//
// The filter is a Bloom filter of one word for each probe with two bits set
// for each entry, sized so that fewer than one in fifty tenants without an
// entry pass it; it stays in the first cache level up to some 10,000 entries.
// The cells are an open-addressed table at most half full. A cell holds the
// upper half of the mixed hash and the entry's position plus one.
type index struct {
	filter      []uint64
	cells       []uint64
	filterShift uint8
	cellShift   uint8
	entries     []*entry // sorted by tenant
}

// filterBits is how many bits of filter each entry gets at least.
const filterBits = 16

func newIndex(entries []*entry) index {
	x := index{entries: entries, filterShift: 64, cellShift: 64}
	words := max(1, nextPowerOfTwo(len(entries)*filterBits/64))
	x.filter = make([]uint64, words)
	x.filterShift -= uint8(bits.Len(uint(words)) - 1)
	cells := nextPowerOfTwo(2 * len(entries))
	x.cells = make([]uint64, cells)
	x.cellShift -= uint8(bits.Len(uint(cells)) - 1)
	for i, e := range entries {
		m := mix(e.sum)
		x.filter[m>>x.filterShift] |= filterPattern(m)
		c := m >> x.cellShift
		for x.cells[c] != 0 {
			c = (c + 1) & uint64(cells-1)
		}
		x.cells[c] = m&^uint64(1<<32-1) | uint64(i+1)
	}
	return x
}

func nextPowerOfTwo(n int) int {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}

// mix spreads a sum over 64 bits; three of the hashes give 32 or fewer.
func mix(sum uint64) uint64 { return sum * 0x9e3779b97f4a7c15 }

func filterPattern(m uint64) uint64 { return 1<<(m>>20&63) | 1<<(m>>26&63) }

// mayHold is false only for tenants without an entry.
func (x *index) mayHold(sum uint64) bool {
	m := mix(sum)
	want := filterPattern(m)
	return x.filter[m>>x.filterShift]&want == want
}

// find gives a tenant's entry, or nil.
func (x *index) find(sum uint64, tenant []byte) *entry {
	m := mix(sum)
	mask := uint64(len(x.cells) - 1)
	for c := m >> x.cellShift & mask; x.cells[c] != 0; c = (c + 1) & mask {
		if cell := x.cells[c]; cell>>32 == m>>32 {
			if e := x.entries[uint32(cell)-1]; e.tenant == string(tenant) {
				return e
			}
		}
	}
	return nil
}
