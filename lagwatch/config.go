package lagwatch

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/mute"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// Config says what to watch, by which rule, and whom to tell. Only KafkaOpts
// is required.
type Config struct {
	// KafkaOpts reach the cluster: seeds, TLS, SASL.
	KafkaOpts []kgo.Opt
	// Cluster names the cluster in labels; default: the cluster's id.
	Cluster string
	// Groups are the groups to watch: names, or patterns of path.Match. A name
	// without a pattern is watched from the start, seen or not. Default: all
	// that the brokers list.
	Groups []string
	// Topics restricts what of a group is watched, names or patterns. Default:
	// everything it commits or holds.
	Topics []string

	// Rule holds the thresholds; nil: lag.Defaults(). It is taken as it is,
	// where zero means off, so begin with lag.Defaults() and change fields.
	Rule *lag.Rule
	// Overrides replace the rule for some groups and topics; the first that
	// matches counts.
	Overrides []Override

	// Table says whose partitions are whose: pools, and how to read a record's
	// tenant. Nil: the tenant is the record's key, and all partitions of a
	// topic are one pool.
	Table store.Source
	// HashTenants replaces tenants by a hash in all that leaves the process.
	HashTenants bool

	// Targets are told of alerts, Fallback of those that a target refuses.
	Targets  []notify.Target
	Fallback notify.Target
	// Backoff is the wait between tries to tell a target.
	Backoff notify.Backoff
	// HeartbeatURL is posted to after an evaluation that saw everything, once a
	// minute: a dead man's switch that notices silence. Empty: none.
	HeartbeatURL notify.Secret
	// CommandFlags are what a command on a page needs to reach this cluster and
	// its table, like "--table-topic", "tenantlane.routing"; default: none. They
	// leave the process: no secrets.
	CommandFlags []string
	// RunbookURL is put before an alert's name to make its runbook link;
	// default: the project's docs.
	RunbookURL string

	// Election lets one of several watchers tell the targets; nil: this one
	// does.
	Election *Election

	// SampleTimeout bounds a round of questions; default: the interval, at
	// least 3 s and at most 30 s.
	SampleTimeout time.Duration
	// StateFile keeps what must survive a restart; empty: nothing does.
	StateFile string
	// Record receives each snapshot as a line of JSON; nil: none.
	Record io.Writer
	// OnEvaluation is called after each round, from the watcher's goroutine;
	// nil: not called.
	OnEvaluation func(*Evaluation)
	// Maintenance are windows in which alerts do not begin at targets that have
	// no silences of their own.
	Maintenance []mute.Window
	// APIToken lets its holders add silences and markers at the web listener;
	// empty: nobody can.
	APIToken notify.Secret
	// Listen is the address of the web listener (metrics, health); empty:
	// none. Without a host it is the loopback interface.
	Listen string

	// Logger takes what happens; nil: none.
	Logger *zap.Logger
	// Registerer takes the watcher's own metrics; nil: none. Lag metrics are
	// collected from it as well.
	Registerer prometheus.Registerer
	// Gatherer is what /metrics serves; nil: what Registerer gathers, if it
	// can.
	Gatherer prometheus.Gatherer
}

// Override is another rule for some groups and topics.
type Override struct {
	// Group and Topic are names or patterns of path.Match; empty: any.
	Group, Topic string
	// Rule replaces the rule; nil: the rule stays. Its Interval is ignored.
	Rule *lag.Rule
	// Owner is put on the alerts.
	Owner string
	// Severity replaces the severity of what would page: "ticket", "page" or
	// "critical"; empty: it stays. loss_risk always pages.
	Severity string
}

func (o *Override) matches(group, topic string) bool {
	return (o.Group == "" || matches(o.Group, group)) && (o.Topic == "" || matches(o.Topic, topic))
}

// DefaultRunbookURL is where runbooks are unless Config.RunbookURL says
// otherwise.
const DefaultRunbookURL = "https://github.com/tenantlane/tenantlane/blob/main/docs/runbooks/"

func (c Config) withDefaults() Config {
	if c.Rule == nil {
		rule := lag.Defaults()
		c.Rule = &rule
	}
	if c.SampleTimeout == 0 {
		c.SampleTimeout = min(max(c.Rule.Interval, 3*time.Second), 30*time.Second)
	}
	if c.RunbookURL == "" {
		c.RunbookURL = DefaultRunbookURL
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Gatherer == nil {
		c.Gatherer, _ = c.Registerer.(prometheus.Gatherer)
	}
	return c
}

func (c *Config) validate() error {
	if len(c.KafkaOpts) == 0 {
		return errors.New("KafkaOpts: needs at least the seed brokers")
	}
	for field, patterns := range map[string][]string{"Groups": c.Groups, "Topics": c.Topics} {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil || p == "" {
				return fmt.Errorf("%s: %q is not a name or pattern", field, p)
			}
		}
	}
	if err := c.Rule.Validate(); err != nil {
		return fmt.Errorf("Rule: %w", err)
	}
	for i, o := range c.Overrides {
		if _, err := path.Match(o.Group+o.Topic, ""); err != nil {
			return fmt.Errorf("Overrides[%d]: %w", i, err)
		}
		if err := checkSeverity(o.Severity); err != nil {
			return fmt.Errorf("Overrides[%d]: Severity: %w", i, err)
		}
		if o.Rule == nil {
			continue
		}
		r := *o.Rule
		r.Interval = c.Rule.Interval
		if err := r.Validate(); err != nil {
			return fmt.Errorf("Overrides[%d]: Rule: %w", i, err)
		}
	}
	if err := c.Election.validate(); err != nil {
		return err
	}
	if c.SampleTimeout < 0 {
		return fmt.Errorf("SampleTimeout %v: must not be negative", c.SampleTimeout)
	}
	return nil
}

// checkSeverity takes a severity, or none.
func checkSeverity(s string) error {
	if s != "" && !slices.Contains([]string{"ticket", "page", "critical"}, s) {
		return fmt.Errorf("%q is not ticket, page or critical", s)
	}
	return nil
}

// override is what applies to a group and topic: its rule, and the override
// that matched.
func (c *Config) override(group, topic string) (lag.Rule, Override) {
	rule := *c.Rule
	for _, o := range c.Overrides {
		if !o.matches(group, topic) {
			continue
		}
		if o.Rule != nil {
			rule = *o.Rule
			rule.Interval = c.Rule.Interval
		}
		return rule, o
	}
	return rule, Override{}
}

func (c *Config) watchesGroup(name string) bool {
	if c.Election != nil && name == c.Election.Group {
		return false
	}
	return len(c.Groups) == 0 || anyMatches(c.Groups, name)
}

func (c *Config) watchesTopic(name string) bool {
	return len(c.Topics) == 0 || anyMatches(c.Topics, name)
}

// literalGroups are the configured names that are not patterns: they are
// watched before anyone has seen them.
func (c *Config) literalGroups() []string {
	var out []string
	for _, g := range c.Groups {
		if !isPattern(g) {
			out = append(out, g)
		}
	}
	return out
}

// lists is true when groups have to be listed to know which to watch.
func (c *Config) lists() bool { return len(c.Groups) == 0 || len(c.literalGroups()) < len(c.Groups) }

func anyMatches(patterns []string, name string) bool {
	for _, p := range patterns {
		if matches(p, name) {
			return true
		}
	}
	return false
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return pattern == name || err == nil && ok
}

func isPattern(s string) bool {
	for _, c := range s {
		if c == '*' || c == '?' || c == '[' || c == '\\' {
			return true
		}
	}
	return false
}
