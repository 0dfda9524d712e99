package offset_test

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

// FuzzBody fuzzes what is behind the checksum: the bytes between the version
// and the checksum are free, the rest is made to fit.
func FuzzBody(f *testing.F) {
	for _, c := range goldens() {
		text, _ := encode(c, 4096)
		b, err := base64.RawStdEncoding.DecodeString(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[3 : len(b)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append([]byte("TL\x01"), body...)
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
		text := base64.RawStdEncoding.EncodeToString(b)
		c, why := offset.Decode(text)
		switch why {
		case offset.Valid:
			if again, st := encode(c, 1<<20); again != text || !sameState(st, c.State) {
				t.Fatalf("%x is read as %+v, which is written as %q, not %q", body, c, again, text)
			}
		case offset.Corrupt:
		default:
			t.Fatalf("%x is read as %v", body, why)
		}
	})
}
