package picture

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantlane/tenantlane/rebalance/plan"
)

// hotAt is how many times the mean a partition must hold to be drawn as hot.
const hotAt = 1.5

// Whales draws the partitions' volumes before and after a plan, in means.
func Whales(p *plan.WhalesPlan) Chart {
	c := Chart{
		Title: "Volume per partition, in means",
		Subtitle: fmt.Sprintf("max/mean %.2f before, %.2f after; %d of the tenants placed by name",
			p.Before.MaxMean, p.After.MaxMean, len(p.Whales)),
		Legend: [tones]string{Plain: "by slot", Accent: "by placement", Hot: "far above the mean"},
	}
	before := Panel{Title: "before", Mark: Mark{1, "mean"}}
	after := Panel{Title: "after", Mark: Mark{1, "mean"}}
	mean := meanOf(p.LoadsAfter)
	placed, names := pieces(p)
	for i, load := range p.LoadsBefore {
		before.Bars = append(before.Bars, Bar{Label: strconv.Itoa(i), Shown: ratio(load / mean), Parts: []Part{{load / mean, heat(load / mean)}}})
	}
	for i, load := range p.LoadsAfter {
		after.Bars = append(after.Bars, Bar{
			Label: strconv.Itoa(i), Shown: ratio(load / mean), Note: strings.Join(names[i], ", "),
			Parts: []Part{{placed[i] / mean, Accent}, {max(0, load-placed[i]) / mean, Plain}},
		})
	}
	c.Panels = []Panel{before, after}
	return c
}

// pieces sums the whales' volume on each partition and names them.
func pieces(p *plan.WhalesPlan) ([]float64, [][]string) {
	placed, names := make([]float64, len(p.LoadsAfter)), make([][]string, len(p.LoadsAfter))
	for _, w := range p.Whales {
		name := Tenant(w.Tenant)
		if n := len(w.Partitions); n > 1 {
			name += " 1/" + strconv.Itoa(n)
		}
		for _, to := range w.Partitions {
			placed[to] += w.Volume / float64(len(w.Partitions))
			names[to] = append(names[to], name)
		}
	}
	return placed, names
}

// Growth draws the share of keys that each strategy moves.
func Growth(r plan.GrowthReport, from, to int32) Chart {
	panel := Panel{Title: "keys that change partition"}
	if from < to {
		least := float64(to-from) / float64(to)
		panel.Mark = Mark{least, fmt.Sprintf("new partitions' share, %.1f %%", 100*least)}
	}
	for _, s := range r.Strategies {
		share := 0.0
		if s.Of > 0 {
			share = float64(s.Keys) / float64(s.Of)
		}
		tone := Plain
		if s.Strategy == "slots" {
			tone = Accent
		}
		panel.Bars = append(panel.Bars, Bar{
			Label: s.Strategy, Shown: fmt.Sprintf("%.1f %%", 100*share),
			Note: fmt.Sprintf("%d of %d keys, %.1f %% of volume", s.Keys, s.Of, 100*s.Volume), Parts: []Part{{share, tone}},
		})
	}
	return Chart{
		Title:    fmt.Sprintf("From %d to %d partitions: what moves", from, to),
		Subtitle: fmt.Sprintf("%d slot moves reach max/mean %.2f; no plan needs fewer than %d", len(r.Balance.Moves), r.Balance.Skew.MaxMean, r.Balance.AtLeast),
		Panels:   []Panel{panel},
	}
}

// Hash draws how full partitions get by the hash of candidate keys.
func Hash(name string, r plan.HashReport) Chart {
	panel := Panel{Title: "share of the records per partition"}
	var sum float64
	for _, n := range r.Counts {
		sum += n
	}
	panel.Mark = Mark{1 / float64(len(r.Counts)), "fair share"}
	for i, n := range r.Counts {
		share := 0.0
		if sum > 0 {
			share = n / sum
		}
		panel.Bars = append(panel.Bars, Bar{
			Label: strconv.Itoa(i), Shown: fmt.Sprintf("%.1f %%", 100*share),
			Parts: []Part{{share, heat(share * float64(len(r.Counts)))}},
		})
	}
	return Chart{
		Title:    "Keys of " + name,
		Legend:   [tones]string{Hot: "far above a fair share"},
		Subtitle: fmt.Sprintf("the hottest partition takes %.1f %%", 100*r.HottestShare),
		Panels:   []Panel{panel},
	}
}

// Sizes draws the partitions that a load needs, by concurrency; chosen is the
// concurrency asked for.
func Sizes(sizes map[int]int, chosen int) Chart {
	panel := Panel{Title: "partitions by concurrency", Mark: Mark{plan.WarnPartitions, fmt.Sprintf("%d partitions", plan.WarnPartitions)}}
	for _, k := range slices.Sorted(maps.Keys(sizes)) {
		bar := Bar{Label: strconv.Itoa(k), Shown: strconv.Itoa(sizes[k])}
		tone := Plain
		if k == chosen {
			tone, bar.Note = Accent, "asked for"
		}
		bar.Parts = []Part{{float64(sizes[k]), tone}}
		panel.Bars = append(panel.Bars, bar)
	}
	return Chart{
		Title:    "Partitions that carry the load",
		Subtitle: "by how many handlers run at once per partition",
		Panels:   []Panel{panel},
	}
}

func heat(means float64) Tone {
	if means > hotAt {
		return Hot
	}
	return Plain
}

func ratio(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

func meanOf(loads []float64) float64 {
	var sum float64
	for _, l := range loads {
		sum += l
	}
	return sum / float64(max(1, len(loads)))
}
