package routing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ControlKind is what a control record is for.
type ControlKind uint8

// The kinds of control records, with their numbers on the wire.
const (
	// ControlFence ends a unit in its old home.
	ControlFence ControlKind = 1
	// ControlBarrier is written after a failed produce, so that brokers reject
	// whatever of it is still under way.
	ControlBarrier ControlKind = 2
)

// String gives the kind's name.
func (k ControlKind) String() string {
	switch k {
	case ControlFence:
		return "fence"
	case ControlBarrier:
		return "barrier"
	}
	return fmt.Sprintf("control(%d)", uint8(k))
}

// ErrUnknownControl is wrapped by ParseControl for a control record of a kind
// or version that this program does not know. A worker must then stop the
// partition: passing over it could break the order that it guards.
var ErrUnknownControl = errors.New("routing: control record of an unknown kind or version")

// Unit is what a move moves: one tenant, or a set of slots. The zero value is
// no unit.
type Unit struct {
	// Tenant is not empty for a tenant.
	Tenant string
	// Slots ascend and are distinct; empty for a tenant.
	Slots []int32
}

// Control is the content of a tl-control header. The record's key is
// ControlKey and its value must not be empty, since an empty value would
// delete it in a compacted topic.
type Control struct {
	Kind ControlKind
	// Move is the move's id.
	Move string
	// Unit that the move moves.
	Unit Unit
	// Epoch that the unit gets by the move.
	Epoch uint64
}

// ControlKey is the key of a move's control records.
func ControlKey(move string) []byte { return append([]byte(HeaderControl+"/"), move...) }

const controlVersion = 1

// The units on the wire.
const (
	unitNone   = 0
	unitTenant = 1
	unitSlots  = 2
)

// Append adds the header's bytes to dst: 0x01, kind, move (uvarint length and
// bytes), unit (a byte; for a tenant uvarint length and bytes; for slots
// uvarint count, then the first slot and the gaps to the next as uvarints),
// uvarint epoch. Slots must ascend.
func (c Control) Append(dst []byte) []byte {
	dst = append(dst, controlVersion, byte(c.Kind))
	dst = appendText(dst, c.Move)
	dst = c.Unit.append(dst)
	return binary.AppendUvarint(dst, c.Epoch)
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func (u Unit) append(dst []byte) []byte {
	switch {
	case u.Tenant != "":
		return appendText(append(dst, unitTenant), u.Tenant)
	case len(u.Slots) == 0:
		return append(dst, unitNone)
	}
	dst = binary.AppendUvarint(append(dst, unitSlots), uint64(len(u.Slots)))
	before := int32(0)
	for _, slot := range u.Slots {
		dst = binary.AppendUvarint(dst, uint64(slot-before))
		before = slot
	}
	return dst
}

// ParseControl is the reverse of Append. Another version or kind gives an
// error that wraps ErrUnknownControl; anything else malformed one that wraps
// ErrHeader. As with ParseRouteHeader a control has one form.
func ParseControl(b []byte) (Control, error) {
	if len(b) < 2 {
		return Control{}, headerError(HeaderControl, "too short")
	}
	c := Control{Kind: ControlKind(b[1])}
	if b[0] != controlVersion || c.Kind != ControlFence && c.Kind != ControlBarrier {
		return Control{}, fmt.Errorf("%w: version %d, kind %d", ErrUnknownControl, b[0], b[1])
	}
	var ok bool
	rest := b[2:]
	if c.Move, rest, ok = text(rest); !ok {
		return Control{}, headerError(HeaderControl, "move cut short")
	}
	if c.Unit, rest, ok = unit(rest); !ok {
		return Control{}, headerError(HeaderControl, "malformed unit")
	}
	if c.Epoch, rest, ok = uvarint(rest); !ok || len(rest) > 0 {
		return Control{}, headerError(HeaderControl, "epoch cut short or bytes left over")
	}
	return c, nil
}

func text(b []byte) (s string, rest []byte, ok bool) {
	n, rest, ok := uvarint(b)
	if !ok || n > uint64(len(rest)) {
		return "", b, false
	}
	return string(rest[:n]), rest[n:], true
}

func unit(b []byte) (u Unit, rest []byte, ok bool) {
	if len(b) == 0 {
		return u, b, false
	}
	switch b[0] {
	case unitNone:
		return u, b[1:], true
	case unitTenant:
		u.Tenant, rest, ok = text(b[1:])
		return u, rest, ok && u.Tenant != ""
	case unitSlots:
		u.Slots, rest, ok = slots(b[1:])
		return u, rest, ok
	}
	return u, b, false
}

func slots(b []byte) (list []int32, rest []byte, ok bool) {
	count, rest, ok := uvarint(b)
	if !ok || count == 0 || count > uint64(len(rest)) { // each takes a byte or more
		return nil, b, false
	}
	list = make([]int32, 0, count)
	last := uint64(0)
	for i := range count {
		var gap uint64
		if gap, rest, ok = uvarint(rest); !ok || gap > math.MaxInt32 || i > 0 && gap == 0 {
			return nil, b, false
		}
		if last += gap; last > math.MaxInt32 {
			return nil, b, false
		}
		list = append(list, int32(last))
	}
	return list, rest, true
}
