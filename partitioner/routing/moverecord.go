package routing

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// moveValue is a move in the routing topic. A tenant's homes are written out;
// those of slots follow from the slots.
type moveValue struct {
	versioned

	Tenant string `json:"tenant,omitempty"`
	// TenantBytes takes the place of Tenant when it is not text.
	TenantBytes []byte  `json:"tenant_bytes,omitempty"`
	From        []int32 `json:"from,omitempty"`
	FromSpread  string  `json:"from_spread,omitempty"`
	To          []int32 `json:"to,omitempty"`
	ToSpread    string  `json:"to_spread,omitempty"`
	// Slots are what appendSlotMoves writes: thousands of slots stay in one record.
	Slots    []byte     `json:"slots,omitempty"`
	Epoch    uint64     `json:"epoch"`
	State    string     `json:"state"`
	Deadline int64      `json:"deadline,omitempty"` // unix ms
	Fences   [][2]int64 `json:"fences,omitempty"`   // partition, offset
	Over     []string   `json:"over,omitempty"`     // sessions passed over
}

// maxFenceBytes is what a fence takes at most in a moveValue.
const maxFenceBytes = len("[65535,9223372036854775807],")

func (p *parts) moveName(id string) name { return name{kindMove, p.name, id} }

func (p *parts) moveRecord(m *Move) Record {
	v := moveValue{
		versioned: versioned{recordVersion}, Tenant: m.Tenant, Epoch: m.Epoch, State: m.State.String(),
		FromSpread: m.FromSpread.String(), ToSpread: m.ToSpread.String(), Slots: appendSlotMoves(nil, m.Slots),
	}
	if m.Tenant != "" {
		v.From, v.To = m.From, m.To
	}
	if !utf8.ValidString(v.Tenant) {
		v.Tenant, v.TenantBytes = "", []byte(m.Tenant)
	}
	if !m.Deadline.IsZero() {
		v.Deadline = m.Deadline.UnixMilli()
	}
	for _, f := range m.Fences {
		v.Fences = append(v.Fences, [2]int64{int64(f.Partition), f.Offset})
	}
	for _, id := range m.Over {
		v.Over = append(v.Over, id.String())
	}
	return record(p.moveName(m.ID), v)
}

// recordSize is about the size of the record of a move of slots without fences.
func (m *Move) recordSize() int {
	const around = 256 // key, names, epoch, deadline
	return around + base64.StdEncoding.EncodedLen(len(appendSlotMoves(nil, m.Slots)))
}

func (v *moveValue) move(id string) (*Move, error) {
	m := Move{Tenant: v.Tenant, From: v.From, To: v.To, Epoch: v.Epoch}
	if v.TenantBytes != nil {
		m.Tenant = string(v.TenantBytes)
	}
	if v.Deadline != 0 {
		m.Deadline = unixMilli(v.Deadline)
	}
	var errs [4]error
	m.FromSpread, errs[0] = parseSpreadOrNone(v.FromSpread)
	m.ToSpread, errs[1] = parseSpreadOrNone(v.ToSpread)
	m.State, errs[2] = parseMoveState(v.State)
	m.Slots, errs[3] = readSlotMoves(v.Slots)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	for _, f := range v.Fences {
		if f[0] < 0 || f[0] >= MaxPartitions {
			return nil, outside("partition", f[0], MaxPartitions)
		}
		m.Fences = append(m.Fences, Fence{Partition: int32(f[0]), Offset: f[1]})
	}
	for _, s := range v.Over {
		session, err := ParseSessionID(s)
		if err != nil {
			return nil, err
		}
		m.Over = append(m.Over, session)
	}
	return m.normal(id), nil
}

func parseSpreadOrNone(s string) (Spread, error) {
	if s == "" {
		return SpreadNone, nil
	}
	return parseSpread(s)
}

// errSlotMoves says that the slots of a move's record cannot be read.
var errSlotMoves = errors.New("malformed slots")

// appendSlotMoves writes the slots' moves: their number as a uvarint; then of
// each, in ascending order, the distance of the slot from the one before it (of
// the first from -1) as a uvarint, and the distances of both partitions from
// those before them (of the first from 0) as zigzag varints.
func appendSlotMoves(dst []byte, list []SlotMove) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	before := SlotMove{Slot: -1}
	for _, s := range list {
		dst = binary.AppendUvarint(dst, uint64(s.Slot-before.Slot))
		dst = binary.AppendVarint(dst, int64(s.From)-int64(before.From))
		dst = binary.AppendVarint(dst, int64(s.To)-int64(before.To))
		before = s
	}
	return dst
}

// readSlotMoves is the reverse of appendSlotMoves. What it gives is in
// ascending order and within the limits of any table.
func readSlotMoves(b []byte) ([]SlotMove, error) {
	if len(b) == 0 {
		return nil, nil
	}
	count, b, ok := uvarint(b)
	const least = 3 // bytes for each
	if !ok || count == 0 || count > MaxSlots || count*least > uint64(len(b)) {
		return nil, errSlotMoves
	}
	list := make([]SlotMove, 0, count)
	before := SlotMove{Slot: -1}
	for range count {
		if before, b, ok = nextSlotMove(before, b); !ok {
			return nil, errSlotMoves
		}
		list = append(list, before)
	}
	if len(b) > 0 {
		return nil, errSlotMoves
	}
	return list, nil
}

func nextSlotMove(before SlotMove, b []byte) (s SlotMove, rest []byte, ok bool) {
	gap, b, ok := uvarint(b)
	if !ok || gap == 0 || gap > MaxSlots || int64(before.Slot)+int64(gap) >= MaxSlots {
		return s, b, false
	}
	s.Slot = before.Slot + int32(gap)
	if s.From, b, ok = nextPartition(before.From, b); !ok {
		return s, b, false
	}
	s.To, b, ok = nextPartition(before.To, b)
	return s, b, ok
}

func nextPartition(before int32, b []byte) (partition int32, rest []byte, ok bool) {
	zigzag, rest, ok := uvarint(b)
	if !ok || zigzag > 2*MaxPartitions {
		return 0, b, false
	}
	next := int64(before) + int64(zigzag>>1)
	if zigzag&1 == 1 {
		next = int64(before) - int64(zigzag>>1) - 1
	}
	return int32(next), rest, next >= 0 && next < MaxPartitions
}
