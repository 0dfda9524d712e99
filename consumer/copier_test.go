package consumer

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestCopiesInOneAllocationAreApart(t *testing.T) {
	var c copier
	var copies []*kgo.Record
	for i := range 3 * copyRecords {
		r := &kgo.Record{
			Key: bytes.Repeat([]byte{byte(i)}, 1+i%5), Value: bytes.Repeat([]byte{byte(i)}, i*37),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}},
		}
		at := c.next(payload(r))
		if at != c.next(payload(r)) {
			t.Fatal("next is another place although nothing was filled")
		}
		c.fill(r)
		copies = append(copies, at)
		at.Key = append(at.Key, 0xff)[:len(r.Key)] // as a handler may
	}
	for i, r := range copies {
		for _, field := range [][]byte{r.Key, r.Value, r.Headers[0].Value} {
			if n := bytes.Count(field, []byte{byte(i)}); n != len(field) {
				t.Errorf("copy %d has %d bytes of another", i, len(field)-n)
			}
		}
		if len(r.Key) != 1+i%5 || len(r.Value) != i*37 {
			t.Errorf("copy %d has %d and %d bytes", i, len(r.Key), len(r.Value))
		}
	}
}

// A worker that holds few records of each allocation, as where one lane of many
// stands still, holds no multiple of what it counts.
func TestACopyThatStaysKeepsLittleElse(t *testing.T) {
	for _, size := range []int{10, 100, 500, copyAlone - 1, copyAlone, 60_000} {
		n := max(4<<20/size, 64) / copyRecords * copyRecords
		before := heapInUse()
		var c copier
		var kept []*kgo.Record
		value := make([]byte, size)
		for i := range n {
			at := c.next(size)
			c.fill(&kgo.Record{Value: value})
			if i%copyRecords == 0 {
				kept = append(kept, at)
			}
		}
		each := (heapInUse() - before) / int64(len(kept))
		// Beside the copy: 15 more structs, and the bytes that the allocations share.
		if most := int64(copyRecords*recordOverhead + 2*copyBytes + 2*size); each > most {
			t.Errorf("of %d bytes: %d bytes for each copy that stays, want at most %d", size, each, most)
		}
		runtime.KeepAlive(kept)
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
