package offset_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

var update = flag.Bool("update", false, "write the golden files of the wire format")

func identity() offset.Identity {
	return offset.Identity{
		Cluster:     "q1Sh-9_ISia_zwGINzRvyQ",
		Topic:       [16]byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 15: 0xff},
		Fingerprint: 0x0102030405060708,
	}
}

func epoch(e int32) func(int64) int32 { return func(int64) int32 { return e } }

// goldens are texts that must be read for ever, by name of their file.
func goldens() map[string]offset.Checkpoint {
	return map[string]offset.Checkpoint{
		"v1-one-parked": {
			Identity: identity(), LeaderEpoch: 7,
			State: offset.State{
				Watermark: 1_000_000, Frontier: 1_500_000,
				Lanes: []offset.Lane{{Name: 0xdeadbeef, Offset: 1_000_000, Parked: true}},
			},
		},
		"v1-all-flags": {
			Identity: offset.Identity{Cluster: "", Topic: [16]byte{1}, Fingerprint: 1 << 63}, LeaderEpoch: 0,
			State: offset.State{
				Watermark: 0, Frontier: 300,
				Lanes: []offset.Lane{
					{Name: 0, Offset: 0},
					{Name: 1, Offset: 0, Paused: true},
					{Name: 1, Offset: 127, Parked: true, Paused: true},
					{Name: 0xffffffff, Offset: 128},
					{Name: 5, Offset: 299, Parked: true, Paused: true, AtLeast: true},
				},
			},
		},
		"v1-far": {
			Identity: identity(), LeaderEpoch: 1<<31 - 1,
			State: offset.State{
				Watermark: 1<<62 - 5, Frontier: 1<<63 - 1,
				Lanes: []offset.Lane{{Name: 9, Offset: 1<<62 - 5, AtLeast: true}, {Name: 10, Offset: 1<<63 - 2}},
			},
		},
	}
}

func encode(c offset.Checkpoint, chars int) (string, offset.State) {
	return offset.Encode(c.Identity, c.State, epoch(c.LeaderEpoch), chars)
}

func TestGoldenFilesAreReadAndWrittenAsEver(t *testing.T) {
	for name, want := range goldens() {
		file := filepath.Join("testdata", name+".txt")
		text, _ := encode(want, 4096)
		if *update {
			if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(golden)); got != text {
			t.Errorf("%s: written as\n%s, want\n%s", name, text, got)
		}
		got, why := offset.Decode(strings.TrimSpace(string(golden)))
		if why != offset.Valid || !equal(got, want) {
			t.Errorf("%s: read as %v, %+v, want %+v", name, why, got, want)
		}
	}
}

func equal(a, b offset.Checkpoint) bool {
	return a.Identity == b.Identity && a.LeaderEpoch == b.LeaderEpoch && sameState(a.State, b.State)
}

func sameState(a, b offset.State) bool {
	return a.Watermark == b.Watermark && a.Frontier == b.Frontier && slices.Equal(a.Lanes, b.Lanes)
}

func drawCheckpoint(rt *rapid.T) offset.Checkpoint {
	c := offset.Checkpoint{
		Identity: offset.Identity{
			Cluster:     rapid.StringN(0, 8, 20).Draw(rt, "cluster"),
			Fingerprint: rapid.Uint64Min(1).Draw(rt, "fingerprint"),
		},
		LeaderEpoch: rapid.Int32Min(0).Draw(rt, "epoch"),
	}
	copy(c.Topic[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "topic"))
	c.Watermark = rapid.Int64Range(0, 1<<50).Draw(rt, "watermark")
	c.Frontier = c.Watermark
	for range rapid.IntRange(0, 60).Draw(rt, "lanes") {
		c.Lanes = append(c.Lanes, offset.Lane{
			Name: rapid.Uint32().Draw(rt, "name"), Offset: c.Frontier,
			Parked: rapid.Bool().Draw(rt, "parked"), AtLeast: rapid.Bool().Draw(rt, "at least"),
		})
		c.Frontier += rapid.Int64Range(1, 1<<20).Draw(rt, "gap")
	}
	return c
}

// TestEncodeNamesAsManyAsFit compares with trying every number of names.
func TestEncodeNamesAsManyAsFit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCheckpoint(rt)
		chars := rapid.IntRange(0, 700).Draw(rt, "chars")
		text, st := encode(c, chars)
		if len(text) > chars {
			rt.Fatalf("%d characters, at most %d", len(text), chars)
		}
		most := -1
		for n := range len(c.Lanes) + 1 {
			cut := c
			if n < len(c.Lanes) {
				cut.Frontier, cut.Lanes = c.Lanes[n].Offset, c.Lanes[:n]
			}
			if full, _ := encode(cut, 1<<20); len(full) <= chars {
				most = n
			}
		}
		if len(st.Lanes) != max(most, 0) {
			rt.Fatalf("%d names, %d fit", len(st.Lanes), most)
		}
		if text == "" {
			if st.Frontier != c.Watermark || len(st.Lanes) > 0 {
				rt.Fatalf("an empty text claims %+v", st)
			}
			return
		}
		got, why := offset.Open(text, c.Identity, c.Watermark)
		if why != offset.Valid || !sameState(got.State, st) {
			rt.Fatalf("read as %v %+v, want %+v", why, got.State, st)
		}
	})
}

// TestCapacity holds the format to what operators are told: so many lanes can
// be behind, 500,000 offsets apart from first to last.
func TestCapacity(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 5))
	for _, c := range []struct{ chars, names int }{{1024, 105}, {4096, 450}} {
		s := offset.State{Watermark: 7_000_000_000, Frontier: 7_000_500_000}
		for range c.names * 2 {
			s.Lanes = append(s.Lanes, offset.Lane{Name: rnd.Uint32(), Offset: 7_000_000_000 + rnd.Int64N(500_000)})
		}
		slices.SortFunc(s.Lanes, func(a, b offset.Lane) int { return int(a.Offset - b.Offset) })
		s.Lanes = s.Lanes[:c.names+20]
		text, st := offset.Encode(identity(), s, epoch(12), c.chars)
		t.Logf("%d characters: %d names", len(text), len(st.Lanes))
		if len(st.Lanes) < c.names {
			t.Errorf("%d names fit into %d characters, want %d", len(st.Lanes), c.chars, c.names)
		}
	}
}

func TestEveryReasonToIgnoreMetadata(t *testing.T) {
	good := goldens()["v1-one-parked"]
	text, _ := encode(good, 1024)
	id, at := good.Identity, good.Watermark
	other := func(change func(*offset.Identity)) offset.Identity {
		o := id
		change(&o)
		return o
	}
	for _, c := range []struct {
		name string
		text string
		id   offset.Identity
		at   int64
		want offset.Reason
	}{
		{"as it was written", text, id, at, offset.Valid},
		{"nothing", "", id, at, offset.Empty},
		{"another consumer's", "consumer-1@host", id, at, offset.Foreign},
		{"a broken line", text[:20] + "\n" + text[20:], id, at, offset.Foreign},
		{"another base64", "AAAA", id, at, offset.Foreign},
		{"a later version", "VEwC" + text[4:], id, at, offset.Version},
		{"cut short", text[:len(text)-8], id, at, offset.Corrupt},
		{"one character changed", text[:30] + flip(text[30]) + text[31:], id, at, offset.Corrupt},
		{"a mirrored cluster", text, other(func(i *offset.Identity) { i.Cluster = "other" }), at, offset.Cluster},
		{"a topic made again", text, other(func(i *offset.Identity) { i.Topic[3]++ }), at, offset.Topic},
		{"another lane rule", text, other(func(i *offset.Identity) { i.Fingerprint++ }), at, offset.Fingerprint},
		{"an undeclared lane rule", text, other(func(i *offset.Identity) { i.Fingerprint = 0 }), at, offset.Fingerprint},
		{"a changed offset", text, id, at + 1, offset.Moved},
	} {
		if _, got := offset.Open(c.text, c.id, c.at); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if !good.Cut(good.Frontier-1) || good.Cut(good.Frontier) || !good.Cut(-1) {
		t.Error("a log is cut when it ends below the frontier")
	}
	seen := map[string]bool{}
	for _, r := range offset.Reasons() {
		if seen[r.String()] {
			t.Errorf("two reasons are called %s", r)
		}
		seen[r.String()] = true
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func TestNothingIsClaimedThatCannotBeChecked(t *testing.T) {
	c := goldens()["v1-one-parked"]
	undeclared := c
	undeclared.Fingerprint = 0
	long := c
	long.Cluster = strings.Repeat("x", 129)
	for name, c := range map[string]offset.Checkpoint{"undeclared": undeclared, "long": long} {
		if text, st := encode(c, 1024); text != "" || st.Frontier != c.Watermark || len(st.Lanes) > 0 {
			t.Errorf("%s: %q claims %+v", name, text, st)
		}
	}
	if text, st := offset.Encode(c.Identity, c.State, epoch(-1), 1024); text != "" || st.Frontier != c.Watermark {
		t.Errorf("without a leader epoch: %q claims %+v", text, st)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range goldens() {
		text, _ := encode(c, 4096)
		f.Add(text)
	}
	f.Add("")
	f.Add("VEwB")
	f.Fuzz(func(t *testing.T, text string) {
		c, why := offset.Decode(text)
		if why != offset.Valid {
			if !equal(c, offset.Checkpoint{}) {
				t.Fatalf("%v comes with %+v", why, c)
			}
			return
		}
		again, st := encode(c, 1<<20)
		if again != text || !sameState(st, c.State) {
			t.Fatalf("%q is read as %+v, which is written as %q", text, c, again)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for _, names := range []int{100, 450} {
		s := offset.State{Frontier: int64(names) * 1000}
		for i := range names {
			s.Lanes = append(s.Lanes, offset.Lane{Name: uint32(i) * 2654435761, Offset: int64(i) * 1000})
		}
		b.Run(fmt.Sprint(names, " names"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				offset.Encode(identity(), s, epoch(3), 4096)
			}
		})
	}
}
