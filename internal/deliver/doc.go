// Package deliver is what `tenantlane worker` does: it hands each record to a
// target, keeps a log of what was handled, and stops when nothing comes any
// more. It knows no flags: the command fills its Config.
//
//	consumer.Runtime ──▶ Log.Handler ──▶ target: Discard, HTTP or Exec
//	       │                  │
//	       ├─ OnAssign ──▶ Log.Assigned      {"process":…} {"assigned":…}
//	       └─ OnCommit ──▶ Log.Committed     a line per handling, {"commit":[…]}
//
//	w, err := deliver.New(deliver.Config{Consumer: …, Target: deliver.Discard(time.Millisecond), Log: file})
//	err = w.Run(ctx)
//
// # What it guarantees
//
//   - A record counts as done after its line is in the log, in one write, so
//     that a log that a crash cut short never claims less than was committed.
//   - With HTTP a record is done when the answer is 2xx; 429 and 503 with
//     Retry-After hold only the record's lane; another 4xx is final by policy.
//   - With Exec a record is done when the command has exited with 0. Nothing of a
//     failed attempt runs on beside the next.
//
// # What it does not
//
// It does not judge logs (internal/check does), and HTTP or Exec targets may
// see a record twice: at least once is all that can be promised.
//
// # What may be changed inside
//
// Targets are consumer.Handlers and independent of each other and of the log,
// whose lines are internal/check's.
package deliver
