package store

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// The defaults of [TopicConfig].
const (
	// DefaultPrefix begins the names of the topics that hold the table.
	DefaultPrefix = "tenantlane."
	// DefaultHeartbeat is how often a [Topic] makes sure that it has read to
	// the end.
	DefaultHeartbeat = 2 * time.Second
	// DefaultLoadTimeout bounds the first load.
	DefaultLoadTimeout = 30 * time.Second
	// DefaultTransactionTimeout is after how long the broker ends a killed
	// writer's transaction. Until then no reader passes it.
	DefaultTransactionTimeout = 5 * time.Second
	// DefaultReloadAfter is how long a reader may be out of touch before it
	// reads from the start again. It is below the topic's minimum compaction
	// lag, within which a reader misses nothing by compaction.
	DefaultReloadAfter = 50 * time.Minute
	// DefaultLease is how long a session lives without being renewed, and
	// DefaultRenewal how often it is.
	DefaultLease   = 15 * time.Second
	DefaultRenewal = 5 * time.Second
)

// TopicConfig says how a [Topic] behaves. KafkaOpts is needed, everything else
// has a default.
type TopicConfig struct {
	// KafkaOpts reach the cluster: seed brokers, TLS, SASL, client id. They must
	// not concern consuming, producing or transactions, which the store sets.
	KafkaOpts []kgo.Opt
	// Prefix of the topics' names, DefaultPrefix if empty: the prefix followed
	// by routing, sessions and history. It is also the transactional id's.
	Prefix string
	// Create makes the topics that are missing. Without it a missing topic is
	// an error.
	Create bool
	// Replicas of topics that are created; 0 means the brokers' default.
	Replicas int16
	// Empty takes a routing topic without a table for an empty table of
	// revision 0, which is how the first table gets into it. Without it that is
	// routing.ErrNoTable.
	Empty bool
	// Heartbeat is the time between two looks at the topic's end, which is what
	// Age counts from; DefaultHeartbeat if 0.
	Heartbeat time.Duration
	// LoadTimeout bounds OpenTopic's first load, DefaultLoadTimeout if 0.
	LoadTimeout time.Duration
	// TransactionTimeout of the writer, DefaultTransactionTimeout if 0.
	TransactionTimeout time.Duration
	// ReloadAfter is how long the view may go without a heartbeat before it is
	// read anew from the start, DefaultReloadAfter if 0.
	ReloadAfter time.Duration
	// Lease and Renewal of sessions, DefaultLease and DefaultRenewal if 0.
	// Everyone on one table must use the same lease.
	Lease, Renewal time.Duration
	// LeaveExpired leaves moves alone that are open past their deadline. Without
	// it any store that may change the table aborts them, so that records which
	// producers hold back do not wait for a coordinator that is gone.
	LeaveExpired bool
	// Logger takes a line for each change, refusal and reload; nil means none.
	Logger *zap.Logger
	// Registerer takes the metrics tenantlane_table_*; nil means none. Two
	// stores on one Registerer need prometheus.WrapRegistererWith.
	Registerer prometheus.Registerer
}

func (c TopicConfig) withDefaults() TopicConfig {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	for _, d := range []struct {
		field  *time.Duration
		normal time.Duration
	}{
		{&c.Heartbeat, DefaultHeartbeat},
		{&c.LoadTimeout, DefaultLoadTimeout},
		{&c.TransactionTimeout, DefaultTransactionTimeout},
		{&c.ReloadAfter, DefaultReloadAfter},
		{&c.Lease, DefaultLease},
		{&c.Renewal, DefaultRenewal},
	} {
		if *d.field == 0 {
			*d.field = d.normal
		}
	}
	if c.Replicas == 0 {
		c.Replicas = -1
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func (c TopicConfig) validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Heartbeat", c.Heartbeat},
		{"LoadTimeout", c.LoadTimeout},
		{"TransactionTimeout", c.TransactionTimeout},
		{"ReloadAfter", c.ReloadAfter},
		{"Lease", c.Lease},
		{"Renewal", c.Renewal},
	} {
		if d.value < time.Millisecond {
			return fmt.Errorf("%s is %v, must be at least 1ms", d.name, d.value)
		}
	}
	if len(c.KafkaOpts) == 0 {
		return fmt.Errorf("KafkaOpts is empty, must name the seed brokers at least")
	}
	if c.Renewal > c.Lease/2 {
		return fmt.Errorf("Renewal is %v, must be at most half of Lease, which is %v", c.Renewal, c.Lease)
	}
	if c.Heartbeat > c.Lease/2 {
		return fmt.Errorf("Heartbeat is %v, must be at most half of Lease, which is %v", c.Heartbeat, c.Lease)
	}
	return nil
}

// RoutingTopic holds the table and the sessions' registrations.
func (c TopicConfig) RoutingTopic() string { return c.withDefaults().Prefix + "routing" }

// SessionsTopic holds the sessions' leases.
func (c TopicConfig) SessionsTopic() string { return c.withDefaults().Prefix + "sessions" }

// HistoryTopic holds who changed what, and why.
func (c TopicConfig) HistoryTopic() string { return c.withDefaults().Prefix + "history" }

// transactionalID is one for all writers, so that each new one fences the one
// before it.
func (c TopicConfig) transactionalID() string { return c.Prefix + "routing" }

// opts are the caller's options and then the store's own, which win.
func (c TopicConfig) opts(more ...kgo.Opt) []kgo.Opt {
	own := []kgo.Opt{kgo.MetadataMinAge(retryPause)} // 5 s would be how long a new leader stays unknown
	return append(append(own, c.KafkaOpts...), more...)
}
