// Package notify delivers alerts to pagers. It is told, after each evaluation,
// the complete set of alerts that fire, and brings each target to that state.
//
//	Publish(all that fires) ──▶ latest set (older ones are overwritten)
//	                               │ one sender per target
//	          book of what that target was told ──▶ due: new, louder, ended, renotify
//	                               │
//	                     Target.Send ── ok ──────────▶ book
//	                               │ network, 429, 5xx ─▶ back-off, then the newest set
//	                               └ other 4xx ─▶ minimal payload once ─▶ fallback,
//	                                              notify_failing, again at the next Publish
//
// Guarantees: an alert that fires is delivered at least once to every target,
// and so is its end, across failures of the target and, with the State that
// the caller keeps, across restarts; a slow or dead target delays no other and
// never the caller; nothing is queued without bound, since only the newest set
// counts; redirects are not followed; no secret is in an error, a log, or a
// String.
//
// It does not promise exactly once: a crash between a delivery and the saved
// State repeats it. PagerDuty and Alertmanager recognize repeats by the dedup
// key, Slack and webhooks get them again.
//
// The identity of an alert is alertname, cluster, group, topic and pool.
// Everything else (partitions, tenant, numbers) may change while it fires and
// does not page again, except that it got louder.
//
// An alert that Config.Muted names does not begin at a target without silences
// of its own, until it is muted no longer; its end is told where its beginning
// was.
//
// A new kind of pager is one file with a Target. Payloads may change inside
// their file; the book and the sender know none of them.
package notify
