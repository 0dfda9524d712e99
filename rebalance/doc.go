// Package rebalance changes where tenants' records go while the order of each
// tenant holds.
//
// A [Coordinator] moves one tenant the simple way, which needs nothing but a
// routing table in a file and the producers within reach ([Pauser]): for as
// long as it takes, the tenant's producers wait.
//
//	            pause at every producer
//	planned ────────────────────────────▶ paused
//	                                        │ nothing in flight
//	                                        ▼
//	                                     settled
//	                                        │ end offsets of the old home,
//	                                        │ every group's commits reach them
//	                                        ▼
//	                                     drained
//	                                        │ table written with the next epoch
//	                                        ▼
//	 aborted ◀── any error, the end of    switched
//	 every       the context, or the        │ each producer resumes when its
//	 producer    timeout, before this       ▼ own view has the new revision
//	 resumes     point                    done
//
// # Guarantees
//
//   - Records of the tenant are handled in the order in which each producer
//     sent them: the first record of the new home is written after every group
//     has committed past the last one of the old home.
//   - What cannot be known counts as not done. A group whose commits cannot be
//     read, or that has none where there are records, is waited for, and
//     aborts the move when the time is up.
//   - The table is the only thing that a move changes for good, and that is one
//     atomic write. Up to it a move that ends for any reason leaves everything
//     as it was; from it on it is done, and producers resume by themselves.
//   - If the process dies, its producers die with it and what they held back
//     was never acknowledged. The next ones go by the table as it is, which is
//     the old one or, with the old home drained, the new one.
//
// # What it does not do
//
// It cannot pause producers that it was not given, and does not know whether
// there are any. It does not assign the new partition to a consumer. It moves
// one tenant within one topic: slots, growth and moves without a pause need the
// Kafka table.
//
// With a transactional producer the old home's end may lie behind a commit
// marker, which no group commits: such moves run into their timeout and abort.
//
// # What may change inside
//
// How the coordinator watches commits. Package move has the state machine of
// live moves, package plan decides what is worth moving.
package rebalance
