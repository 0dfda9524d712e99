// Package demo runs the main job end to end, small but true: every part is the
// one that users link, and everything goes through the Kafka client over TCP.
//
//	population ─▶ plan ─▶ table, in a topic
//	                         │
//	background load ─┐       ▼
//	                 ├─▶ partitioner.Producer ─▶ broker ─▶ 2, then 3 consumer.Runtimes
//	import, 200,000 ─┘       ▲                    │                  │ each record checked
//	                         │                    ▼                  ▼
//	          rebalance: a whale moves     lagwatch ─▶ webhook    check, latencies ─▶ Report
//
//	time  0 ──── join ─────────── import ───────────── move ──────── end ── drained
//	                 └─ "before" ─┘     └─ "during" ─┘
//
// # What is shown
//
// Records carry tenant and sequence, so the handler checks order and loss. The
// import's tenant is an ordinary one that shares its partition. Handling a
// record costs its tenant a little time, chosen so that the import's lane lags
// for at least five seconds and is done before the end, while other tenants
// feel nothing. (Where producing the import takes longer than planned, handling
// it takes twice that, or nothing would lag; the report then says how long.) The watcher runs fast for the sake of the show: it looks each
// 500 ms, pages after 2 s, from 1 s of delay on, and no expected drain holds a
// page back. A production watcher takes minutes, so that noise does not page.
//
// # What it does not show
//
// Crashes (the integration suite does) and speed (the benchmarks do): the load
// is small enough for two slow cores.
//
// # What may be changed inside
//
// The story and its words. The fields of Report are read by people's scripts.
package demo
