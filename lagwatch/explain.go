package lagwatch

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// Explanation says why a partition did or did not page.
type Explanation struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Pool      string `json:"pool"`
	Partition int32  `json:"partition"`
	Class     string `json:"class"`
	Hold      string `json:"hold,omitempty"`
	// Firing are its open alerts.
	Firing []string `json:"firing"`
	// Verdict is the answer in a sentence.
	Verdict string  `json:"verdict"`
	Tenant  string  `json:"tenant,omitempty"`
	Share   float64 `json:"share,omitempty"`
	// Checks are the conditions with their values.
	Checks []ExplainedCheck `json:"checks"`
}

// ExplainedCheck is one condition.
type ExplainedCheck struct {
	// Part is what it decides: "hot", "window", "hold", "clear" or "other".
	Part      string  `json:"part"`
	Condition string  `json:"condition"`
	Value     float64 `json:"value"`
	Limit     float64 `json:"limit"`
	Holds     bool    `json:"holds"`
}

// Explain explains a partition as of the last look of Run or Once; false when
// the watcher knows no such partition. Not safe beside a running Run.
func (w *Watcher) Explain(group, topic string, partition int32) (*Explanation, bool) {
	return w.engine.explain(group, topic, partition)
}

func (e *engine) explain(group, topic string, partition int32) (*Explanation, bool) {
	p, ok := e.pairs[pairKey{group, topic}]
	if !ok {
		return nil, false
	}
	x, ok := p.tracker.Explain(partition)
	if !ok {
		return nil, false
	}
	out := &Explanation{
		Group: group, Topic: topic, Pool: x.Pool, Partition: partition, Class: x.Class.String(), Hold: x.Hold.String(),
		Firing: append([]string{}, x.Firing...), Verdict: verdictText(&x),
	}
	for _, part := range []struct {
		name   string
		checks []lag.Check
	}{{"hot", x.Hot}, {"window", x.Window}, {"hold", x.Holds}, {"clear", x.Clear}, {"other", x.Other}} {
		for _, c := range part.checks {
			out.Checks = append(out.Checks, ExplainedCheck{part.name, c.Name, rounded(c.Value), rounded(c.Limit), c.OK})
		}
	}
	for id, a := range e.named {
		if strings.Contains(id, "\x00"+group+"\x00"+topic+"\x00"+x.Pool) {
			out.Tenant, _ = e.shown(a.tenant)
			out.Share = rounded(a.share)
		}
	}
	return out, true
}

// verdictText is why it pages, or the first thing that keeps it from paging.
func verdictText(x *lag.Explanation) string {
	switch {
	case x.Class == lag.Unknown:
		return "It was not seen in the last round: nothing is decided about it, and nothing open ends."
	case len(x.Firing) > 0:
		return fmt.Sprintf("It fires since %s: %s.", x.Since.Format("15:04:05"), strings.Join(x.Firing, ", "))
	case x.Frozen:
		return "Its group is rebalancing, which suspends judgment."
	}
	for _, c := range x.Hot {
		if !c.OK {
			return fmt.Sprintf("It is not hot: %q does not hold (%.4g, limit %.4g).", c.Name, c.Value, c.Limit)
		}
	}
	for _, c := range x.Window {
		if !c.OK {
			return fmt.Sprintf("It is hot, not for long enough: %q is %.4g, and must reach %.4g.", c.Name, c.Value, c.Limit)
		}
	}
	if x.Hold != lag.HoldNone {
		return fmt.Sprintf("It is hot and would page, but is held: it is %s.", x.Hold)
	}
	return "It is hot and waits for a look at whether anything can be read there."
}

// WriteText prints an explanation for a person.
func (x *Explanation) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Partition %d of %s, group %s, pool %s: %s\n%s\n", x.Partition, x.Topic, x.Group, x.Pool, x.Class, x.Verdict)
	if x.Tenant != "" {
		fmt.Fprintf(w, "Tenant %s is %.0f %% of what waits.\n", x.Tenant, 100*x.Share)
	}
	fmt.Fprintln(w, "\nPART\tCONDITION\tVALUE\tLIMIT\t")
	for _, c := range x.Checks {
		holds := "no"
		if c.Holds {
			holds = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%.6g\t%.6g\t%s\n", c.Part, c.Condition, c.Value, c.Limit, holds)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("explanation: %w", err)
	}
	return nil
}
