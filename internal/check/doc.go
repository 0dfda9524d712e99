// Package check decides, from what was produced and what workers say they
// handled, whether the promise was kept: nothing lost, each tenant in order,
// and nothing repeated that a crash does not explain. The demo, the verify
// command and the integration suite share it. It is pure: no I/O of its own,
// no clock.
//
//	loadgen's log ──▶ Reader ─┐
//	                          ├─▶ Feed, in time order ─▶ Checker ─▶ Report
//	workers' logs ──▶ Reader ─┘                            ▲
//	a handler in this process ─────────────────────────────┘
//
// # What is decided from what
//
// A record is identified by (producer, tenant, sequence); an ID is the first
// two. Handlings are judged in the order in which they are given to a
// Checker. Within one log that is the log's own order. Between the logs of
// several processes there is no common order but their clocks, so Feed merges
// by the lines' times: a skew between machines larger than the time between
// two handlings of one tenant can hide or invent a violation there. Logs of
// one machine share a clock.
//
//	lost              acknowledged to the producer, handled in no log
//	duplicate         a handling of a record that was handled before
//	order violation   a first handling after the first handling of a higher
//	                  sequence of the same ID; or, within one process, a
//	                  repeat that does not ascend (below)
//	duplicate allowed a duplicate of what the floor of its partition does not
//	                  say to be done
//	early commit      a first handling of what that floor says to be done: the
//	                  commit covered it too early, and a crash would have lost it
//
// The floor is what the promise rests on: a worker that takes a partition over
// goes on from the group's last commit, so only what that does not say to be
// done may repeat: all below its offset is, and below its frontier too, except
// of the lanes that it names from their offsets on. It is the highest commit of
// the partition, by any process, that came before the first handling of the
// partition in this assignment; a process's own commits raise it further. A
// commit that a crash kept out of the log makes the floor lower than it was, so
// this accuses nobody wrongly. Frontier and names count where the assignment says
// that it went by them; one that could not trust them, or whose log is of a
// worker that did not write them, begins at the offset. A named lane that is no
// tenant's own (a part of a tenant) excuses every tenant from its offset on.
//
// DuplicatesAllowed counts the duplicates that pass, one by one: repeats
// within the promise make it equal to Duplicates, any other makes it less.
//
// Ascending within one process: where handlings carry the number of their
// assignment (workers of this project do), a record comes at most once in an
// assignment and each ID's sequences strictly ascend in it. Without the
// number, sequences may fall back to begin a repeat run, as after a
// partition has left and come back; falling back again before the run has
// reached what the process had handled is a violation.
//
// # What it does not see
//
// Whether a record that appears in no log exists; whether two workers ran a
// tenant at the same time; order between IDs, which nobody promises.
//
// # Memory
//
// Per ID a few words plus one span per gap in its sequences, so ten million
// records of a few thousand tenants take kilobytes each thousand tenants, not
// per record. Per process, ID and partition a few words more.
//
// # What may be changed inside
//
// How sequences are stored (ranges.go) and how a line is parsed (parse.go).
// The meaning of the counts is the project's measure of itself: a change there
// needs the naive twin in the tests to agree, and each mutant still found.
package check
