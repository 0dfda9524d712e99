package routing

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The record headers that the wrapper stamps or reads. Clients in other
// languages may ignore them.
const (
	// HeaderRoute carries a RouteHeader.
	HeaderRoute = "tl-route"
	// HeaderTime carries the event time in unix milliseconds, in decimal.
	HeaderTime = "tl-time"
	// HeaderControl carries a Control; such a record reaches no handler.
	HeaderControl = "tl-control"
)

// ErrHeader is wrapped by every error of ParseRouteHeader and ParseControl.
var ErrHeader = errors.New("routing: malformed header")

const routeVersion = 1

// RouteHeader says how a record was routed. A record without one counts as
// epoch 0.
type RouteHeader struct {
	// Kind is the unit that routed the record.
	Kind Kind
	// Epoch of the placement it was routed by.
	Epoch uint64
	// Session of the producer.
	Session [16]byte
	// Seq counts the session's records.
	Seq uint64
}

// Append adds the header's bytes to dst: 0x01, kind, uvarint epoch, session,
// uvarint sequence.
func (h RouteHeader) Append(dst []byte) []byte {
	dst = append(dst, routeVersion, byte(h.Kind))
	dst = binary.AppendUvarint(dst, h.Epoch)
	dst = append(dst, h.Session[:]...)
	return binary.AppendUvarint(dst, h.Seq)
}

// ParseRouteHeader is the reverse of Append. It refuses other versions, kinds
// that it does not know, bytes left over, and any but the shortest encoding,
// so that a header has one form. It allocates nothing when it succeeds.
func ParseRouteHeader(b []byte) (RouteHeader, error) {
	var h RouteHeader
	if len(b) < 2 {
		return h, headerError(HeaderRoute, "too short")
	}
	if b[0] != routeVersion {
		return h, headerError(HeaderRoute, fmt.Sprintf("version %d", b[0]))
	}
	if h.Kind = Kind(b[1]); h.Kind > KindSpreadRandom {
		return h, headerError(HeaderRoute, "unknown "+h.Kind.String())
	}
	epoch, rest, ok := uvarint(b[2:])
	if !ok || len(rest) < len(h.Session) {
		return h, headerError(HeaderRoute, "epoch or session cut short")
	}
	h.Epoch = epoch
	rest = rest[copy(h.Session[:], rest):]
	if h.Seq, rest, ok = uvarint(rest); !ok || len(rest) > 0 {
		return h, headerError(HeaderRoute, "sequence cut short or bytes left over")
	}
	return h, nil
}

func headerError(header, what string) error {
	return fmt.Errorf("%w: %s: %s", ErrHeader, header, what)
}

// uvarint reads one shortest-form number.
func uvarint(b []byte) (n uint64, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || size > 1 && b[size-1] == 0 {
		return 0, b, false
	}
	return n, b[size:], true
}
