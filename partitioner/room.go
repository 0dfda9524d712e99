package partitioner

import "sync/atomic"

// limit bounds what is in flight at one place.
type limit struct {
	records int64
	bytes   int64
}

// room is what one tenant or one partition has in flight. Its owner's mutex
// guards the numbers.
//
// An empty room takes any record, however large: a full one therefore holds at
// least one, and its leaving wakes the line.
type room struct {
	line
	used limit
}

func newRoom(full error) *room { return &room{line: line{full: full}} }

func (r *room) fits(size int64, most limit) bool {
	return r.used.records == 0 || r.used.records < most.records && r.used.bytes+size <= most.bytes
}

func (r *room) take(size int64) {
	r.used.records++
	r.used.bytes += size
}

func (r *room) give(size int64) {
	r.used.records--
	r.used.bytes -= size
	r.wake()
}

// budget bounds what all tenants together have in flight, so that kgo's own
// bound, at which it would block every caller, is never reached. Every record
// passes it, so it has no lock.
//
// It also says how much of what is left one tenant or partition may take: a
// share of the free part, as switches share a packet buffer among their ports
// (Choudhury and Hahne, "Dynamic queue length thresholds in a shared memory
// packet switch", 1996). However many are stuck, some of the buffer stays free
// for the others.
type budget struct {
	line
	max     limit
	records atomic.Int64
	bytes   atomic.Int64
}

func (b *budget) take(size int64) bool {
	records, bytes := b.records.Add(1), b.bytes.Add(size)
	if records > b.max.records || bytes > b.max.bytes && records > 1 {
		b.give(size)
		return false
	}
	return true
}

// force is take whatever is free.
func (b *budget) force(size int64) {
	b.records.Add(1)
	b.bytes.Add(size)
}

func (b *budget) give(size int64) {
	b.records.Add(-1)
	b.bytes.Add(-size)
	b.wake()
}

// share is most, or a part of what is free if that is less.
func (b *budget) share(most limit, part int64) limit {
	return limit{
		records: min(most.records, (b.max.records-b.records.Load())/part),
		bytes:   min(most.bytes, (b.max.bytes-b.bytes.Load())/part),
	}
}
