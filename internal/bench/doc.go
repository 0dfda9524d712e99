// Package bench measures this project beside the bare client, in one run on one
// machine, so that a figure says what the project costs and not how fast the
// machine is. The bench commands print what it reports.
//
//	bare client   ──turn──┐   ┌──turn──┐   ┌── …
//	                      └───┘        └───┘        median of the runs ──▶ report
//	this project        ──turn──┐   ┌──turn──┐
//
// # Guarantees
//
//   - Both sides do the same work on the same data and take turns, so that what
//     disturbs one disturbs the other.
//   - Where the work is the process's own, processor time is compared as well,
//     which other programs on the machine do not change.
//
// # What it does not do
//
// It judges no time: whoever runs it reads the ratio. Only what [Move] counts as
// lost or out of order is wrong whatever the machine, and its reader says so. The
// absolute figures of an embedded broker say little about a real one.
//
// # What may change inside
//
// How turns are taken. Names of JSON fields are the command line's contract.
package bench
