// Package dlq reads a dead-letter topic and writes its letters back to where
// they first lay: what `tenantlane dlq` does.
//
//	<topic>.tl-dlq ──1── marks: which letters were replayed
//	       │  ▲
//	       2  └─────────────4── a mark after at most MarkEvery letters
//	       ▼                │
//	letters, in order ──3── the topic and partition that they came from
//
// A letter is a record with the headers of consumer.HeaderDead…; where it lay,
// why and when it was given up, and in whose group. A mark is a record of this
// package's in the letters' own partition, with the header HeaderReplayed and
// neither key nor value: it names offsets of letters that were replayed, so it
// lives as long as they do.
//
// # What it guarantees
//
//   - A letter goes back to its topic and partition with its key, value and
//     headers, and with consumer.HeaderReplay, which says that it is a replay.
//   - Letters of one tenant in one partition go back in the order in which they
//     were written here, and one is acknowledged before the next is sent.
//   - A letter whose mark is written is not replayed again. A replay that is cut
//     off repeats at most MarkEvery letters when it is run again; one that is
//     interrupted marks what it has done.
//   - A letter that a crash of its worker wrote twice is replayed once.
//   - It ends at the end that the topic had when it began, so that letters that
//     fail again at once do not make it run for ever.
//
// # What it does not
//
// Two replays of one topic at the same time repeat each other's letters. A
// replay goes to every group that reads the topic: middleware.OwnReplays keeps
// the others from handling it. It does not follow a tenant that was moved since:
// with a table it leaves such letters and counts them.
//
// # What may be changed inside
//
// How letters are read and produced. The header names and the form of a mark
// are written into topics.
package dlq
