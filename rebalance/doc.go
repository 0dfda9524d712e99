// Package rebalance changes where tenants' records go while the order of each
// tenant holds. There are two ways.
//
// # Live
//
// A [LiveCoordinator] moves a tenant, a spread tenant or thousands of slots at
// once while producers and workers go on. It needs a routing table in a topic
// (store.Topic) and producers that all are partitioner.Producers.
//
//	check ──▶ PREPARE in the table ──▶ every registered producer    ──▶ FENCE in each  ──▶ SWITCHED
//	  │       producers hold the         has nothing in flight, or      old partition,     in the table
//	  ▼       unit's records back        its lease is over              at offset X        with each X
//	refused          └─────────────────────────┴──────────────────────────┘
//	                                  ▼ any error, the deadline, the caller's end, or anyone's wish
//	                               ABORTED in the table: as before, and a fence means nothing
//
// What comes next, and how a move has ended when an answer is lost, is decided
// by move.Coordination, a state machine that an exhaustive check explores; here
// is what it needs done. A [Campaign] is many moves: its rounds are told by the
// table alone, so that it can be cut off anywhere and run again.
//
// # Stopped
//
// A [Coordinator] moves one tenant the simple way, which needs nothing but a
// routing table in a file and the producers within reach ([Pauser]): for as long
// as it takes, the tenant's producers wait.
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
// # Partitions over members
//
// A [Balancer] assigns a group's partitions to its members so that those the table
// dedicates to large tenants are spread over the members first. It moves no record.
//
// # Guarantees
//
//   - Records of a unit are handled in the order in which each producer sent them.
//     After a stopped move the first record of the new home is written after every
//     group has committed past the last one of the old; after a live one workers
//     hold it until their group's commits say so.
//   - What cannot be known counts as not done. A group whose commits cannot be
//     read aborts a stopped move; a write of the table whose answer is lost is
//     looked up, and [StateUnknown] is said where even that fails.
//   - The table is the only thing that a move changes for good, and that is one
//     atomic write. Up to it a move that ends for any reason leaves everything as
//     it was; from it on it is done.
//   - If the process dies, a live move that is not switched is aborted by anyone
//     who follows the table, at its deadline. Of a stopped move the producers die
//     with it, and the next ones go by the table as it is.
//   - Any number of coordinators may work on one table. Units that meet are refused.
//
// # What it does not do
//
// A stopped move cannot pause producers that it was not given. A live move refuses
// what it cannot keep in order, with a reason and a remedy ([RefusedError]):
// topics with producers outside the wrapper, compacted ones, placements in another
// topic, and partitions that an active group does not read. Neither changes which
// worker has which partition: that is the [Balancer]'s job, at a group's rebalance.
//
// With a transactional producer a stopped move's old home may end behind a commit
// marker, which no group commits: it runs into its timeout and aborts.
//
// # What may change inside
//
// How commits, groups and producers are looked at. Package move has the state
// machine of live moves, package plan decides what is worth moving.
package rebalance
