// Package stale reads a quarantine topic and writes what lies in it to where its
// tenants are now: what `tenantlane stale` does.
//
//	<topic>.tl-quarantine ──1── marks: which letters are dealt with
//	       │  ▲
//	       2  └───────────────5── a mark after at most MarkEvery letters
//	       ▼                  │
//	letters, in order ──3── the tenant's homes since its fence, scanned: is the record there already?
//	       └────────────4── partitioner.Producer, with the record's first session and sequence
//
// A letter is a record that a worker found behind the fence that ended its unit
// in a partition (consumer.Quarantined). It was never acknowledged to an
// application from there, or it came around partitioner.Producer. In the first
// case its producer has mostly sent it again, to the new home, with the same
// session and sequence; then a replay would repeat it. A mark is a record of this
// package's in the letters' own partition, with the header HeaderDone and neither
// key nor value.
//
// # What it guarantees
//
//   - A record whose session and sequence lie in one of the homes that its tenant
//     has had since the fence is not sent, but marked. The scan begins an hour
//     before the fence was written, by its timestamp, or at the log's start where
//     the fence is gone.
//   - Letters of one tenant in one partition go in the order in which they lay.
//   - A letter that several groups wrote counts once.
//   - A letter whose mark is written is not looked at again. A replay that is cut
//     off and run again finds what it sent by the same scan.
//
// # What it does not
//
// A replayed record is handled after younger ones of its tenant. The scan sees
// records of aborted transactions too. Two replays of one topic at the same time
// may repeat each other's letters.
//
// # What may be changed inside
//
// How letters are read and homes are scanned. The header names and the form of a
// mark are written into topics.
package stale
