package partitioner

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// OnFull says what Produce does when a tenant, its partition or the whole
// Producer has as much in flight as it may.
type OnFull uint8

// What Produce can do when there is no room.
const (
	// WaitOnFull makes that call of Produce wait, as kgo's does, until there is
	// room or its context ends. Calls for other tenants and partitions go on.
	WaitOnFull OnFull = iota
	// RefuseOnFull fails the record at once with ErrTenantBackpressure or
	// ErrPartitionUnavailable. It is for callers that produce for many tenants
	// from one goroutine.
	RefuseOnFull
)

// Defaults of a [ProducerConfig].
const (
	// DefaultMaxBytes is what all tenants together may have in flight when
	// neither the config nor the client says.
	DefaultMaxBytes = 256 << 20
	// DefaultTenantBytes is what one tenant may have in flight: a full batch.
	// Whoever shares its partition waits behind that, and more of it would
	// hardly make the tenant faster.
	DefaultTenantBytes = 1 << 20
	// DefaultPartitionWait is how long a record waits for a new partition.
	DefaultPartitionWait = 10 * time.Second
)

// ProducerConfig bounds what a [Producer] has in flight, so that no tenant and
// no partition takes the room of the others. The zero value works. Bytes are
// those of keys, values and headers.
type ProducerConfig struct {
	// OnFull is WaitOnFull by default.
	OnFull OnFull

	// MaxRecords and MaxBytes bound all tenants together. They default to one
	// below the client's MaxBufferedRecords (kgo still counts the record whose
	// promise it is calling) and to its MaxBufferedBytes (to DefaultMaxBytes if
	// the client has none), and may not exceed the client's: at its own bound
	// kgo blocks every caller.
	MaxRecords int
	MaxBytes   int64
	// MaxTenantRecords and MaxTenantBytes bound one tenant of one topic; a
	// quarter of MaxRecords, and DefaultTenantBytes, by default. One tenant
	// never gets more than half of what is free either. Bounds below a full
	// batch let the tenant's records wait for the client's linger.
	MaxTenantRecords int
	MaxTenantBytes   int64
	// MaxPartitionRecords and MaxPartitionBytes bound one partition; half of
	// all by default. One partition never gets more than what is free either,
	// so however many have no leader, some room is left.
	MaxPartitionRecords int
	MaxPartitionBytes   int64
	// MaxQueuedRecords and MaxQueuedBytes bound what waits while one tenant is
	// held back by Pause or by a move, on top of the above; as many records as MaxRecords
	// and a quarter of MaxBytes by default. Beyond it, and whatever OnFull
	// says, records fail with ErrTenantMoving.
	MaxQueuedRecords int
	MaxQueuedBytes   int64
	// MaxWaitingRecords and MaxWaitingBytes bound what waits so of all tenants
	// together, since a move of slots holds many back at once; eight times
	// MaxQueuedRecords, and MaxBytes, by default.
	MaxWaitingRecords int
	MaxWaitingBytes   int64

	// Transactions begins and ends the transactions of a transactional client
	// for BeginTransaction and EndTransaction: set it to the
	// kgo.GroupTransactSession that made the client. Nil means the client's own
	// methods.
	Transactions Transactions

	// PartitionWait is how long a record waits for a partition that the table
	// names and the client does not know yet, which happens after a topic has
	// grown; DefaultPartitionWait by default. Then it fails with ErrOutOfRange.
	PartitionWait time.Duration

	// Logger takes what an operator should know; nil means none.
	Logger *zap.Logger
	// Registerer takes the metrics tenantlane_producer_*; nil means none. Two
	// Producers on one Registerer need prometheus.WrapRegistererWith.
	Registerer prometheus.Registerer
}

// withDefaults fills in what the client's own bounds decide.
func (c ProducerConfig) withDefaults(client *kgo.Client) ProducerConfig {
	records, bytes := clientBounds(client)
	if bytes == 0 {
		bytes = DefaultMaxBytes
	}
	setDefault(&c.MaxRecords, max(1, int(records)-1))
	setDefault(&c.MaxBytes, bytes)
	setDefault(&c.MaxTenantRecords, max(1, c.MaxRecords/4))
	setDefault(&c.MaxTenantBytes, min(DefaultTenantBytes, c.MaxBytes))
	setDefault(&c.MaxPartitionRecords, max(1, c.MaxRecords/2))
	setDefault(&c.MaxPartitionBytes, max(1, c.MaxBytes/2))
	setDefault(&c.MaxQueuedRecords, c.MaxRecords)
	setDefault(&c.MaxQueuedBytes, max(1, c.MaxBytes/4))
	setDefault(&c.MaxWaitingRecords, 8*c.MaxQueuedRecords)
	setDefault(&c.MaxWaitingBytes, c.MaxBytes)
	setDefault(&c.PartitionWait, DefaultPartitionWait)
	if c.Transactions == nil {
		c.Transactions = clientTransactions{client}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// clientBounds gives the client's own bounds; bytes is 0 if it has none.
func clientBounds(client *kgo.Client) (records, bytes int64) {
	records = reflect.ValueOf(client.OptValue(kgo.MaxBufferedRecords)).Int() // kgo does not promise its width
	bytes = reflect.ValueOf(client.OptValue(kgo.MaxBufferedBytes)).Int()
	return records, bytes
}

func (c ProducerConfig) validate(client *kgo.Client) error {
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"MaxRecords", int64(c.MaxRecords)},
		{"MaxBytes", c.MaxBytes},
		{"MaxTenantRecords", int64(c.MaxTenantRecords)},
		{"MaxTenantBytes", c.MaxTenantBytes},
		{"MaxPartitionRecords", int64(c.MaxPartitionRecords)},
		{"MaxPartitionBytes", c.MaxPartitionBytes},
		{"MaxQueuedRecords", int64(c.MaxQueuedRecords)},
		{"MaxQueuedBytes", c.MaxQueuedBytes},
		{"MaxWaitingRecords", int64(c.MaxWaitingRecords)},
		{"MaxWaitingBytes", c.MaxWaitingBytes},
		{"PartitionWait", int64(c.PartitionWait)},
	} {
		if field.value < 1 {
			return fmt.Errorf("%s is %d, must be at least 1", field.name, field.value)
		}
	}
	if c.OnFull > RefuseOnFull {
		return fmt.Errorf("OnFull is %d, must be WaitOnFull or RefuseOnFull", c.OnFull)
	}
	if t, ok := c.Transactions.(interface{ Client() *kgo.Client }); ok && t.Client() != client {
		return errors.New("Transactions is a session of another client")
	}
	records, bytes := clientBounds(client)
	if int64(c.MaxRecords) > records {
		return fmt.Errorf("MaxRecords is %d, must not exceed the client's MaxBufferedRecords %d", c.MaxRecords, records)
	}
	if bytes > 0 && c.MaxBytes > bytes {
		return fmt.Errorf("MaxBytes is %d, must not exceed the client's MaxBufferedBytes %d", c.MaxBytes, bytes)
	}
	return nil
}

// checkClient refuses clients with which a Producer cannot keep its promises,
// and gives the client's Partitioner.
func checkClient(client *kgo.Client) (*Partitioner, error) {
	own, ok := client.OptValue(kgo.RecordPartitioner).(*Partitioner)
	if !ok {
		return nil, errors.New("the client's RecordPartitioner is not a partitioner.Partitioner and would override the Producer's choice: add partitioner.ClientOpts to its options")
	}
	if own.cfg.HonorPartition {
		return nil, errors.New("the client's Partitioner has HonorPartition, which a Producer cannot combine with a tenant's order")
	}
	for _, option := range []struct {
		opt  any
		name string
		why  string
	}{
		{kgo.DisableIdempotentWrite, "DisableIdempotentWrite", "retries could reorder and repeat records"},
		{kgo.AllowIdempotentProduceCancellation, "AllowIdempotentProduceCancellation", "a canceled record could still be written later"},
		{kgo.DefaultProduceTopicAlways, "DefaultProduceTopicAlways", "placements in another topic would be overridden"},
		{kgo.ManualFlushing, "ManualFlushing", "a full buffer would fail other tenants' records"},
	} {
		if set, _ := client.OptValue(option.opt).(bool); set {
			return nil, fmt.Errorf("the client has %s: %s", option.name, option.why)
		}
	}
	return own, nil
}
