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
	bytes   []byte       // not used yet
}

// next is where the next copy will be. It is the same until fill.
func (c *copier) next() *kgo.Record {
	if len(c.records) == 0 {
		c.records = make([]kgo.Record, copyRecords)
	}
	return &c.records[0]
}

// fill copies r to what next returned.
func (c *copier) fill(r *kgo.Record) {
	copyInto(c.next(), r, c.room(payload(r)))
	c.records = c.records[1:]
}

// room is memory for n bytes.
func (c *copier) room(n int) []byte {
	if n >= copyAlone {
		return make([]byte, 0, n)
	}
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
