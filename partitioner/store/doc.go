// Package store is where a routing table lives: a file, or a compacted Kafka
// topic. Producers, workers, the coordinator and the watcher all read it
// through one small interface, [Source], and never know which it is.
//
//	routing.yaml ──▶ File ──┐
//	routing topic ─▶ Topic ─┼──▶ Source ──▶ Table()    the last good table, an atomic load
//	a table in Go ─▶ Fixed ─┘        └────▶ Changed()  closed when a newer one is published
//
// A Topic reads a log that others write:
//
//	Update(decide) ─▶ shut other writers out ─▶ read to the end ─▶ decide ─▶ one transaction
//	                                                                              │
//	        routing topic   … entry entry version │ session │ entry version │ …  ◀┘
//	                          └── routing.Replay ──┘ whole? digest right? ─▶ published
//	Register ─▶ lease, registration, own record seen ─▶ Session.Err() == nil while leased
//
// # Guarantees
//
//   - A Source always has a whole, valid table: the constructors fail instead
//     of returning one without, and a table that does not parse, or that may
//     not follow the current one, never replaces it. The refusal is logged
//     once, and is visible as a metric for as long as it lasts.
//   - Revisions only rise. A reader that sees revision n never sees n-1 later.
//   - [File.Write] is atomic: a crash at any point leaves the old file or the
//     new one, never a part, and of two writers one wins and the other is told.
//   - [Topic.Update] is too: a writer that is killed leaves nothing, two writers
//     shut each other out and the later one decides by the earlier one's table,
//     and a commit whose answer is lost is looked up instead of guessed.
//   - A Topic knows how old its view is ([Topic.Age]): since when its table may
//     have changed unseen. It is published before the first read only at the
//     topic's high watermark, so a program that starts routes by the table of
//     now or not at all.
//   - [Topic.AwaitDrained] returns once nothing of a moving unit is in flight:
//     each session that was registered before the move has said so, has ended, or
//     has a lease that is over. It counts that time by its own clock from what it
//     saw itself, so no two clocks are compared.
//   - An open move does not outlive its coordinator: at its deadline each follower
//     that may change the table aborts it, the first of them wins, and the others
//     see that. For that alone wall clocks are compared; a wrong one costs a
//     move, no record.
//   - [Session.Err] turns to [ErrStaleTable] before anyone else may take the
//     session's lease to be over, whatever the network does.
//
// # What it does not do
//
// A file has no history, no sessions and no leases, so it cannot tell whether
// every producer has seen a table. Live moves need that and therefore need the
// Kafka store; with a file there is the stopped-producer move only.
//
// A change of the file is noticed within the interval of [FileConfig], by
// reading the whole file and comparing its hash. There is no inotify: it does
// not work on the network and container file systems where such files live.
//
// It does not know which tenants have records under way: whoever changes a
// table asks package live first. It needs one Kafka cluster: the table's topic
// on the cluster of the topics that it routes, or on another.
//
// # What may change inside
//
// How a change is noticed, and how writers exclude each other. Everything else
// is seen by others: [Source] by every room, the file's bytes by people, the
// topics' records by every other version of this package (docs/routing-topic.md).
package store
