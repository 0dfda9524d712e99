// Package admin lets operators look at the tenants of one running worker, and
// pause, resume, skip and limit, over HTTP.
//
//	tenantlane lanes … ──▶ Client ──HTTP──▶ Server ──▶ *consumer.Runtime
//	Kubernetes probes ────────────────────────┘
//
//	GET  /-/healthy      200, or 503 when only a new process helps; needs no token
//	GET  /-/ready        200 while the worker is in its group; needs no token
//	GET  /metrics        if Config.Metrics is set
//	GET  /v1/tenants     ?limit=100&state=parked: those that want a look first
//	GET  /v1/tenant      ?name=acme or ?hex=ff00
//	GET  /v1/partitions  how far each is
//	POST /v1/pause       {"tenant":"acme","actor":"eve","reason":"…"}
//	POST /v1/resume      the same
//	POST /v1/skip        with "topic", "partition" and "offset": no other record is skipped
//	POST /v1/limit       with "weight", "concurrency", "rate", "burst"; none: as the table says
//
// A tenant that is not text is given as "tenant_hex". Answers are JSON; one
// that says no is {"error":"…"} with a status of 4xx or 503.
//
// # What it guarantees
//
//   - Without a token it serves loopback addresses only: New refuses to listen
//     on any other, and a request must name a loopback host, so that a web page
//     in a browser on this machine cannot ask by another name (DNS rebinding).
//     With a token every request but the two probes must carry it; it is
//     compared in constant time.
//   - An act is answered after it has taken effect, and says whether the group's
//     commits tell of it. Each is logged with its actor, its reason and where it
//     came from, and so is each request that is refused.
//   - An act is a POST of JSON: a form on a foreign page cannot send it.
//
// # What it does not
//
// It knows one worker: who runs several asks each. It has no users:
// the token is one secret. Without Config.TLS it is for networks that are trusted
// with it.
//
// # What may be changed inside
//
// Everything but paths and JSON fields, which scripts read.
package admin
