// Package live tells which tenants of a topic have records that someone still
// waits for. A routing table may move a tenant without live records at once;
// one with live records needs a move, or its order breaks.
//
//	groups of the topic ──commits──▶ lowest commit ─┐
//	                                                ├─▶ records between them that
//	table before, table after ──what is re-routed───┤   the change re-routes
//	end offsets ────────────────────────────────────┘            │
//	                                                     the first one found
//
//	table ──entries of tenants──▶ Idle ──▶ those without a record since a time
//
// # Guarantees
//
//   - A record counts as live while any group that has ever committed in the
//     topic, or has a member on it, has not committed past it. Where no group
//     reads the topic yet, every record waits for the first one.
//   - What cannot be read is an error, never "not live".
//   - [Rerouted] looks only where a re-routed tenant's records can lie, and ends
//     at the first one that it finds.
//
// # What it does not do
//
// It cannot see records that a producer holds and has not sent: look again,
// with [After], once every producer has the new table. A group whose
// coordinator is down is not listed by Kafka and so not seen. Groups that lag
// for ever (a name nobody uses any more) keep tenants live until they are
// deleted.
//
// # What may be changed inside
//
// How groups are found and how much is read, as long as a live record is never
// missed.
package live
