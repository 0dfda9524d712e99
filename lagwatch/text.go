package lagwatch

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// textPartitions is how many partitions of a pool WriteText lists: those that
// are not well, then those that lag most.
const textPartitions = 5

// WriteText prints an evaluation for a person: what fires, what is not seen,
// then each pool with its worst partitions.
func (e *Evaluation) WriteText(out io.Writer) error {
	var b strings.Builder
	e.writeVerdict(&b)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GROUP\tTOPIC\tPOOL\tPARTITION\tLAG\tDELAY\tRATIO\tCLASS")
	for i := range e.Groups {
		e.Groups[i].writeRows(w)
	}
	if len(e.Groups) > 0 {
		if err := w.Flush(); err != nil {
			return fmt.Errorf("evaluation: %w", err)
		}
	}
	e.writeMembers(&b)
	for _, problem := range e.Errors {
		fmt.Fprintf(&b, "not answered: %s\n", problem)
	}
	if len(e.Skipped) > 0 {
		fmt.Fprintf(&b, "one look has no history, so these parts of the rule were skipped: %s\n", strings.Join(e.Skipped, ", "))
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	return nil
}

// writeVerdict says the answer in a sentence per alert. Blindness never reads
// like health.
func (e *Evaluation) writeVerdict(b *strings.Builder) {
	for i := range e.Groups {
		for _, f := range e.Groups[i].Firing {
			fmt.Fprintf(b, "%s %s: %s\n", strings.ToUpper(f.Severity), f.Alert, f.Summary)
		}
	}
	for i := range e.Topics {
		for _, f := range e.Topics[i].Firing {
			fmt.Fprintf(b, "%s %s: %s\n", strings.ToUpper(f.Severity), f.Alert, f.Summary)
		}
		for _, m := range e.Topics[i].Moves {
			m.writeText(b, e.Topics[i].Topic)
		}
	}
	switch {
	case e.Blind && e.Unknown == 0:
		b.WriteString("BLIND: not everything could be seen; nothing is known about what was not.\n")
	case e.Blind:
		fmt.Fprintf(b, "BLIND: %d partitions and perhaps more could not be seen; nothing is known about them.\n", e.Unknown)
	case len(e.Groups) == 0:
		b.WriteString("There is no group to watch.\n")
	case !e.Fires():
		b.WriteString("Nothing fires, and everything was seen.\n")
	}
}

// writeMembers says how each group is, which is the same in all its pools.
func (e *Evaluation) writeMembers(b *strings.Builder) {
	told := map[string]bool{}
	for i := range e.Groups {
		if g := &e.Groups[i]; g.State != "" && !told[g.Group] {
			told[g.Group] = true
			fmt.Fprintf(b, "group %s: %s, members: %d\n", g.Group, g.State, g.Members)
		}
	}
}

func (m *MoveEvaluation) writeText(b *strings.Builder, topic string) {
	what := fmt.Sprintf("%d slots", m.Slots)
	if m.Tenant != "" {
		what = "tenant " + m.Tenant
	}
	fmt.Fprintf(b, "move %s of %s in %s: %s to %s, %s", m.Move, what, topic, partitionsText(m.From), partitionsText(m.To), m.State)
	if len(m.WaitingFor) > 0 {
		fmt.Fprintf(b, ", waits for group %s", strings.Join(m.WaitingFor, ", "))
	}
	b.WriteByte('\n')
}

func (g *PoolEvaluation) writeRows(w io.Writer) {
	if len(g.Partitions) == 0 {
		state := g.State
		if state == "" {
			state = "not seen"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t-\t-\t-\t-\t%s\n", g.Group, g.Topic, g.Pool, state)
		return
	}
	shown := g.worst(textPartitions)
	for _, p := range shown {
		lagText, delay, ratio := "?", "?", "?"
		switch {
		case p.Known && !p.Committed:
			lagText, delay, ratio = "-", "-", "-"
		case p.Known:
			lagText, ratio = fmt.Sprint(p.Lag), fmt.Sprintf("%.1f", p.Ratio)
			delay = short(p.Delay)
			if p.DelayBound {
				delay = "≥ " + delay
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", g.Group, g.Topic, g.Pool, p.Partition, lagText, delay, ratio, p.Class)
	}
	if rest := len(g.Partitions) - len(shown); rest > 0 {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d more\t\t\t\t\n", g.Group, g.Topic, g.Pool, rest)
	}
}

// worst is the n partitions most worth a look.
func (g *PoolEvaluation) worst(n int) []PartitionEvaluation {
	rank := func(p *PartitionEvaluation) int {
		switch {
		case p.Firing:
			return 2
		case p.Class != lag.OK && p.Class != lag.Idle:
			return 1
		}
		return 0
	}
	out := append([]PartitionEvaluation(nil), g.Partitions...)
	slices.SortStableFunc(out, func(a, b PartitionEvaluation) int {
		// Among those of one rank too the lag decides: a pool that is behind as
		// a whole would else show its first partitions, not its worst.
		return cmp.Or(cmp.Compare(rank(&b), rank(&a)), cmp.Compare(b.Lag, a.Lag))
	})
	return out[:min(n, len(out))]
}
