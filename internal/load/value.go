package load

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tenantlane/tenantlane/internal/check"
)

// ErrNotCheckable is in the error of a value that Decode cannot read.
var ErrNotCheckable = errors.New("not a record of the load generator")

// Value is what a checkable record says about itself.
type Value struct {
	check.ID
	Seq       uint64
	Time      time.Time // when it was handed to the Producer
	Unordered bool      // nobody promised an order for it
}

// Append appends the value as JSON and, if it is shorter than size bytes, a
// "padding" field that fills it up to exactly size. A gap of less than the
// field's own bytes stays.
//
//	{"producer":"p","tenant":"acme","sequence":7,"time":"2026-05-04T12:00:00.123456789Z","padding":"…"}
func (v *Value) Append(dst []byte, size int) []byte {
	begin := len(dst)
	dst = append(dst, `{"producer":`...)
	dst = check.AppendString(dst, v.Producer)
	dst = append(dst, `,"tenant":`...)
	dst = check.AppendString(dst, v.Tenant)
	if !utf8.ValidString(v.Tenant) {
		dst = append(dst, `,"tenant_hex":"`...)
		dst = hex.AppendEncode(dst, []byte(v.Tenant))
		dst = append(dst, '"')
	}
	dst = append(dst, `,"sequence":`...)
	dst = strconv.AppendUint(dst, v.Seq, 10)
	dst = append(dst, `,"time":"`...)
	dst = v.Time.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	if v.Unordered {
		dst = append(dst, `,"unordered":true`...)
	}
	dst = appendPadding(dst, size-(len(dst)-begin)-1, v.Seq)
	return append(dst, '}')
}

// appendPadding appends a field of exactly room bytes whose content compresses
// about as badly as real data.
func appendPadding(dst []byte, room int, seed uint64) []byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	const prefix, suffix = `,"padding":"`, `"`
	room -= len(prefix) + len(suffix)
	if room < 0 {
		return dst
	}
	dst = append(dst, prefix...)
	state := seed*0x9e3779b97f4a7c15 + 1
	for i := range room {
		if i%10 == 0 { // xorshift64, ten characters from each number
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
		}
		dst = append(dst, alphabet[state>>(6*(i%10))&63])
	}
	return append(dst, suffix...)
}

// Decode reads a value back. Its error wraps ErrNotCheckable.
func Decode(value []byte) (Value, error) {
	if v, ok := decodeFast(value); ok {
		return v, nil
	}
	return decodeSlow(value)
}

// decodeFast reads the exact layout of Append, with plain names.
func decodeFast(value []byte) (v Value, ok bool) {
	c := check.Cursor{Rest: value, OK: true}
	producer := c.Plain(`{"producer":"`)
	tenant := c.Plain(`,"tenant":"`)
	v.Seq = c.Number(`,"sequence":`)
	at := c.Plain(`,"time":"`)
	v.Unordered = c.Has(`,"unordered":true`)
	if len(c.Rest) > 1 {
		c.Plain(`,"padding":"`)
	}
	if !c.OK || string(c.Rest) != "}" || v.Time.UnmarshalText(at) != nil {
		return Value{}, false
	}
	v.Producer, v.Tenant = string(producer), string(tenant)
	return v, true
}

func decodeSlow(value []byte) (Value, error) {
	var s struct {
		Producer  *string    `json:"producer"`
		Tenant    *string    `json:"tenant"`
		TenantHex *string    `json:"tenant_hex"`
		Sequence  *uint64    `json:"sequence"`
		Time      *time.Time `json:"time"`
		Unordered bool       `json:"unordered"`
	}
	if err := json.Unmarshal(value, &s); err != nil {
		return Value{}, fmt.Errorf("%w: %w", ErrNotCheckable, err)
	}
	if s.Producer == nil || s.Tenant == nil || s.Sequence == nil || s.Time == nil {
		return Value{}, fmt.Errorf("%w: wants producer, tenant, sequence and time", ErrNotCheckable)
	}
	v := Value{ID: check.ID{Producer: *s.Producer, Tenant: *s.Tenant}, Seq: *s.Sequence, Time: *s.Time, Unordered: s.Unordered}
	if s.TenantHex != nil {
		raw, err := hex.DecodeString(*s.TenantHex)
		if err != nil {
			return Value{}, fmt.Errorf("%w: tenant_hex: %w", ErrNotCheckable, err)
		}
		v.Tenant = string(raw)
	}
	return v, nil
}
