// Package lag decides: rounds of samples in, verdicts out. It is the rule by
// which one partition pages when it falls behind its peers, and by which
// nothing else does. It does no I/O, starts nothing, and takes its time from
// the rounds.
//
//	Log (per partition of a topic)        Tracker (per group and topic)
//	  ends over time ──▶ Delay              Observe(Round) ─▶ Verdict
//	  log start      ──▶ LossIn               take:    commits, gaps, recent track
//	  stable offset  ──▶ Hanging              measure: the pool's mean, lower medians
//	          │                               judge:   each partition
//	          └────▶ Sample ─────────▶        report:  classes, alerts
//
// A partition's way to a page:
//
//	        hot in ≥ 80 % of the known rounds
//	cool ──────────────────────────────────────▶ ready ──▶ firing ──▶ cool
//	         of a full window, and now             │         │  clear holds for
//	                                               │ held    │  keep_firing_for
//	             draining within drain_ok,         ▼         │
//	             or recovering from a pool that   ready ◀────┘ (never by silence)
//	             was late as a whole
//
// Guarantees:
//
//   - What a round does not know is Unknown. It is never lag 0; it fires
//     nothing, resolves nothing, and stops timers without setting them back.
//   - A baseline never contains the partition it judges twice over: it is the
//     less of the others' mean and the lower median, so that neither one nor
//     half of the partitions being hot hides them.
//   - Classes that need no peers (STUCK, LOSS_RISK, BEHIND, SLOW, LOST, …) do
//     not depend on min_lag or ratio.
//   - Observe allocates nothing once the partitions are known and the set of
//     alerts does not grow.
//
// It does not know tenants, clusters or receivers, it does not deliver, and it
// does not decide what to sample.
//
// The figures that the rule must keep are simulated in this package's tests
// (virtual time, fixed seeds), beside a plain threefold rule. Any threshold or
// window may be changed here without touching a neighbor, as long as those
// tests stay true.
package lag
