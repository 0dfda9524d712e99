package routing_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestRouteHeaderOnTheWire(t *testing.T) {
	h := routing.RouteHeader{Kind: routing.KindSpreadKey, Epoch: 300, Session: [16]byte{0: 0xaa, 15: 0xbb}, Seq: 7}
	const wire = "0102ac02aa0000000000000000000000000000bb07"
	if got := hex.EncodeToString(h.Append(nil)); got != wire {
		t.Errorf("header is %s, want %s", got, wire)
	}
	for _, c := range []struct{ name, hex string }{
		{"empty", ""},
		{"version 2", "0202ac02aa0000000000000000000000000000bb07"},
		{"unknown kind", "0104ac02aa0000000000000000000000000000bb07"},
		{"no epoch", "0102"},
		{"session cut short", "0102ac02aa00"},
		{"no sequence", "0102ac02aa0000000000000000000000000000bb"},
		{"bytes left over", wire + "00"},
		{"long form of the epoch", "0102ac8200aa0000000000000000000000000000bb07"},
		{"sequence beyond 64 bits", "0102ac02aa0000000000000000000000000000bbffffffffffffffffff7f"},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := routing.ParseRouteHeader(b); !errors.Is(err, routing.ErrHeader) {
			t.Errorf("%s: error is %v, want ErrHeader", c.name, err)
		}
	}
}

func TestRouteHeaderAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 64)
	h := routing.RouteHeader{Epoch: 12, Seq: 1 << 40}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := routing.ParseRouteHeader(h.Append(buf)); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestControlOnTheWire(t *testing.T) {
	for _, c := range []struct {
		name, wire string
		control    routing.Control
	}{
		{"fence of a tenant", "0101026d31010461636d650d", routing.Control{Kind: routing.ControlFence, Move: "m1", Unit: routing.Unit{Tenant: "acme"}, Epoch: 13}},
		{"fence of slots", "0101026d31020311010a0d", routing.Control{Kind: routing.ControlFence, Move: "m1", Unit: routing.Unit{Slots: []int32{17, 18, 28}}, Epoch: 13}},
		{"barrier", "0102000000", routing.Control{Kind: routing.ControlBarrier}},
	} {
		if got := hex.EncodeToString(c.control.Append(nil)); got != c.wire {
			t.Errorf("%s is %s, want %s", c.name, got, c.wire)
		}
		got, err := routing.ParseControl(c.control.Append(nil))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.control, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	if got := string(routing.ControlKey("m1")); got != "tl-control/m1" {
		t.Errorf("key is %s", got)
	}
}

func TestControlErrors(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      error
	}{
		{"version 2", "0201026d310000", routing.ErrUnknownControl},
		{"kind 3", "0103026d310000", routing.ErrUnknownControl},
		{"kind 0", "0100026d310000", routing.ErrUnknownControl},
		{"empty", "", routing.ErrHeader},
		{"move cut short", "0101056d31", routing.ErrHeader},
		{"no unit", "0101026d31", routing.ErrHeader},
		{"unit 3", "0101026d310300", routing.ErrHeader},
		{"empty tenant", "0101026d3101000d", routing.ErrHeader},
		{"no slots", "0101026d3102000d", routing.ErrHeader},
		{"more slots than bytes", "0101026d3102ffffff7f0d", routing.ErrHeader},
		{"slot twice", "0101026d3102021100" + "0d", routing.ErrHeader},
		{"slot beyond 31 bits", "0101026d310201808080800800", routing.ErrHeader},
		{"slots beyond 31 bits together", "0101026d310202ffffffff070100", routing.ErrHeader},
		{"no epoch", "0101026d3100", routing.ErrHeader},
		{"bytes left over", "0101026d31000d00", routing.ErrHeader},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := routing.ParseControl(b); !errors.Is(err, c.want) {
			t.Errorf("%s: error is %v, want %v", c.name, err, c.want)
		}
	}
}

func TestControlRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := routing.Control{
			Kind: routing.ControlKind(rapid.Uint8Range(1, 2).Draw(t, "kind")), Move: rapid.String().Draw(t, "move"),
			Epoch: rapid.Uint64().Draw(t, "epoch"),
		}
		switch rapid.IntRange(0, 2).Draw(t, "unit") {
		case 1:
			c.Unit.Tenant = tenants().Draw(t, "tenant")
		case 2:
			c.Unit.Slots = rapid.SliceOfNDistinct(rapid.Int32Range(0, 1<<16-1), 1, 50, rapid.ID[int32]).Draw(t, "slots")
			slices.Sort(c.Unit.Slots)
		}
		got, err := routing.ParseControl(c.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParseRouteHeader(f *testing.F) {
	f.Add([]byte{})
	f.Add(routing.RouteHeader{Kind: 3, Epoch: 300, Seq: 1 << 60}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := routing.ParseRouteHeader(b)
		if err != nil {
			if !errors.Is(err, routing.ErrHeader) {
				t.Fatalf("error %v is not an ErrHeader", err)
			}
			return
		}
		if got := h.Append(nil); !bytes.Equal(got, b) {
			t.Fatalf("%x reads as %+v, which is written %x", b, h, got)
		}
	})
}

func FuzzParseControl(f *testing.F) {
	f.Add([]byte{})
	f.Add(routing.Control{Kind: 1, Move: "m", Unit: routing.Unit{Tenant: "acme"}, Epoch: 3}.Append(nil))
	f.Add(routing.Control{Kind: 2, Unit: routing.Unit{Slots: []int32{0, 1, 70000}}}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := routing.ParseControl(b)
		if err != nil {
			if !errors.Is(err, routing.ErrHeader) && !errors.Is(err, routing.ErrUnknownControl) {
				t.Fatalf("error %v is of no known kind", err)
			}
			return
		}
		if got := c.Append(nil); !bytes.Equal(got, b) {
			t.Fatalf("%x reads as %+v, which is written %x", b, c, got)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("version: 1\nrevision: 2\ntopics: {orders: {partitions: 8, shared: \"1-7\", placements: {a: {partitions: [0]}}}}"))
	f.Add([]byte("version: 1\ntopics: {o: {partitions: 2, tenant_of: prefix:x, epoch: 3, slot_overrides: {1: {partition: 0}}, tiers: {t: {rate: 3/h}}, tenants: {!!binary AA==: {tier: t}}}}"))
	f.Add([]byte("version: 1\ntopics: &a {x: *a}\n"))
	f.Add([]byte("%YAML 1.1\n--- !!map\n? version\n: 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := routing.Parse("f", text)
		if err != nil {
			var e *routing.Error
			if !errors.As(err, &e) || e.Line < 1 || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("error %q has no line or is not one line", err)
			}
			return
		}
		canonical, err := table.YAML()
		if err != nil {
			t.Fatal(err)
		}
		back, err := routing.Parse("f", canonical)
		if err != nil {
			t.Fatalf("%v in\n%s", err, canonical)
		}
		if diff := cmp.Diff(table.Spec(), back.Spec(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}
