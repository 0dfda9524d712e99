// Package sketch finds the heavy hitters of a stream in fixed memory.
//
// It is for whoever must name the tenants that make the most volume without
// counting every tenant: the planner that samples a topic, and the lag watcher
// that says who filled a partition. The algorithm is Space-Saving (Metwally,
// Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in
// Data Streams", 2005), weighted, over an indexed min-heap.
//
//	Add(key, n) ── known ──▶ count += n, sift down
//	            ── room ───▶ new counter n, error 0
//	            ── full ───▶ the smallest counter c is taken over:
//	                         count = c + n, error = c
//
// Guarantees, with N the total weight added and k the counters of New:
//
//   - every key whose true weight is above N/k is among the entries;
//   - for every entry, Count − Err ≤ true weight ≤ Count;
//   - a key that is not among the entries weighs at most the smallest Count;
//   - adding a known key does not allocate.
//
// After Merge the last three hold unchanged and the first holds for 2N/k.
//
// It does not guarantee that an entry near the bottom is truly heavy (look at
// Err), it does not bound the length of keys (memory is k keys), and it is not
// safe for concurrent use: one owner.
//
// The heap may be replaced by any other structure that finds the smallest
// counter; callers see only entries.
package sketch
