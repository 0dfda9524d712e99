package lagwatch

import (
	"bytes"
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// overrideYAML is one entry of a file of overrides; what is absent stays as in
// the base rule.
type overrideYAML struct {
	Group         string        `yaml:"group"`
	Topic         string        `yaml:"topic"`
	Owner         string        `yaml:"owner"`
	Severity      string        `yaml:"severity"`
	Ratio         *float64      `yaml:"ratio"`
	CriticalRatio *float64      `yaml:"critical_ratio"`
	MinLag        *int64        `yaml:"min_lag"`
	MinDelay      *durationYAML `yaml:"min_delay"`
	MaxDelay      *durationYAML `yaml:"max_delay"`
	For           *durationYAML `yaml:"for"`
	KeepFiring    *durationYAML `yaml:"keep_firing_for"`
	DrainOK       *durationYAML `yaml:"drain_ok"`
	TxnHanging    *durationYAML `yaml:"txn_hanging"`
	BehindPages   *bool         `yaml:"behind_pages"`
}

// durationYAML is a duration as Go writes it, like 90s or 5m.
type durationYAML time.Duration

// UnmarshalYAML reads the text.
func (d *durationYAML) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := time.ParseDuration(node.Value)
	if err != nil {
		return fmt.Errorf("line %d: %q is not a duration like 90s or 5m", node.Line, node.Value)
	}
	*d = durationYAML(parsed)
	return nil
}

// ParseOverrides reads a file of overrides: a list, of which the first entry
// that matches a group and topic counts.
//
//   - group: billing-*
//     owner: payments
//     min_lag: 50000
//     for: 10m
//   - topic: audit
//     behind_pages: true
//   - group: staging-*
//     severity: ticket
//
// What an entry does not name stays as in base. Unknown fields are errors.
func ParseOverrides(text []byte, base lag.Rule) ([]Override, error) {
	var entries []overrideYAML
	if len(bytes.TrimSpace(text)) > 0 {
		if err := yaml.Load(text, &entries, yaml.WithKnownFields()); err != nil {
			return nil, fmt.Errorf("overrides: %w", err)
		}
	}
	out := make([]Override, len(entries))
	for i := range entries {
		rule := entries[i].rule(base)
		if err := rule.Validate(); err != nil {
			return nil, fmt.Errorf("overrides: entry %d: %w", i+1, err)
		}
		if err := checkSeverity(entries[i].Severity); err != nil {
			return nil, fmt.Errorf("overrides: entry %d: severity: %w", i+1, err)
		}
		out[i] = Override{Group: entries[i].Group, Topic: entries[i].Topic, Owner: entries[i].Owner, Severity: entries[i].Severity, Rule: &rule}
	}
	return out, nil
}

func (o *overrideYAML) rule(r lag.Rule) lag.Rule {
	set(&r.Ratio, o.Ratio)
	set(&r.CriticalRatio, o.CriticalRatio)
	set(&r.MinLag, o.MinLag)
	set(&r.BehindPages, o.BehindPages)
	for _, d := range []struct {
		to   *time.Duration
		from *durationYAML
	}{
		{&r.MinDelay, o.MinDelay},
		{&r.MaxDelay, o.MaxDelay},
		{&r.For, o.For},
		{&r.KeepFiring, o.KeepFiring},
		{&r.DrainOK, o.DrainOK},
		{&r.TxnHanging, o.TxnHanging},
	} {
		set(d.to, (*time.Duration)(d.from))
	}
	return r
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
