// Package partitioner is what a producer links: it sends each tenant's records
// to the partitions where a routing table places that tenant.
//
// There are two ways in. [New] makes a kgo.Partitioner, which any existing
// kgo.Client takes as an option. [NewProducer] wraps such a client and also
// stamps records with how they were routed, keeps tenants out of each other's
// way, and can hold one tenant back while it moves.
//
//	                      routing table (store.Source)
//	                           │ an atomic load per record
//	                           ▼
//	record ─▶ Producer ─▶ route ─▶ gate ──open──▶ budget ─▶ partition ─▶ stamp ─▶ kgo ─▶ Kafka
//	              │                 │  ▲             │ room for all, for this      │
//	              │           held  ▼  │ Resume      │ tenant, for this partition  │
//	              │                queue             ▼                             │
//	              └── refused, with a typed error ◀── or wait for that only        │
//	promise ◀── count down at partition, gate and budget ◀─────────────────────────┘
//
// # Guarantees
//
//   - A tenant's records go where the table says, or nowhere: a partition that
//     the topic does not have, a record without a tenant, or a placement that
//     this program cannot follow gives a [*RouteError] that names topic, tenant,
//     partition and epoch.
//   - Records of one tenant from one goroutine are written in their order,
//     across Pause, a new table and Resume.
//   - What was acknowledged lies where workers take it as rightly routed, whatever
//     becomes of leases and clocks meanwhile (topics with producers: wrapped).
//   - After Pause and Settle no record of the tenant is on its way by an older
//     table.
//   - One tenant's flood, or a partition that takes nothing, leaves room for
//     every other tenant: see [ProducerConfig].
//   - The end of a caller's context ends that caller's wait, and never another
//     caller's record.
//
// # What it does not do
//
// A record that failed may still have been written: the client cannot know. It
// does not order records of several goroutines or several producers. A bare
// Partitioner neither stamps nor holds back, so it refuses topics whose table
// says producers: wrapped, and placements in another topic.
//
// # Moves
//
// With a table in a topic (store.Topic) a Producer takes part in live moves. While
// the table has a tenant's or a slot's move open, that unit's new records wait in
// their tenants' queues, as for Pause; nothing but the table opens them, and they
// leave first and in order. Once nothing of the unit is in flight, and what failed
// in its old home cannot be written any more, the session's lease says so.
//
// An acknowledgement that comes after the lease under which the record was sent is
// kept until the Producer is registered anew. Where a move passed the Producer over
// meanwhile and its fence lies before the record, the record is sent again to the
// new home, with the same session and sequence, before anything newer of its
// tenant; else the acknowledgement is passed on. Each promise is called once.
//
// # Transactions
//
// With a transactional client, records of topics with producers: wrapped need
// BeginTransaction and EndTransaction of the Producer, which serve a
// kgo.GroupTransactSession as well. A transaction goes by the table of its begin, a
// move waits for those that began before it, and none begins while a tenant that
// the Producer knows is held back. One with a late acknowledgement is aborted.
//
// # What may change inside
//
// The lines, rooms and gates are this package's own. The headers' layout is
// package routing's, and the order within try (count, then read the table) is
// what moves rely on.
package partitioner
