// Package offset knows how far a partition is done, and how a commit says so.
// It is pure: no I/O, no clock, no lock.
//
// # Words
//
// A lane finishes its records in order, so its progress is one number: its
// first unfinished offset. From these numbers come the watermark W, the
// smallest of them (or the next offset to admit, if there is none), and the
// frontier F: everything below F is done, except in the lanes that are named,
// from their named offset on.
//
//	offset   W          b         c            F      next to admit
//	─────────┼──────────┼─────────┼────────────┼──────────┼─────▶
//	 done    │ done but for lanes a, b, c      │ some     │ not yet read
//	         a named    b named   c named      (n+1)th lane behind, or next
//
// W is committed; F and the names travel in the commit's metadata, so that a
// crash repeats only what the named lanes had not done, and what was done at or
// above F.
//
// # States of an assignment
//
//	NewTracker(at) ────────────────────────────────▶ following
//	Open(metadata) ─valid─▶ Resume ─▶ recovering ───▶ following
//	      └─ a Reason ─▶ NewTracker(committed offset): repeats, never a loss
//
// Recovering: the main cursor starts at F, and each inherited name is a virtual
// lane with work at its offset until a re-read brings the record there, whose
// key then is that lane (Judge, Exact). A virtual lane whose record is gone
// moves on with the re-read (Passed). Snapshots taken meanwhile count virtual
// lanes like real ones, so a second crash loses nothing of the frontier.
//
// # What it guarantees
//
//   - No committed state, and no text read back, claims an unfinished offset to
//     be done: what is in doubt is ignored as a whole, by a typed Reason, which
//     costs repeats only.
//   - W, F and the names are exact for the lanes given, and the text is never
//     longer than the limit: with fewer names F is lower, nothing else changes.
//   - Decode never panics and accepts only what Encode could have written.
//
// # What it does not
//
// It does not hold lanes (consumer/lane does) or talk to a broker: the check
// that the log was not cut below F needs OffsetForLeaderEpoch, whose answer the
// caller passes to Checkpoint.Cut.
//
// # What may be changed inside
//
// How virtual lanes are kept and found. The text is a documented, versioned
// wire format, docs/commit-metadata.md, with golden files: a change of it is a
// new version beside the old one. Name is part of that format.
package offset
