// Package consumer is what a worker links: it consumes topics as a member of a
// group and handles the records of each tenant in order, many tenants at once,
// also within one partition.
//
//	rt, err := consumer.New(consumer.Config{Group: "billing", Topics: []string{"orders"}, Table: src}, handler)
//	err = rt.Run(ctx) // blocks; cancel drains, commits, leaves
//
// # Data flow
//
//	poll loop ──▶ admission ──▶ lanes ──▶ workers ──▶ Handler
//	    ▲            (table)   (consumer/lane)  │  ▲
//	    │ room                                  │  └─ back-off, RetryAfter: only the lane waits
//	    └─────────────── settled ◀──────────────┼──▶ dead-letter topic; parked
//	                        │
//	                        └──▶ watermark (consumer/offset) ──▶ committer ──▶ Kafka
//
// # What it guarantees
//
//   - Records of a lane (by default: of one tenant in one partition) are handled
//     one at a time, in offset order, each until it succeeds, is skipped by its
//     handler, or its policy parks the lane or dead-letters it. A tenant has one
//     lane in hand at a time over all partitions of a worker.
//   - At least once. What is committed is done; a crash repeats what was in
//     flight, what was done since the last acknowledged commit, and what was
//     done at or above the frontier when more lanes are behind than a commit can
//     name. Metadata that is in doubt is ignored: that costs repeats, no loss.
//   - A lane that is full does not hold back its partition: the worker reads on,
//     and reads what it skipped again, within a budget (consumer/refetch). Beyond
//     Config.MaxDistance its oldest records are dead-lettered, or the partition
//     waits, as Config.TooFar says.
//   - A tenant that is slow, fails or floods holds its own lane only. No worker
//     waits for a back-off, and a handler that ignores its deadline gives its
//     worker slot back (and keeps its lane, so that order holds).
//   - A tenant or slot that moves (rebalance/move) keeps its order: its records
//     wait at a fence until the move has ended, and in the new partition until
//     the group's commits show its lane done in every earlier one. What waits is
//     not in memory, and delays nobody else. A record behind the fence that ended
//     its tenant is stale: no handler gets it, it goes to <topic>.tl-quarantine.
//     All that needs a Table that can be read to its end (store.Topic); such a
//     worker reads it before it admits anything of a partition.
//   - The poll loop never waits for a handler, so the group never evicts a
//     worker for being slow. Records and bytes in the worker are bounded; beside
//     them the client holds up to two responses of each broker, one that waits to
//     be admitted and the next.
//   - What handlers share beside Kafka can be limited (Config.Resources,
//     Record.Acquire): tenants that wait for it take turns.
//   - A stop and a hand-over finish within their deadlines, whatever handlers do.
//
// # What it does not
//
// Exactly once: handlers must bear repeats. Order between tenants. It creates no
// topics but those for stale records, and does not end stuck handlers'
// goroutines: nothing in Go can.
//
// # What may be changed inside
//
// engine.go and what it is made of (stage, admit, worker, settle, clock, drain,
// reread, late, moves, fence, fault, engine_control) know no Kafka client;
// runtime.go, poll.go, group.go, commit.go, begin.go, checkpoint.go, evidence.go
// and tableend.go are all that talk to it.
// Which record runs next is decided in consumer/lane, what a commit says in
// consumer/offset, what waits for a move in rebalance/move.
package consumer
