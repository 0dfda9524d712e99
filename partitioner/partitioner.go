package partitioner

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// NoTenant says what happens to a record without a tenant in a topic of the
// table.
type NoTenant uint8

// What can happen to a record without a tenant.
const (
	// RefuseNoTenant fails the record with ErrNoTenant.
	RefuseNoTenant NoTenant = iota
	// SpreadNoTenant spreads such records over the topic's shared partitions,
	// a run of records at a time. No order holds among them.
	SpreadNoTenant
)

// Config says how a [Partitioner] treats what the table does not decide. The
// zero value works.
type Config struct {
	// Fallback partitions topics outside the table. Nil means kgo's own
	// default, UniformBytesPartitioner(64 KiB, adaptive, keyed).
	Fallback kgo.Partitioner
	// OnNoTenant is RefuseNoTenant by default.
	OnNoTenant NoTenant
	// HonorPartition makes the Partition field of a record win over the table,
	// as kgo.ManualPartitioner does; a record with a negative one is routed by
	// the table. Such records have a place in no tenant's order. A Producer
	// refuses a client that is set up so.
	HonorPartition bool
}

// Partitioner is a kgo.Partitioner that maps each record's tenant to a
// partition by a routing table. It requires consistency: a tenant's partition
// does not change because a leader is away. It never panics, and answers -1
// only with a reason that [Cause] gives.
//
// It cannot make the client look for new partitions, which the client does by
// itself within kgo.MetadataMaxAge only (5 min): until then records for them are
// refused with ErrOutOfRange. A Producer looks at once.
type Partitioner struct {
	src      store.Source
	cfg      Config
	producer atomic.Bool // a Producer uses the client that uses this
}

// New makes a Partitioner, to be handed to kgo.RecordPartitioner. It may serve
// several clients.
func New(src store.Source, cfg Config) *Partitioner {
	if cfg.Fallback == nil {
		cfg.Fallback = kgo.UniformBytesPartitioner(64<<10, true, true, nil)
	}
	return &Partitioner{src: src, cfg: cfg}
}

// ClientOpts gives the options that a client needs for a [Producer]: a
// Partitioner in place of the client's own.
func ClientOpts(src store.Source, cfg Config) []kgo.Opt {
	return []kgo.Opt{kgo.RecordPartitioner(New(src, cfg))}
}

// ForTopic is called by kgo once for each topic. The result has the optional
// methods of the fallback's, since the topic may leave or enter the table.
func (p *Partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	t := &topicPartitioner{
		p: p, src: p.src, name: topic, fallback: fallbackFor(p.cfg.Fallback, topic),
		current: store.Pointer(p.src), producer: &p.producer, short: noShortcut(),
	}
	if t.current == nil {
		t.current = new(atomic.Pointer[routing.Table]) // of a source that does not show it
	}
	return withOptions(t)
}

// topicPartitioner routes the records of one topic. kgo lets one record at a
// time use it.
//
// kgo asks RequiresConsistency before Partition, and which partitions the
// second counts depends on the answer to the first: all, or those with a
// leader. A table that changes in between must not confuse the two. So the
// first reads the table only for a topic outside it, which may then be counted
// either way, and the second only for a topic within it, where all are counted.
type topicPartitioner struct {
	p        *Partitioner
	src      store.Source
	name     string
	fallback *fallback
	spread   spreader

	// By the table that was read last.
	table  *routing.Table
	topic  *routing.Topic // nil when the table does not have the topic
	rule   routing.TenantRule
	shared []int32
	way    way

	// For PartitionByBackup alone.
	current  *atomic.Pointer[routing.Table] // of src
	producer *atomic.Bool                   // p's
	short    shortcut
}

// way is how a topic's records are routed.
type way uint8

const (
	wayFallback way = iota
	wayKey          // by the table, and the whole key is the tenant
	wayRule         // by the table
	wayField        // by the record's Partition, if it is not negative
	wayRefused      // not at all: the topic's producers are wrapped
)

// RequiresConsistency is true for topics of the table.
func (t *topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	if t.way != wayFallback {
		return true
	}
	t.refresh()
	if t.way != wayFallback {
		return true
	}
	if f := t.flightOf(r); f != nil && f.partition != byFallback {
		return true
	}
	return t.fallback.requiresConsistency(r)
}

func (t *topicPartitioner) refresh() {
	if table := t.src.Table(); table != t.table {
		t.use(table)
	}
}

func (t *topicPartitioner) use(table *routing.Table) {
	t.table = table
	t.topic, _ = table.Topic(t.name)
	t.short = noShortcut()
	switch {
	case t.topic == nil:
		t.way = wayFallback
		return
	case t.topic.Wrapped():
		t.way = wayRefused
	case t.p.cfg.HonorPartition:
		t.way = wayField
	case t.topic.TenantRule().From == routing.FromKey:
		t.way, t.short = wayKey, newShortcut(table, t.topic)
	default:
		t.way = wayRule
	}
	t.rule, t.shared = t.topic.TenantRule(), t.topic.Shared()
}

// flightOf finds the Producer's mark on a record. Hooks may have wrapped the
// record's context, as kotel's do; only then is it searched.
func (t *topicPartitioner) flightOf(r *kgo.Record) *flight {
	if f, ok := r.Context.(*flight); ok {
		return f
	}
	if !t.producer.Load() {
		return nil
	}
	return findFlight(r)
}

// Partition gives the record's partition of n.
func (t *topicPartitioner) Partition(r *kgo.Record, n int) int {
	return byBackup{t}.PartitionByBackup(r, n, nil)
}

// otherwise is Partition for all but the usual record.
func (t *topicPartitioner) otherwise(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if t.way != wayFallback || t.table == nil {
		t.refresh()
	}
	if f := t.flightOf(r); f != nil && f.partition != byFallback {
		return f.choose(r, n)
	} else if f != nil || t.way == wayFallback {
		return t.fallback.partition(r, n, backup)
	}
	if t.way == wayKey && len(r.Key) > 0 {
		if pick := int(t.topic.Partition(r.Key, r.Key)); uint(pick) < uint(n) {
			return pick
		}
	}
	return t.byTable(r, n)
}

// byTable is for records that need more than a look at their key.
func (t *topicPartitioner) byTable(r *kgo.Record, n int) int {
	if t.way == wayRefused {
		return t.refuse(r, routing.Route{Partition: -1}, n, ErrNotWrapped)
	}
	if t.way == wayField && r.Partition >= 0 {
		return t.inRange(r, routing.Route{Partition: r.Partition}, n)
	}
	tenant, ok := TenantOf(t.rule, r)
	if !ok {
		return t.withoutTenant(r, n)
	}
	route := t.topic.Lookup(tenant, r.Key)
	switch {
	case route.Topic != "":
		return t.refuse(r, route, n, ErrOtherTopic)
	case route.Kind == routing.KindSpreadRandom:
		route.Partition = t.spread.pick(route.Partitions)
	case route.Partition < 0:
		return t.refuse(r, route, n, ErrNoKey)
	}
	return t.inRange(r, route, n)
}

func (t *topicPartitioner) withoutTenant(r *kgo.Record, n int) int {
	if t.p.cfg.OnNoTenant != SpreadNoTenant {
		return t.refuse(r, routing.Route{Partition: -1}, n, ErrNoTenant)
	}
	return t.inRange(r, routing.Route{Partition: t.spread.pick(t.shared)}, n)
}

// inRange answers a route's partition, unless it is outside the topic.
func (t *topicPartitioner) inRange(r *kgo.Record, route routing.Route, n int) int {
	if int(route.Partition) < n {
		return int(route.Partition)
	}
	return t.refuse(r, route, n, ErrOutOfRange)
}

func (t *topicPartitioner) refuse(r *kgo.Record, route routing.Route, n int, why error) int {
	tenant, _ := TenantOf(t.rule, r)
	return refuse(r, &RouteError{
		Topic: t.name, Tenant: string(tenant), Partition: route.Partition, Partitions: int32(n),
		Epoch: route.Epoch, Revision: t.table.Revision(), Err: why,
	})
}

// spreadRun is how many records in a row stay on one partition of a random
// spread, so that they still fill batches.
const spreadRun = 64

// spreader picks partitions where order does not matter.
type spreader struct{ count atomic.Uint64 }

func (s *spreader) pick(partitions []int32) int32 {
	run := (s.count.Add(1) - 1) / spreadRun
	return partitions[run%uint64(len(partitions))]
}
