package consumer

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// copyRecords is how many copies share one allocation, and copyBytes how
	// many bytes of their fields: one copy that stays keeps so much of others
	// that are done.
	copyRecords = 16
	copyBytes   = 4 << 10
	// copyAlone is the size from which on a copy has its own memory.
	copyAlone = copyBytes / 4
)

// copier copies records out of their fetches, several into one allocation: the
// engine's lock is held meanwhile. The zero copier is ready.
type copier struct {
	records []kgo.Record // not used yet
	fields  int          // bytes that they may still have
	alone   *kgo.Record  // not used yet, for a large one
	taken   bool         // the next copy is alone
	bytes   []byte       // not used yet
}

// next is where the copy of a record with so many bytes of fields will be. It is
// the same until fill, for records of that size. A copy keeps what its neighbors
// in the allocation refer to, so they are few if they are large.
func (c *copier) next(fields int) *kgo.Record {
	if c.taken = fields >= copyAlone; c.taken {
		if c.alone == nil {
			c.alone = new(kgo.Record)
		}
		return c.alone
	}
	if len(c.records) == 0 || fields > c.fields {
		c.records = make([]kgo.Record, min(copyBytes/max(fields, 1), copyRecords))
		c.fields = copyBytes
	}
	return &c.records[0]
}

// fill copies r to what next returned last.
func (c *copier) fill(r *kgo.Record) {
	n := payload(r)
	if c.taken {
		copyInto(c.alone, r, make([]byte, 0, n))
		c.alone = nil
		return
	}
	copyInto(&c.records[0], r, c.room(n))
	c.records = c.records[1:]
	c.fields -= n
}

// room is memory for n bytes, fewer than copyAlone.
func (c *copier) room(n int) []byte {
	if n > len(c.bytes) {
		c.bytes = make([]byte, copyBytes)
	}
	room := c.bytes[:0:n]
	c.bytes = c.bytes[n:]
	return room
}

// copyRecord copies r out of its fetch. A record that is kept pins the whole
// response it came in, and the slab of its batch's records, so what has to
// wait is copied: one allocation for the bytes, one for the record, one for
// headers if there are any.
func copyRecord(r *kgo.Record) *kgo.Record {
	c := new(kgo.Record)
	copyInto(c, r, make([]byte, 0, payload(r)))
	return c
}

// copyInto is copyRecord into memory that was made before.
func copyInto(c, r *kgo.Record, buf []byte) {
	*c = *r
	c.Headers = slices.Clone(r.Headers)
	buf, c.Key = appendField(buf, r.Key)
	buf, c.Value = appendField(buf, r.Value)
	for i := range c.Headers {
		buf, c.Headers[i].Value = appendField(buf, r.Headers[i].Value)
	}
}

// payload is the size of the byte fields that copyRecord copies.
func payload(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Value)
	}
	return n
}

// appendField appends b to buf and returns the part of buf that holds it. A
// nil b stays nil: a null value is a tombstone, not an empty value.
func appendField(buf, b []byte) (grown, field []byte) {
	if b == nil {
		return buf, nil
	}
	at := len(buf)
	buf = append(buf, b...)
	return buf, buf[at:len(buf):len(buf)]
}
