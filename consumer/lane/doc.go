// Package lane decides which records run next: lanes, a fair scheduler over
// them, and limits. It is pure: no I/O, no clock, no goroutine, no lock. The
// caller holds its own lock around every call and passes the time in, as a
// duration since any fixed instant.
//
// # Words
//
// A lane is the ordered queue of one order key within one partition under one
// assignment. A tenant owns lanes, in any number of partitions; a tier owns
// tenants. A grant is the exclusive right to run the first few records of a
// lane, held by a worker from Take to Release.
//
// # Data flow
//
//	Push ──▶ lane (ring) ──▶ tenant ──▶ tier ──▶ root ──Take──▶ worker
//	            ▲              one queue on virtual time each      │
//	            └───────────── Release(done, outcome) ◀────────────┘
//
// # States of a lane
//
//	(none) ──Push──▶ queued ──Take──▶ in hand ──Release──┬─▶ queued    Continue
//	                   ▲                                  ├─▶ back-off  Retry, until its time
//	                   ├──────── time, Resume, Unhold ◀───┼─▶ parked    Park, until Resume
//	                   │                                  ├─▶ held      Hold, until Unhold
//	                   │                                  └─▶ (none)    nothing unfinished is left
//	                   └── Refill ◀── overflowing ◀── Push of a full lane, Skip
//
// Overflowing is beside these: such a lane also has records that the main
// cursor skipped, or that Spill dropped from memory, between the first and the
// last skipped offset. Re-reads bring them with Refill; the lane rejoins when a
// re-read has passed the last one (Passed).
//
// Waiting at a gate is beside these too: such a lane overflows from a record
// that must not run yet (Gate, RefillGate), for a reason that only the caller
// knows. Nothing from there on is in memory, and no re-read feeds it, until
// Reopen; earlier records go on.
//
// Being late is beside them as well: such a lane lies too far below the cursor
// (MarkLate). It is granted nothing more, and its records go through TakeLate to
// the caller, who gives them up, until the lane is within the limit again.
//
// # What it guarantees
//
//   - Records of a lane are granted in offset order, by one grant at a time
//     (any number for an unordered lane), and a record that was not done comes
//     back to the front.
//   - A lane exists while it has an unfinished record and is freed when it has
//     none. Unfinished: queued, in hand, in back-off, parked, held, skipped.
//   - Handler time is shared by weight, first between tiers, then between the
//     tenants of a tier, then between the lanes of a tenant, among those that
//     have runnable work. One that wakes starts at the later of its own and the
//     current virtual time: idling earns nothing, and a debt is not forgiven by
//     running empty. Memory is held for lanes with work and for debts only, so
//     it does not grow with the tenants seen.
//   - No more than the allowed grants of a tenant and of a tier are in hand,
//     across partitions and across assignments: a grant counts until it is
//     released, also when its partition was revoked in between. An ordered
//     lane of a new assignment waits until the grant of the same lane from an
//     earlier one is released.
//   - After Revoke, nothing of that partition is granted and no Release of its
//     grants changes anything but limits and virtual time.
//   - Push, Take and Release allocate nothing in the steady state and cost
//     O(log n) of the tenants that have work.
//
// A Resource is a limit apart from lanes, for what handlers share beside Kafka:
// claims on it are granted by virtual time too.
//
// # What it does not
//
// It does not run handlers, read the clock, decide back-off times, or know what
// a record is. It does not bound the whole worker: the caller reads Records and
// Bytes and stops polling. It does not compute watermarks: consumer/offset does,
// from Behind.
//
// # What may be changed inside
//
// The queues, the virtual clock (group.go), the estimates (estimate.go), the
// token bucket and the ring may be replaced without touching a caller: world,
// a random life of a worker in the tests, and the simulations of fairness hold
// them to what is promised here. The meaning of the 32-bit name is the
// caller's (Config.Name).
package lane
