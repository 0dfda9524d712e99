package partitioner

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Why a record is not produced. Each arrives wrapped in a [*RouteError] that
// names the record's topic, tenant and partition; use errors.Is.
var (
	// ErrNoTenant: the record has no tenant where the table's tenant_of says
	// it is. See [Config].OnNoTenant.
	ErrNoTenant = errors.New("record has no tenant")
	// ErrNoKey: the tenant is placed with spread: key and the record has no
	// key.
	ErrNoKey = errors.New("record of a tenant with spread: key has no key")
	// ErrOutOfRange: the table names a partition that the topic does not have,
	// or that this client has not seen yet.
	ErrOutOfRange = errors.New("partition out of range")
	// ErrOtherTopic: the tenant is placed in another topic, which only a
	// [Producer] can follow.
	ErrOtherTopic = errors.New("tenant is placed in another topic, produce through partitioner.Producer")
	// ErrNotWrapped: the table says that all producers of the topic use a
	// [Producer], and this record came around it.
	ErrNotWrapped = errors.New("topic has producers: wrapped, produce through partitioner.Producer")
	// ErrPanic: the fallback partitioner panicked.
	ErrPanic = errors.New("partitioner panicked")

	// ErrTenantBackpressure: the tenant has as many records or bytes in flight
	// as it may. Other tenants are not affected.
	ErrTenantBackpressure = errors.New("tenant has too much in flight")
	// ErrPartitionUnavailable: the partition has as many records or bytes in
	// flight as it may, likely because it has no leader or its broker is slow.
	// Other partitions are not affected.
	ErrPartitionUnavailable = errors.New("partition has too much in flight")
	// ErrTenantMoving: the tenant is held back for a move and its queue is
	// full.
	ErrTenantMoving = errors.New("tenant is held back and its queue is full")
	// ErrNoTransaction: the client is transactional, the topic has producers:
	// wrapped, and no transaction was begun with [Producer.BeginTransaction].
	ErrNoTransaction = errors.New("no transaction was begun with Producer.BeginTransaction")
	// ErrReservedHeader: the record carries a tl-control header, which would
	// act on workers as a control record of a move.
	ErrReservedHeader = errors.New("record carries the reserved header tl-control")
	// ErrClosed: the Producer is closed.
	ErrClosed = errors.New("producer is closed")
)

// RouteError says which record was not produced and why.
type RouteError struct {
	// Topic of the record, or of the placement where that names another.
	Topic string
	// Tenant of the record; empty if it has none, or was not looked for.
	Tenant string
	// Partition that the table gives, or -1 if none was decided.
	Partition int32
	// Partitions that the topic has as far as this client knows, or 0.
	Partitions int32
	// Epoch of the tenant's placement, and Revision of the table that it is
	// from.
	Epoch, Revision uint64
	// Err is one of this package's errors, store.ErrStaleTable, or the
	// context's.
	Err error
}

func (e *RouteError) Error() string {
	s := "produce to topic " + e.Topic
	if e.Tenant != "" {
		s += " for tenant " + strconv.Quote(e.Tenant)
	}
	if e.Partition >= 0 {
		s += " partition " + strconv.Itoa(int(e.Partition))
	}
	if e.Partitions > 0 {
		s += fmt.Sprintf(" of %d", e.Partitions)
	}
	if e.Revision > 0 {
		s += fmt.Sprintf(" (epoch %d of table revision %d)", e.Epoch, e.Revision)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap gives Err.
func (e *RouteError) Unwrap() error { return e.Err }

// reasonKey finds the reason in a refused record's context.
type reasonKey struct{}

// Cause gives the reason for which a [Partitioner] refused a record. kgo tells
// a promise only that the partitioner chose -1; call Cause(r, err) there to get
// the [*RouteError] instead. Any other err comes back unchanged.
func Cause(r *kgo.Record, err error) error {
	if err == nil || r == nil || r.Context == nil {
		return err
	}
	if reason, ok := r.Context.Value(reasonKey{}).(error); ok {
		return reason
	}
	return err
}

// refuse leaves the reason with the record, where Cause finds it, and gives the
// answer that makes kgo fail the record. The record is not buffered after that,
// so nothing else reads the context that changes here.
func refuse(r *kgo.Record, reason error) int {
	ctx := r.Context
	if ctx == nil {
		ctx = context.Background()
	}
	r.Context = context.WithValue(ctx, reasonKey{}, reason)
	return -1
}
