package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/internal/check"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 123456789, time.UTC)

func TestValueIsReadableJSON(t *testing.T) {
	v := Value{ID: check.ID{Producer: "p", Tenant: "@acme/app"}, Seq: 7, Time: noon}
	want := `{"producer":"p","tenant":"@acme/app","sequence":7,"time":"2026-05-04T12:00:00.123456789Z"}`
	if got := string(v.Append(nil, 0)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestValuesComeBackAsWritten(t *testing.T) {
	name := rapid.OneOf(rapid.StringMatching(`[a-z@/.A-Z-]{1,12}`), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		v := Value{
			ID:        check.ID{Producer: rapid.String().Draw(t, "producer"), Tenant: name.Draw(t, "tenant")},
			Seq:       rapid.Uint64().Draw(t, "seq"),
			Time:      time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), 5).UTC(),
			Unordered: rapid.Bool().Draw(t, "unordered"),
		}
		size := rapid.IntRange(0, 500).Draw(t, "size")
		bare, padded := v.Append(nil, 0), v.Append([]byte("before"), size)[len("before"):]
		if len(padded) != size && len(padded) != len(bare) {
			t.Fatalf("%d bytes, want %d, or %d where there is no room for padding", len(padded), size, len(bare))
		}
		if size >= len(bare)+len(`,"padding":""`) && len(padded) != size {
			t.Fatalf("%d bytes, want %d", len(padded), size)
		}
		for _, text := range [][]byte{bare, padded} {
			got, err := Decode(text)
			if diff := cmp.Diff(v, got); err != nil || diff != "" || !json.Valid(text) {
				t.Fatalf("%s: %v\n%s", text, err, diff)
			}
		}
	})
}

func TestOtherValuesAreRefused(t *testing.T) {
	for _, text := range []string{"", "hello", "{}", "[]", `{"producer":"p","tenant":"t","sequence":1}`, `{"producer":"p","tenant":"t","tenant_hex":"x","sequence":1,"time":"2026-05-04T12:00:00Z"}`} {
		if _, err := Decode([]byte(text)); !errors.Is(err, ErrNotCheckable) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	v := Value{ID: check.ID{Producer: "p", Tenant: "\xff"}, Seq: 7, Time: noon, Unordered: true}
	f.Add(v.Append(nil, 300))
	v.Tenant = "t"
	f.Add(v.Append(nil, 0))
	f.Fuzz(func(t *testing.T, text []byte) {
		quick, ok := decodeFast(text)
		slow, err := decodeSlow(text)
		if ok && err != nil {
			t.Fatalf("only the fast path reads %q: %v", text, err)
		}
		if diff := cmp.Diff(slow, quick); ok && diff != "" {
			t.Fatalf("%q: -slow +fast\n%s", text, diff)
		}
	})
}

func TestPaddingDoesNotCompressToNothing(t *testing.T) {
	a, b := appendPadding(nil, 200, 1), appendPadding(nil, 200, 2)
	if len(a) != 200 || bytes.Equal(a, b) || bytes.Contains(a, bytes.Repeat([]byte{a[50]}, 8)) {
		t.Errorf("%s\n%s", a, b)
	}
}

func BenchmarkAppend(b *testing.B) {
	v := Value{ID: check.ID{Producer: "loadgen-1f", Tenant: "some-tenant"}, Seq: 7, Time: noon}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = v.Append(buf[:0], 200)
	}
}

func BenchmarkDecode(b *testing.B) {
	v := Value{ID: check.ID{Producer: "loadgen-1f", Tenant: "some-tenant"}, Seq: 7, Time: noon}
	text := v.Append(nil, 200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(text); err != nil {
			b.Fatal(err)
		}
	}
}
