package consumer

import (
	"bytes"
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
		at := c.next()
		if at != c.next() {
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
