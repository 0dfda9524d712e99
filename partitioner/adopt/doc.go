// Package adopt brings an existing topic under a routing table without moving
// a key: it makes the table that maps exactly as a client's default
// partitioner does today, and checks a table against what a topic holds.
//
//	client, partitions ──TopicSpec──▶ routing.TopicSpec
//	topic's tail ──┐                       │
//	               └──Verify(table's topic)┴──▶ Report: share that matches, first differences
//
// # Guarantees
//
//   - TopicSpec's slots are a multiple of the partitions, so that the slot's
//     remainder is the key's remainder; hash and remainder are the client's own.
//   - Verify reads every record of the tails that exist when it begins, joins
//     no group and commits nothing. Each record is counted once: as matching,
//     as different, or as not comparable with the reason.
//
// # What it does not do
//
// It cannot tell which client filled a topic from few records: a table that
// matches a hundred keys at 32 partitions matches the rest, one that matches
// three may not. Records without a key are spread by every client and say
// nothing.
//
// # What may be changed inside
//
// How much of a tail is read, and in which order, as long as each record is
// counted once.
package adopt
