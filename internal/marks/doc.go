// Package marks says which records of a partition are dealt with, as sets of
// offsets and as the text of them that a mark's header holds.
//
//	offsets dealt with ──Format──▶ "7,9-12" in the header of a mark, in the partition itself
//	every mark there ──Set.Add──▶ Set ──Has──▶ was the record at an offset dealt with?
//
// A set grows by ranges, so that a topic that was dealt with as a whole takes a
// few bytes. A text has one form: ranges ascend and do not touch.
//
// # What may be changed inside
//
// How a Set keeps its ranges. The text lies in topics.
package marks
