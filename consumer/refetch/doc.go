// Package refetch reads ranges of a partition's log again, beside the client
// that consumes it.
//
//	Read(topic, partition, from) ──▶ leader (cached) ──▶ FetchRequest ──▶ Chunk
//	            ▲                                            │
//	            └── leader moved: ask for metadata, again ◀──┘
//
// # Why raw requests
//
// A consuming client would stop its session and discard every partition's
// buffers at each SetOffsets, and a request on the consuming client's own fetch
// connection would wait behind its long poll. So this is a second client, in no
// group, that sends plain FetchRequests with no session and no wait.
//
// # What it guarantees
//
//   - A Chunk holds every record of [From, Next) that the isolation level lets
//     through, and no other; what compaction or transactions left out is simply
//     not there. Next is above From, or the Chunk says that the end was reached.
//   - An offset that is gone is ErrOutOfRange with the log's start in it.
//
// # What it does not
//
// It keeps no position and no buffer, knows no lanes and no budget, and does not
// retry but for a leader that moved: the caller decides what to read and when.
//
// # What may be changed inside
//
// Caching of leaders, request sizes, the client behind it.
package refetch
