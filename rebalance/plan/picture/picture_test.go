package picture_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

func volumes() []plan.Volume {
	return []plan.Volume{{Tenant: "acme", Volume: 60}, {Tenant: "globex", Volume: 10}, {Tenant: "hooli", Volume: 10}, {Tenant: "initech", Volume: 10}, {Tenant: "umbrella", Volume: 10}}
}

func charts(t testing.TB) map[string]picture.Chart {
	t.Helper()
	whales, err := plan.Whales(volumes(), plan.WhalesConfig{Partitions: 4, Spread: routing.SpreadKey})
	if err != nil {
		t.Fatal(err)
	}
	growth, err := plan.Growth(volumes(), plan.GrowthConfig{From: 4, To: 5})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := plan.HashSkew(volumes(), routing.XXHash64, 4)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]picture.Chart{
		"whales": picture.Whales(whales), "growth": picture.Growth(growth, 4, 5),
		"hash": picture.Hash("customers", hash), "sizes": picture.Sizes(map[int]int{1: 120, 2: 60}, 2),
	}
}

// rects are the widths of an SVG's bars, background and legend left out; it
// fails on XML that is not well formed.
func rects(t testing.TB, svg []byte) []float64 {
	t.Helper()
	var widths []float64
	in := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return widths
		}
		if err != nil {
			t.Fatalf("not well formed: %v\n%s", err, svg)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "rect" {
			continue
		}
		attributes := map[string]string{}
		for _, a := range start.Attr {
			attributes[a.Name.Local] = a.Value
		}
		if attributes["class"] == "bg" || attributes["width"] == "12" {
			continue
		}
		w, err := strconv.ParseFloat(attributes["width"], 64)
		if err != nil {
			t.Fatal(err)
		}
		widths = append(widths, w)
	}
}

func TestSVGBarsAreToScale(t *testing.T) {
	for name, chart := range charts(t) {
		t.Run(name, func(t *testing.T) {
			svg := picture.SVG(chart)
			var want []float64
			for _, p := range chart.Panels {
				for _, b := range p.Bars {
					for _, part := range b.Parts {
						if part.Value > 0 {
							want = append(want, part.Value)
						}
					}
				}
			}
			got := rects(t, svg)
			if len(got) != len(want) {
				t.Fatalf("%d bars, want %d", len(got), len(want))
			}
			scale := got[0] / want[0]
			for i := range got {
				if math.Abs(got[i]-want[i]*scale) > 1 {
					t.Errorf("bar %d is %v wide for %v, want %v", i, got[i], want[i], want[i]*scale)
				}
			}
			if again := picture.SVG(chart); !bytes.Equal(svg, again) {
				t.Error("drawn twice, the pictures differ")
			}
		})
	}
}

func TestTextFitsItsWidth(t *testing.T) {
	for name, chart := range charts(t) {
		for _, width := range []int{0, 40, 80, 200} {
			drawn := picture.Text(chart, width)
			for line := range strings.Lines(drawn) {
				line = strings.TrimSuffix(line, "\n")
				bar := strings.ContainsAny(line, "█▓▏")
				if n := utf8.RuneCountInString(line); bar && n > max(width, 40) || strings.TrimRight(line, " ") != line {
					t.Errorf("%s at width %d: line of %d runes %q", name, width, n, line)
				}
			}
		}
	}
}

func TestTextBarsAreToScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.IntRange(0, 1000), 1, 20).Draw(t, "values")
		panel := picture.Panel{}
		top := 0.0
		for _, v := range values {
			half := picture.Part{Value: float64(v) / 2}
			panel.Bars = append(panel.Bars, picture.Bar{Parts: []picture.Part{half, half}})
			top = max(top, float64(v))
		}
		lines := strings.Split(picture.Text(picture.Chart{Panels: []picture.Panel{panel}}, 82), "\n")
		for i, v := range values {
			line := lines[3+i] // after the title, an empty line and the panel's title
			full := strings.Count(line, "█")
			if want := float64(v) / max(top, 1) * 80; math.Abs(float64(full)-want) > 1 {
				t.Fatalf("%v of %v is drawn %d cells long, want about %v", v, top, full, want)
			}
		}
	})
}

func ExampleText() {
	r, err := plan.HashSkew([]plan.Volume{{Tenant: "nl", Volume: 800}, {Tenant: "be", Volume: 150}, {Tenant: "lu", Volume: 50}}, routing.XXHash64, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(picture.Text(picture.Hash("country", r), 60))
	// Output:
	// Keys of country
	// the hottest partition takes 85.0 %
	//
	// share of the records per partition (fair share)
	// 0 █████████                                           15.0 %
	// 1                                                      0.0 %
	// 2 ███████████████████████████████████████████████████ 85.0 %
	// 3                                                      0.0 %
}

// FuzzSVG holds that names of any bytes leave the file well formed.
func FuzzSVG(f *testing.F) {
	f.Add("acme & sons <script>", 1.5)
	f.Add("\xff\x00\x1b[31m", 0.0)
	f.Add("\uFFFE]]>\"'", 1e300)
	f.Fuzz(func(t *testing.T, name string, v float64) {
		if !(v >= 0) || math.IsInf(v, 0) {
			return
		}
		bar := picture.Bar{Label: name, Shown: name, Note: name, Parts: []picture.Part{{Value: v, Tone: picture.Hot}}}
		chart := picture.Chart{Title: name, Subtitle: name, Panels: []picture.Panel{{Title: name, Bars: []picture.Bar{bar}, Mark: picture.Mark{Value: v, Label: name}}}}
		rects(t, picture.SVG(chart))
		picture.Text(chart, 80)
	})
}

func TestTenantIsReadable(t *testing.T) {
	for tenant, want := range map[string]string{"acme-corp": "acme-corp", "租户-7": "租户-7", "a\nb": "0x610a62", "\xff": "0xff", "": ""} {
		if got := picture.Tenant(tenant); got != want {
			t.Errorf("Tenant(%q) = %q, want %q", tenant, got, want)
		}
	}
}
