// Package middleware wraps a worker's handler: in logs, metrics, spans, a
// deadline, or a memory of what was handled.
//
//	h := middleware.Chain(handle,
//		middleware.Tracing(tracer),
//		middleware.Logging(log),
//		middleware.Dedup(middleware.NewWindow(1_000_000), nil),
//	)
//	rt, err := consumer.New(cfg, h)
//
//	record ──▶ Tracing ──▶ Logging ──▶ Dedup ──▶ handle
//	error  ◀───────────────────────────────────────┘
//
// Each is a func(consumer.Handler) consumer.Handler, so that one's own fits
// between them.
//
// # What it guarantees
//
// None changes what an error means to the runtime: they hand it on unwrapped.
// A panic passes through; the runtime makes it an error.
//
// # What it does not
//
// Dedup is not exactly-once: it remembers a bounded number of records of one
// process, and says how many it has forgotten.
//
// # What may be changed inside
//
// Every one on its own. Metric names are fixed.
package middleware
