package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// Config says what a Runtime consumes and how. Group and Topics are required;
// the zero value of every other field is its default.
type Config struct {
	// Group is the consumer group's id.
	Group string
	// Topics are the topics to consume, at least one.
	Topics []string
	// Table says whose a record is (tenant_of) and which tier a tenant is
	// in. Nil, or a topic the table does not name: the tenant is the key.
	Table store.Source
	// Concurrency is how many handlers run at once, at least 1. Default 16.
	Concurrency int

	// InstanceID makes the worker a static member of the group: a restart
	// within the session timeout causes no rebalance. Each worker needs its
	// own. A classic static member does not leave the group on a stop.
	InstanceID string
	// ServerAssignor lets the brokers assign partitions (KIP-848) where they
	// are Kafka 4.0 or newer; 4.3 is advised. The whale-aware spreading of
	// dedicated partitions is the brokers' choice then.
	ServerAssignor bool
	// SpreadWhales assigns the partitions that the table dedicates to whales
	// first, evenly over the members, and then the others by planned volume
	// (rebalance.Balancer). Whoever leads the group decides: set it for all
	// members. It needs Table, and does nothing with ServerAssignor.
	SpreadWhales bool
	// BatchSize is the most records that a BatchHandler gets at once. Default
	// 64.
	BatchSize int

	// MaxRecords and MaxBytes bound what waits in the worker, over all
	// partitions. At either bound it admits no more until an eighth is free;
	// up to 4,096 records may overshoot the bytes. What the client has fetched
	// waits outside of them, up to two responses of each broker
	// (kgo.FetchMaxBytes, 50 MiB by default). Defaults 100,000 and 256 MiB.
	MaxRecords int
	MaxBytes   int64
	// KeepRecords lets handlers keep the client's record, Record.Record, beyond
	// their return, as one that passes it on without waiting does. By default
	// its memory is another record's then, which spares a tenth of the
	// processor time of a handler that does next to nothing.
	KeepRecords bool

	// Order says what is kept in order; default OrderTenant.
	Order Order
	// OrderKey is the part of a record that OrderKeys keeps in order beside
	// its tenant. It must depend on nothing but the record.
	OrderKey func(*kgo.Record) []byte
	// OrderKeyVersion names what OrderKey does. Change it whenever OrderKey
	// changes: it keeps a worker from trusting what one with other lanes
	// committed. Without it commits name no lanes, so that a crash repeats
	// more.
	OrderKeyVersion string
	// Cost is what a record counts for in rate limits, and in the estimate of
	// its handler time: ten for one that takes ten times as long. At most a
	// million; 0, less, or nil: 1. It is called often, and must be quick and
	// depend on nothing but the record.
	Cost func(*kgo.Record) float64
	// TenantConcurrency is how many lanes of one tenant run at once, over all
	// partitions of a worker, where the table does not say otherwise.
	// Default 1; negative: no limit.
	TenantConcurrency int

	// Resources are what handlers share beside Kafka, by name, and how much of
	// each the worker may use at once: Record.Acquire waits for it. Each worker
	// has the whole of it.
	Resources map[string]Resource

	// MetadataChars bounds what a commit says of one partition beyond its
	// offset: about one lane that is behind for each ten characters. Default
	// 1,024, and twice that while a worker looks for the lanes of the last
	// commit; at most the broker's offset.metadata.max.bytes (4,096 by
	// default). Negative: nothing is said, and a crash repeats everything
	// above the first unfinished record.
	MetadataChars int
	// LaneRecords and LaneBytes bound one lane in memory once half of what
	// the worker may hold is taken; before, a lane may have that half. A lane
	// that is fuller overflows: the worker reads on, and reads what it skipped again
	// when the lane has room, so that a whale does not hold back its
	// partition's other tenants. Defaults: a 256th of MaxRecords and a 32nd
	// of MaxBytes.
	LaneRecords int
	LaneBytes   int64
	// RereadRatio bounds what is read again: beside a tail that reads all
	// once, so many bytes for each byte that is read for the first time, and
	// 1 MiB a second for each partition. What a partition does not need of it
	// others may use. Default 2; negative: none.
	RereadRatio float64
	// MaxDistance is how many offsets a runnable lane that overflows may be
	// behind its partition's cursor; then TooFar applies. A lane that is
	// parked or paused, or that waits for a move, may be any number behind.
	// Default 10,000,000.
	MaxDistance int64
	// TooFar says what becomes of a partition whose lane is further behind.
	TooFar TooFar

	// HandlerTimeout is the deadline of one handling, checked to about a
	// tenth of it. A handler that ignores it keeps its lane, so that order
	// holds, but gives its worker slot back. Default 30 s; negative: none.
	HandlerTimeout time.Duration
	// Retry says what a failed attempt leads to.
	Retry Retry
	// NoTenant says what becomes of records without a tenant.
	NoTenant NoTenant
	// ForeignStamps says what becomes of a record that was routed by a table
	// that is not Table.
	ForeignStamps ForeignStamps
	// DeadLetterTopic names the topic for the dead letters of a topic.
	// Default: the topic with ".tl-dlq" appended. The topic must exist.
	DeadLetterTopic func(topic string) string

	// Start is where a partition begins when the group has no commit for
	// it. A group that has any commit in the topic begins a partition
	// without one at its log start, since it was added later.
	Start Start
	// StartTime, when set, replaces Start: the first record stamped at or
	// after it.
	StartTime time.Time

	// StallAfter is how long a partition's first unfinished record may stay
	// the same before it is reported, with what it waits for. Default 1 min;
	// negative: never.
	StallAfter time.Duration

	// CommitInterval is the time between commits. Default 1 s, at least
	// 10 ms. What completed since the last one repeats after a crash.
	CommitInterval time.Duration
	// RebalanceTimeout is how long members have to hand partitions over.
	// Default 60 s.
	RebalanceTimeout time.Duration
	// DrainTimeout bounds how long a stop, and the hand-over of a revoked
	// partition, waits for records in the worker. Default 20 s, at most
	// half of RebalanceTimeout; negative: only for running handlers'
	// return after their contexts have ended, at most a second.
	DrainTimeout time.Duration

	// KafkaOpts are passed to the client before the runtime's own options:
	// brokers, TLS, SASL, client id. Options that this Config covers, and
	// those that change how a group commits or balances, are overridden.
	KafkaOpts []kgo.Opt
	// OnAssign, if not nil, is called with the partitions that the worker was
	// given, before the first record of any of them is handled, and with none
	// when a rebalance gave it nothing new. It holds up the group: be quick.
	OnAssign func([]Assigned)
	// OnCommit, if not nil, is called after each acknowledged commit with
	// what was committed, from one goroutine at a time. A slow one delays
	// commits.
	OnCommit func([]Committed)
	// Logger takes structured logs. Nil: none.
	Logger *zap.Logger
	// Registerer takes the metrics. Nil: none are exported.
	Registerer prometheus.Registerer
	// TenantMetrics is of how many tenants at most depth and rate are exported,
	// at most 100: those that want a look first, then the deepest. Default
	// none, since each is a series, also when others take their place.
	TenantMetrics int

	batched bool // the handler is a BatchHandler
}

// Retry is the policy for failed attempts. The wait before attempt n+1 is
// drawn evenly from the upper half of min(Max, Min·2^(n−1)).
type Retry struct {
	// Min and Max bound the back-off. Defaults 100 ms and 30 s.
	Min, Max time.Duration
	// Attempts is how many failed attempts a record has; then Exhausted
	// applies. 0: no end.
	Attempts int
	// Exhausted is what becomes of a record whose attempts are used up, or
	// whose handler answered Permanent.
	Exhausted Exhausted
}

// Exhausted is what becomes of a record that cannot be handled.
type Exhausted uint8

const (
	// Park stops the record's lane until an operator resumes it: order is
	// kept, nothing is lost, and only that lane waits.
	Park Exhausted = iota
	// DeadLetter writes the record to the dead-letter topic and goes on
	// once the broker has acknowledged it.
	DeadLetter
)

// TooFar is what becomes of a partition when one of its lanes is more than
// Config.MaxDistance behind.
type TooFar uint8

const (
	// TooFarPause does not read the partition on until the lane has caught up:
	// all of its tenants wait for one.
	TooFarPause TooFar = iota
	// TooFarDeadLetter writes that lane's oldest records to the dead-letter
	// topic, unhandled and in order, until the lane is an eighth within the
	// limit, and handles what follows once the broker has acknowledged them. Of
	// a lane that had been parked or paused, or had waited for a move, and of
	// every lane after a restart, only what the cursor has read since counts.
	// A handler that hangs keeps its lane: that one's distance grows.
	TooFarDeadLetter
)

// Order says which records of a tenant are kept in order. How tenants share
// the workers is the same for all.
type Order uint8

const (
	// OrderTenant: all records of a tenant in one partition. Those that were
	// produced under "spread: key" only per key.
	OrderTenant Order = iota
	// OrderKeys: those of equal OrderKey.
	OrderKeys
	// OrderNone: none; they may run together, up to TenantConcurrency grants.
	OrderNone
)

// NoTenant is what becomes of records that have no tenant.
type NoTenant uint8

const (
	// NoTenantLane handles them in one ordered lane per partition.
	NoTenantLane NoTenant = iota
	// NoTenantError stops their partition with an error.
	NoTenantError
	// NoTenantSkip counts them and steps over.
	NoTenantSkip
	// NoTenantDeadLetter writes them to the dead-letter topic, in order.
	NoTenantDeadLetter
)

// ForeignStamps is what becomes of a record whose tl-route header names an epoch
// that the routing table, read to its end, has not reached, in a topic whose
// producers are all wrapped: it was stamped by another table, as where a topic
// was mirrored from another cluster, or the worker reads the wrong one.
type ForeignStamps uint8

const (
	// ForeignPark parks its lane, since order across moves cannot be kept.
	ForeignPark ForeignStamps = iota
	// ForeignHandle handles it like any other.
	ForeignHandle
)

// Start is where a partition begins that the group never committed.
type Start uint8

const (
	// StartEarliest begins at the log start.
	StartEarliest Start = iota
	// StartLatest begins at the end, as it was when the Runtime was made.
	StartLatest
)

const (
	defaultConcurrency      = 16
	defaultMaxRecords       = 100_000
	defaultMaxBytes         = 256 << 20
	defaultHandlerTimeout   = 30 * time.Second
	defaultCommitInterval   = time.Second
	defaultRebalanceTimeout = 60 * time.Second
	defaultDrainTimeout     = 20 * time.Second
	defaultRetryMin         = 100 * time.Millisecond
	defaultRetryMax         = 30 * time.Second
	defaultRereadRatio      = 2
	defaultMaxDistance      = 10_000_000
	defaultBatchSize        = 64
	defaultStallAfter       = time.Minute

	maxTenantMetrics = 100

	// DeadLetterSuffix is what the default DeadLetterTopic appends.
	DeadLetterSuffix = ".tl-dlq"
)

// withDefaults returns c with every zero field set to its default.
func (c Config) withDefaults() Config {
	setDefault(&c.Concurrency, defaultConcurrency)
	setDefault(&c.MaxRecords, defaultMaxRecords)
	setDefault(&c.MaxBytes, defaultMaxBytes)
	setDefault(&c.MetadataChars, offset.DefaultChars)
	setDefault(&c.LaneRecords, max(c.MaxRecords/256, 8))
	setDefault(&c.LaneBytes, max(c.MaxBytes/32, 1<<16))
	setDefault(&c.RereadRatio, defaultRereadRatio)
	setDefault(&c.MaxDistance, defaultMaxDistance)
	setDefault(&c.BatchSize, defaultBatchSize)
	setDefault(&c.StallAfter, defaultStallAfter)
	setDefault(&c.HandlerTimeout, defaultHandlerTimeout)
	setDefault(&c.CommitInterval, defaultCommitInterval)
	setDefault(&c.RebalanceTimeout, defaultRebalanceTimeout)
	setDefault(&c.DrainTimeout, min(defaultDrainTimeout, c.RebalanceTimeout/2))
	setDefault(&c.Retry.Min, defaultRetryMin)
	setDefault(&c.Retry.Max, max(defaultRetryMax, c.Retry.Min))
	if c.DeadLetterTopic == nil {
		c.DeadLetterTopic = func(topic string) string { return topic + DeadLetterSuffix }
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

// laneTime is how long a grant may be expected to take.
func (c *Config) laneTime() time.Duration {
	if c.batched {
		return batchTime
	}
	return laneTime
}

// tenantConcurrency is what the scheduler is told.
func (c *Config) tenantConcurrency() int {
	if c.TenantConcurrency == 0 && c.Order == OrderNone {
		return -1
	}
	return c.TenantConcurrency
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate names the first field that is wrong. It wants defaults applied.
func (c *Config) validate() error {
	switch {
	case c.Group == "":
		return errors.New("consumer.Config: Group is empty")
	case len(c.Topics) == 0:
		return errors.New("consumer.Config: Topics is empty")
	case c.Concurrency < 1:
		return fmt.Errorf("consumer.Config: Concurrency %d is below 1", c.Concurrency)
	case c.SpreadWhales && c.Table == nil:
		return errors.New("consumer.Config: SpreadWhales needs Table")
	case c.TenantMetrics < 0 || c.TenantMetrics > maxTenantMetrics:
		return fmt.Errorf("consumer.Config: TenantMetrics %d is not in [0, %d]", c.TenantMetrics, maxTenantMetrics)
	case c.MaxRecords < 1:
		return fmt.Errorf("consumer.Config: MaxRecords %d is below 1", c.MaxRecords)
	case c.MaxBytes < 1:
		return fmt.Errorf("consumer.Config: MaxBytes %d is below 1", c.MaxBytes)
	case c.BatchSize < 1:
		return fmt.Errorf("consumer.Config: BatchSize %d is below 1", c.BatchSize)
	case c.LaneRecords < 1:
		return fmt.Errorf("consumer.Config: LaneRecords %d is below 1", c.LaneRecords)
	case c.LaneBytes < 1:
		return fmt.Errorf("consumer.Config: LaneBytes %d is below 1", c.LaneBytes)
	case c.MaxDistance < 1:
		return fmt.Errorf("consumer.Config: MaxDistance %d is below 1", c.MaxDistance)
	case c.CommitInterval < 10*time.Millisecond:
		return fmt.Errorf("consumer.Config: CommitInterval %v is below 10ms", c.CommitInterval)
	case c.RebalanceTimeout < time.Second:
		return fmt.Errorf("consumer.Config: RebalanceTimeout %v is below 1s", c.RebalanceTimeout)
	case c.DrainTimeout > c.RebalanceTimeout/2:
		return fmt.Errorf("consumer.Config: DrainTimeout %v is above half of RebalanceTimeout %v", c.DrainTimeout, c.RebalanceTimeout)
	}
	return c.validatePolicies()
}

func (c *Config) validatePolicies() error {
	switch {
	case c.Retry.Min < time.Millisecond:
		return fmt.Errorf("consumer.Config: Retry.Min %v is below 1ms", c.Retry.Min)
	case c.Retry.Max < c.Retry.Min:
		return fmt.Errorf("consumer.Config: Retry.Max %v is below Retry.Min %v", c.Retry.Max, c.Retry.Min)
	case c.Retry.Attempts < 0:
		return fmt.Errorf("consumer.Config: Retry.Attempts %d is negative", c.Retry.Attempts)
	case c.Retry.Exhausted > DeadLetter:
		return fmt.Errorf("consumer.Config: Retry.Exhausted %d is unknown", c.Retry.Exhausted)
	case c.Order > OrderNone:
		return fmt.Errorf("consumer.Config: Order %d is unknown", c.Order)
	case (c.Order == OrderKeys) != (c.OrderKey != nil):
		return errors.New("consumer.Config: OrderKey goes with OrderKeys and with nothing else")
	case c.NoTenant > NoTenantDeadLetter:
		return fmt.Errorf("consumer.Config: NoTenant %d is unknown", c.NoTenant)
	case c.ForeignStamps > ForeignHandle:
		return fmt.Errorf("consumer.Config: ForeignStamps %d is unknown", c.ForeignStamps)
	case c.TooFar > TooFarDeadLetter:
		return fmt.Errorf("consumer.Config: TooFar %d is unknown", c.TooFar)
	case c.Start > StartLatest:
		return fmt.Errorf("consumer.Config: Start %d is unknown", c.Start)
	}
	for name, r := range c.Resources {
		if err := r.validate(name); err != nil {
			return err
		}
	}
	for i, topic := range c.Topics {
		if topic == "" {
			return fmt.Errorf("consumer.Config: Topics[%d] is empty", i)
		}
	}
	return nil
}
