package offset

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
)

// The text is documented in docs/commit-metadata.md.
const (
	magic   = "TL"
	version = 1

	maxCluster = 128     // bytes of a cluster id; Kafka's own are 22
	maxNames   = 1 << 16 // names in one text; 4,096 characters hold about 500
)

// DefaultChars is the default limit of a partition's metadata, in characters.
// Lag readers fetch it for every partition.
const DefaultChars = 1024

// BrokerChars is what brokers take of a partition's metadata by default
// (offset.metadata.max.bytes).
const BrokerChars = 4096

// MaxRequestChars is the most metadata that one commit request should carry:
// 256 partitions of 4 KiB were refused as a whole by a broker's default
// request limit.
const MaxRequestChars = 512 << 10

// CharsFor is the limit of each partition when so many are committed in one
// request.
func CharsFor(limit, partitions int) int {
	return min(limit, MaxRequestChars/max(partitions, 1))
}

var (
	encoding = base64.RawStdEncoding.Strict()
	crcTable = crc32.MakeTable(crc32.Castagnoli)
)

// Identity is what must be the same for metadata to mean anything.
type Identity struct {
	Cluster     string   // cluster id, at most 128 bytes
	Topic       [16]byte // topic id
	Fingerprint uint64   // of everything that forms a lane key, with versions; 0: undeclared, name nothing
}

// Checkpoint is what a commit's metadata says.
type Checkpoint struct {
	Identity
	State
	LeaderEpoch int32 // of the record at Frontier−1
}

// Cut says that the log ends below the frontier in the checkpoint's leader
// epoch, so that offsets there may have been used again. end is the broker's
// answer to OffsetForLeaderEpoch(LeaderEpoch).
func (c *Checkpoint) Cut(end int64) bool { return end < c.Frontier }

// Encode writes a checkpoint in at most chars characters. It names as many
// lanes as fit, lowers the frontier to the first that does not, and returns the
// state that the text claims. The text is empty where nothing is to be claimed
// beyond the watermark: no lane is behind or none fits, an undeclared
// fingerprint, or an unknown leader epoch. epochAt gives the leader epoch of
// the record at an offset, or −1.
func Encode(id Identity, s State, epochAt func(offset int64) int32, chars int) (string, State) {
	bare := State{Watermark: s.Watermark, Frontier: s.Watermark}
	if id.Fingerprint == 0 || len(id.Cluster) > maxCluster || s.Watermark < 0 {
		return "", bare
	}
	s = s.cut(maxNames)
	if n := fit(id, s, epochAt, chars); n >= 0 {
		s = s.cut(n)
	} else {
		return "", bare
	}
	epoch := epochAt(s.Frontier - 1)
	if s.Frontier <= s.Watermark || epoch < 0 {
		return "", bare
	}
	return encoding.EncodeToString(appendBinary(nil, Checkpoint{Identity: id, State: s, LeaderEpoch: epoch})), s
}

// fit is the largest number of names whose text has at most chars characters,
// or −1.
func fit(id Identity, s State, epochAt func(int64) int32, chars int) int {
	room := encoding.DecodedLen(chars)
	fixed := len(magic) + 1 + uvarintLen(uint64(len(id.Cluster))) + len(id.Cluster) + 16 + 8 + 4 +
		uvarintLen(uint64(s.Watermark))
	best, names, flags, flagged := -1, 0, 0, 0
	prev, last := s.Watermark, 0
	for n := 0; ; n++ {
		f := s.cut(n).Frontier
		size := fixed + names + flags + uvarintLen(uint64(f-s.Watermark)) + uvarintLen(uint64(n)) +
			uvarintLen(uint64(flagged)) + uvarintLen(uint64(max(epochAt(f-1), 0)))
		if size <= room {
			best = n
		}
		if n == len(s.Lanes) || fixed+names > room {
			return best
		}
		l := s.Lanes[n]
		names += 4 + uvarintLen(uint64(l.Offset-prev))
		prev = l.Offset
		if l.flags() != 0 {
			flags += uvarintLen(uint64(n-last)) + 1
			last = n
			flagged++
		}
	}
}

const (
	flagParked = 1 << iota
	flagPaused
	flagAtLeast
	flagsKnown = flagParked | flagPaused | flagAtLeast
)

func (l Lane) flags() byte {
	var b byte
	if l.Parked {
		b |= flagParked
	}
	if l.Paused {
		b |= flagPaused
	}
	if l.AtLeast {
		b |= flagAtLeast
	}
	return b
}

func appendBinary(b []byte, c Checkpoint) []byte {
	b = append(b, magic...)
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(c.Watermark))
	b = binary.AppendUvarint(b, uint64(len(c.Cluster)))
	b = append(b, c.Cluster...)
	b = append(b, c.Topic[:]...)
	b = binary.AppendUvarint(b, uint64(c.LeaderEpoch))
	b = binary.BigEndian.AppendUint64(b, c.Fingerprint)
	b = binary.AppendUvarint(b, uint64(c.Frontier-c.Watermark))
	b = binary.AppendUvarint(b, uint64(len(c.Lanes)))
	prev, flagged := c.Watermark, 0
	for _, l := range c.Lanes {
		b = binary.BigEndian.AppendUint32(b, l.Name)
		b = binary.AppendUvarint(b, uint64(l.Offset-prev))
		prev = l.Offset
		if l.flags() != 0 {
			flagged++
		}
	}
	b = binary.AppendUvarint(b, uint64(flagged))
	last := 0
	for i, l := range c.Lanes {
		if f := l.flags(); f != 0 {
			b = binary.AppendUvarint(b, uint64(i-last))
			b = append(b, f)
			last = i
		}
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crcTable))
}

// Open reads a commit's metadata and checks all that can be checked without
// asking a broker. Unless the reason is Valid the metadata is to be ignored.
func Open(text string, id Identity, committed int64) (Checkpoint, Reason) {
	c, why := Decode(text)
	switch {
	case why != Valid:
	case c.Cluster != id.Cluster:
		why = Cluster
	case c.Topic != id.Topic:
		why = Topic
	case id.Fingerprint == 0 || c.Fingerprint != id.Fingerprint:
		why = Fingerprint
	case c.Watermark != committed:
		why = Moved
	}
	return c, why
}

// Decode reads a text that Encode wrote. Reasons: Valid, Empty, Foreign,
// Version, Corrupt.
func Decode(text string) (Checkpoint, Reason) {
	if text == "" {
		return Checkpoint{}, Empty
	}
	b, err := encoding.DecodeString(text)
	if strings.ContainsAny(text, "\r\n") { // which the decoder skips
		return Checkpoint{}, Foreign
	}
	if err != nil || len(b) < len(magic)+1 || string(b[:len(magic)]) != magic {
		return Checkpoint{}, Foreign
	}
	if b[len(magic)] != version {
		return Checkpoint{}, Version
	}
	body := len(b) - 4
	if body < len(magic)+1 || crc32.Checksum(b[:body], crcTable) != binary.BigEndian.Uint32(b[body:]) {
		return Checkpoint{}, Corrupt
	}
	r := reader{b: b[len(magic)+1 : body]}
	c := r.checkpoint()
	if r.bad || len(r.b) != 0 {
		return Checkpoint{}, Corrupt
	}
	return c, Valid
}

// reader takes values off a byte string; bad once one was missing or out of
// its range.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) checkpoint() Checkpoint {
	var c Checkpoint
	c.Watermark = int64(r.uvarint(math.MaxInt64))
	c.Cluster = string(r.take(int(r.uvarint(maxCluster))))
	copy(c.Topic[:], r.take(16))
	c.LeaderEpoch = int32(r.uvarint(math.MaxInt32))
	if b := r.take(8); b != nil {
		c.Fingerprint = binary.BigEndian.Uint64(b)
	}
	c.Frontier = c.Watermark + int64(r.uvarint(uint64(math.MaxInt64-c.Watermark)))
	c.Lanes = r.lanes(c.Watermark, c.Frontier)
	r.bad = r.bad || c.Frontier == c.Watermark || c.Fingerprint == 0
	return c
}

func (r *reader) lanes(watermark, frontier int64) []Lane {
	n := int(r.uvarint(uint64(min(maxNames, len(r.b)/5))))
	lanes := make([]Lane, 0, n)
	prev := watermark
	for range n {
		var l Lane
		if b := r.take(4); b != nil {
			l.Name = binary.BigEndian.Uint32(b)
		}
		l.Offset = prev + int64(r.uvarint(uint64(frontier-1-prev)))
		prev = l.Offset
		if r.bad {
			return nil
		}
		lanes = append(lanes, l)
	}
	r.flags(lanes)
	return lanes
}

func (r *reader) flags(lanes []Lane) {
	i := 0
	for k := range r.uvarint(uint64(len(lanes))) {
		gap := int(r.uvarint(uint64(len(lanes) - 1 - i)))
		b := r.take(1)
		if b == nil || b[0] == 0 || b[0]&^flagsKnown != 0 || k > 0 && gap == 0 {
			r.bad = true
			return
		}
		i += gap
		l := &lanes[i]
		l.Parked, l.Paused, l.AtLeast = b[0]&flagParked != 0, b[0]&flagPaused != 0, b[0]&flagAtLeast != 0
	}
}

// uvarint takes a number of at most the given size, in its shortest form.
func (r *reader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most || n != uvarintLen(v) {
		r.bad = true
		r.b = nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.bad = true
		r.b = nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}
