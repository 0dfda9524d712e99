package partitioner

import (
	"sync"
	"sync/atomic"
)

// dest is a topic that records are produced to.
type dest struct {
	name  string
	count atomic.Int32 // partitions that kgo last knew, 0 before it knew any
	// parts by index plus one: at 0 are the records whose partition kgo or the
	// fallback decides. Entries never change, so the slice is read without a
	// lock and replaced when it grows.
	parts atomic.Pointer[[]*partition]

	mu sync.Mutex
	// guards replacing parts, and search
	search *search // for a partition that kgo does not know yet
}

// partition is what is known of one partition of a dest.
type partition struct {
	dest  *dest
	index int32 // -1: kgo or the fallback decides

	mu sync.Mutex
	// guards used of room and all below
	room    *room
	total   limit // records and bytes acknowledged
	refused [reasons]uint64
	doubt   uint64 // 0, or by which number the latest record failed that may still be written
	failed  uint64 // numbers those
}

func newDest(topic string) *dest {
	d := &dest{name: topic}
	d.parts.Store(&[]*partition{})
	return d
}

// saw notes how many partitions kgo knows.
func (d *dest) saw(partitions int32) {
	if d.count.Load() != partitions {
		d.count.Store(partitions)
	}
}

// part gives the state of a partition, or of index -1.
func (d *dest) part(index int32) *partition {
	if parts := *d.parts.Load(); int(index)+1 < len(parts) {
		return parts[index+1]
	}
	return d.grow(index)
}

func (d *dest) grow(index int32) *partition {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts := append([]*partition(nil), *d.parts.Load()...)
	for i := len(parts); i <= int(index)+1; i++ {
		parts = append(parts, &partition{dest: d, index: int32(i - 1), room: newRoom(ErrPartitionUnavailable)})
	}
	d.parts.Store(&parts)
	return parts[index+1]
}

// take makes room for a record, or tells that there is none.
func (p *partition) take(size int64, most limit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.room.fits(size, most) {
		return false
	}
	p.room.take(size)
	return true
}

// done counts a record that left, and how it ended.
func (p *partition) done(size int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room.give(size)
	if err != nil {
		p.refused[reasonOf(err)]++
		if maybeWritten(err) {
			p.failed++
			p.doubt = p.failed
		}
		return
	}
	p.doubt = 0
	p.count(size)
}

// count counts a record that is acknowledged; mu is held.
func (p *partition) count(size int64) {
	p.total.records++
	p.total.bytes += size
}

// written notes a record that was written and whose outcome is undecided.
func (p *partition) written(size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room.give(size)
	p.doubt = 0
}

// acknowledged counts a record that was undecided.
func (p *partition) acknowledged(size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(size)
}

// refuse counts a record that never left.
func (p *partition) refuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[reasonOf(err)]++
}

// doubts numbers the latest record that failed and may still be written; 0 is
// none.
func (p *partition) doubts() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doubt
}

// confirmed notes that whatever failed up to a number is written by now or never
// will be.
func (p *partition) confirmed(doubt uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doubt <= doubt {
		p.doubt = 0
	}
}

// numbers gives what the metrics show.
func (p *partition) numbers() (total, used limit, refused [reasons]uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total, p.room.used, p.refused
}
