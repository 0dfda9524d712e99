// Package load makes the records that can be checked, and produces them: who
// the tenants are, how much each sends, and what a record says about itself.
// The demo, the load generator, benchmarks and the integration suite use it.
//
//	Population ─▶ Mix (exact counts, seeded) ─▶ tenant ─▶ Recorder ─▶ *kgo.Record ─▶ partitioner.Producer
//	                                                        │ numbers each sequence       │
//	                                                        ▼                             ▼ acknowledged
//	             Decode(value) gives the same back ◀── Value {producer, tenant,      the log file
//	                                                    sequence, time}
//
// # Guarantees
//
//   - The same seed gives the same tenants in the same order, and a Mix gives
//     exactly the counts it was asked for.
//   - Sequences start at 1 and are gapless per (producer, tenant), in the
//     order in which records were handed to the Producer. Where a tenant is
//     placed with spread: key an order holds only per key, so each of its keys
//     counts as a producer of its own; with spread: random there is none and
//     the records say so.
//   - A line of the log means that the record was acknowledged to this
//     process. A record that failed has none.
//
// # What it does not do
//
// It does not judge (that is package check) and it does not repeat a produce
// that failed: a second copy could not be told from a broken promise.
//
// # What may be changed inside
//
// Samplers and pacing. The value's layout is in topics that people keep, and
// Decode must go on reading it.
package load
