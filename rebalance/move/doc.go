// Package move decides everything about live moves: a tenant or a set of slots
// goes from its old home A to a new home B while producers and workers run, and
// each record that a producer was told is written is handled, in the order in
// which that producer sent them. It is pure: the shells hand it what happened,
// and do what it says.
//
// # States
//
// The routing table has one entry a move. Until it is switched, A is home, with
// the old epoch e.
//
//	(e, A) ─▶ prepared ─▶ fence in A's log at X ─▶ switched (X, e', B) ─▶ forgotten
//	              └─────────────┴─▶ aborted: (e, A) again; a fence already written is void
//
// Each party follows the entry by a state machine of its own:
//
//	coordinator  Coordination, Drain    prepare ─▶ drained ─▶ fences ─▶ switch
//	producer     Gate, InTime, Late     closing ─▶ drained ─▶ acknowledged ─▶ open
//	worker       Partition, Home        R0 assign ─▶ R3 refresh ─▶ R1 stale ─▶ fence ─▶ R2 earlier homes ─▶ run
//
// # Guarantees
//
// I1: every record that was acknowledged to an application is handled, and none
// of them is set aside as stale. I2: a group handles the records of a unit that
// one producer sent in their order; it handles one again only where its log
// brings all later ones again too. I3: at most one home takes a unit's new
// records. I4: whoever crashes, wherever, the rest can finish or abort the move.
//
// A test explores these machines, not copies of them, with two producers, two
// workers, coordinators, crashes, lost answers and a stopped producer, over all
// interleavings within its bounds, and each rule taken away breaks one of the
// four: see docs/protocol.md.
//
// What it counts on: a session's own view of its lease ends before anybody
// else's (package store), commits of the table have one order, and one writer at
// a time decides at its end, and a group's commits do not go back. No wait and no
// absolute time matters.
//
// # What it does not do
//
// It does no I/O, has no clock, and knows no tenants by itself. Records of
// producers without the wrapper are set aside behind a fence, but nothing waits
// for them before it. Where the lane rule changed to or from a random spread
// there is no order to keep.
//
// # What may be changed inside
//
// How holds and homes are kept. The rules are what the shells, docs/protocol.md
// and the check know by name: change them with the check.
//
// # Cost
//
// With no move in the table a record costs a load and a compare, and nothing
// here allocates for it.
package move
