// Package sample reads a few of a topic's records from random places, so that
// a plan can be made from what a topic really holds, and a page can say whose
// records a partition is full of. It never joins a group and never commits.
//
//	Random(partition, from, to)         one place per equal part of [from, to),
//	                                    a few records each, bytes capped
//	  from ├──●───┼─────●┼●─────┼───●──┤ to
//
//	Follow(topics, every)               the same over what arrived since the
//	                                    last look, each record with the number
//	                                    of records that it stands for
//
//	Measure(topic, time, key)           Follow, counted into a sketch
//
//	Tail(topic, n) ─▶ spans ─▶ Range    every record of the last n offsets of
//	                                    each partition
//
//	FirstVisible(partition, from)       the first record that a read_committed
//	                                    consumer would be given, if any
//
// Guarantees: places are independent of what the records hold (the tail of a
// partition shows ordinary shares minutes after an import that fills it; equal
// parts with a random place in each do not); a place costs one fetch of at
// most Config.MaxBytes, or one batch if that is larger; no record is visited
// twice by one call; a partition that cannot be read is an error that names
// it, never a short answer.
//
// It does not promise a number of records: transaction markers, compaction
// gaps and aborted records leave places empty. Counting and judging is the
// caller's (see internal/sketch).
//
// Inside, where the places lie (places.go) and how a place is fetched
// (fetch.go) may change freely.
package sample
